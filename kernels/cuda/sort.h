// Sorting by the threads of a block. nvcc: CUB's radix sort; the host's compiler: the standard library's.
// Keys are whole numbers, of which there is one sorted order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/launch.h"
#if defined(__CUDACC__)
#include <cub/block/block_radix_sort.cuh>
#endif

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

// Sorts `kKeys` keys of shared memory, which all threads of a block, kThreads of them, have written before.
template <int kKeys>
LPMM_DEVICE void sort_block(std::uint32_t* keys) {
  static_assert(kKeys % kThreads == 0);
#if defined(__CUDACC__)
  constexpr int kOfThread = kKeys / kThreads;
  using Sort = cub::BlockRadixSort<std::uint32_t, kThreads, kOfThread>;
  __shared__ typename Sort::TempStorage room;
  std::uint32_t mine[kOfThread];
  for (int i = 0; i < kOfThread; ++i) mine[i] = keys[threadIdx.x * kOfThread + i];
  Sort(room).Sort(mine);
  for (int i = 0; i < kOfThread; ++i) keys[threadIdx.x * kOfThread + i] = mine[i];
#else
  if (threadIdx.x == 0) std::sort(keys, keys + kKeys);
#endif
  __syncthreads();
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
