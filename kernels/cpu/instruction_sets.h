// True if this processor, under this system, runs code compiled for one of Highway's sets. Asked of the
// compiler's library, so that packed memory needs none of Highway's.
#pragma once

namespace lpmm::kernels {

#if defined(__x86_64__)
inline bool has_avx2() {  // lzcnt and f16c too: every processor with the others has them
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
}
inline bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd");
}
#endif

}  // namespace lpmm::kernels
