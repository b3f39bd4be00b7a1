// Copies from global to shared memory that a thread does not wait for. A thread commits what it has asked for
// as one group; wait<N>() returns when all but its last N groups are there. Other threads see them after a
// barrier. On the host they are made at once.
#pragma once

#include "kernels/cuda/launch.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

// 16 bytes, both ends aligned to as many.
LPMM_DEVICE void copy16(void* shared, const void* from) {
#if defined(__CUDACC__)
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(__cvta_generic_to_global(from))
               : "memory");
#else
  std::memcpy(shared, from, 16);
#endif
}
LPMM_DEVICE void commit() {
#if defined(__CUDACC__)
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int kGroupsLeft>
LPMM_DEVICE void wait() {
#if defined(__CUDACC__)
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroupsLeft) : "memory");
#endif
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
