// Packed memory's loops for AVX-512.
#include <hwy/detect_targets.h>

#if HWY_TARGETS & HWY_AVX3
#undef HWY_TARGET
#define HWY_TARGET HWY_AVX3
#include "kernels/cpu/sets/vector_set-inl.h"
#endif
