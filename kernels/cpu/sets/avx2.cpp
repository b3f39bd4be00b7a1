// Packed memory's loops for AVX2.
#include <hwy/detect_targets.h>

#if HWY_TARGETS & HWY_AVX2
#undef HWY_TARGET
#define HWY_TARGET HWY_AVX2
#include "kernels/cpu/sets/vector_set-inl.h"
#endif
