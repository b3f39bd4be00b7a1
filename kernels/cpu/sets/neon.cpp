// Packed memory's loops for NEON.
#include <hwy/detect_targets.h>

#if HWY_TARGETS & HWY_NEON
#undef HWY_TARGET
#define HWY_TARGET HWY_NEON
#include "kernels/cpu/sets/vector_set-inl.h"
#endif
