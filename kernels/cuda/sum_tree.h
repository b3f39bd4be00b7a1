// The tree over the sums of pieces (kernels/sums.h), by many blocks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/launch.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

inline constexpr int kSumsOfBlock = 1024;  // a power of 2: each block has a subtree

// A template, so that several files may have it.
template <int kSums>
__global__ void sum_subtrees(const double* sums, std::int64_t count, double* to) {
  auto* const shared = static_cast<double*>(dynamic_shared());
  const std::int64_t first = std::int64_t{blockIdx.x} * kSums;
  const int here = count - first < kSums ? static_cast<int>(count - first) : kSums;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  for (int i = thread; i < here; i += threads) shared[i] = sums[first + i];
  __syncthreads();
  for (int width = 1; width < here; width *= 2) {
    for (int i = 2 * width * thread; i + width < here; i += 2 * width * threads) {
      shared[i] += shared[i + width];
    }
    __syncthreads();
  }
  if (thread == 0) to[blockIdx.x] = here > 0 ? shared[0] : 0.0;
}

// Doubles that sum_pieces() needs besides the sums.
inline std::int64_t sum_room(std::int64_t count) {
  return count / (kSumsOfBlock - 1) + 2;
}
// to <- the sum of `count` sums; of none it is 0.
inline void sum_pieces(const double* sums, std::int64_t count, double* room, double* to, Stream stream) {
  while (true) {
    const std::int64_t blocks = std::max<std::int64_t>(1, (count + kSumsOfBlock - 1) / kSumsOfBlock);
    double* const level = blocks == 1 ? to : room;
    launch(sum_subtrees<kSumsOfBlock>, blocks, kThreads, std::int64_t{kSumsOfBlock * sizeof(double)}, stream,
           sums, count, level);
    if (blocks == 1) return;
    sums = level;
    room = level + blocks;
    count = blocks;
  }
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
