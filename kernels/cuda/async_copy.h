// Copies from global to shared memory that a thread does not wait for. A thread commits what it has asked for
// as one group; wait<N>() returns when all but its last N groups are there. Other threads see them after a
// barrier. On the host a block makes them at once, or not before it must (Block::begin_copy).
#pragma once

#include "kernels/cuda/launch.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

// kBytes, 4 or 16, both ends aligned to as many; zeros where they are not there, and then `from` is not read.
template <int kBytes>
LPMM_DEVICE void begin_copy(void* shared, const void* from, bool is_there) {
#if defined(__CUDACC__)
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  const int bytes = is_there ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(kBytes), "r"(bytes)
                 : "memory");
  }
#else
  if ((reinterpret_cast<std::uintptr_t>(shared) | reinterpret_cast<std::uintptr_t>(from)) % kBytes != 0) {
    throw std::logic_error("a copy to shared memory that is not aligned");
  }
  Block::begin_copy(shared, is_there ? from : nullptr, kBytes);
#endif
}
// 16 bytes that are there.
LPMM_DEVICE void copy16(void* shared, const void* from) {
  begin_copy<16>(shared, from, true);
}
LPMM_DEVICE void commit() {
#if defined(__CUDACC__)
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  Block::commit_copies();
#endif
}
template <int kGroupsLeft>
LPMM_DEVICE void wait() {
#if defined(__CUDACC__)
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroupsLeft) : "memory");
#else
  Block::wait_for_copies(kGroupsLeft);
#endif
}

// Waits for all copies that this thread has asked for, committed or not.
LPMM_DEVICE void wait_for_copies() {
#if defined(__CUDACC__)
  asm volatile("cp.async.wait_all;" ::: "memory");
#else
  Block::commit_copies();
  Block::wait_for_copies(0);
#endif
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
