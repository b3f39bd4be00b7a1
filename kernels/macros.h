// The one place where host and device code agree on decoration.
#pragma once

#if defined(__CUDACC__)
#define LPMM_HD __host__ __device__ __forceinline__
#else
#define LPMM_HD inline __attribute__((always_inline))
#endif
