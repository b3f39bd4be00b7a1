// The tree over the sums of pieces (kernels/sums.h): by launches of their own, or by the last block of the
// launch that makes them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/launch.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

inline constexpr int kSumsOfBlock = 1024;  // a power of 2: each block has a subtree

// A template, so that several files may have it.
template <int kSums>
__global__ void sum_subtrees(const double* sums, std::int64_t count, double* to) {
  begin_kernel();
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

// ---- within a launch -------------------------------------------------------------------------------------
inline constexpr int kTreeWarps = 4, kTreeThreads = kTreeWarps * kWarp;  // of its blocks

// True if all `blocks` of a launch have come here, this one last: what the others wrote before can be read.
// `arrived` is 0 before and afterwards; `shared`: memory of the block that nothing else is in.
LPMM_DEVICE bool is_last_of(std::uint32_t blocks, std::uint32_t* arrived, std::uint32_t* shared) {
  __syncthreads();
  if (threadIdx.x == 0) {
    publish();
    *shared = add_to(arrived, 1) == blocks - 1 ? 1 : 0;
    if (*shared != 0) *arrived = 0;
    publish();
  }
  __syncthreads();
  const bool is_last = *shared != 0;
  __syncthreads();  // that memory is free again
  return is_last;
}

// The memory for the sums of blocks, which are neighbours in the tree.
struct BlockSums {
  double* of_blocks = nullptr;  // and then of the levels above them
  std::uint32_t* arrived = nullptr;
  double* to = nullptr;  // null: no sum is wanted
};

// The sum over the threads of a block, as a tree from pairs `distance` apart on; the first thread has it.
// `of_warps`: shared memory.
LPMM_DEVICE double sum_of_threads(double sum, int distance, double* of_warps) {
  for (; distance < kWarp; distance *= 2) sum += __shfl_xor_sync(kAllLanes, sum, distance);
  __syncthreads();  // all have read what was there
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = sum;
  __syncthreads();
  return (of_warps[0] + of_warps[1]) + (of_warps[2] + of_warps[3]);
}

// The last block that arrives sums what all have left, whichever it is.
LPMM_DEVICE void sum_blocks(const BlockSums& sums, double of_block, double* of_warps) {
  if (gridDim.x == 1) {
    if (threadIdx.x == 0) *sums.to = of_block;
    return;
  }
  if (threadIdx.x == 0) sums.of_blocks[blockIdx.x] = of_block;
  if (!is_last_of(gridDim.x, sums.arrived, reinterpret_cast<std::uint32_t*>(of_warps))) return;
  constexpr std::uint32_t kEach = kSumsOfBlock / kTreeThreads;
  double sum = 0;
  for (std::uint32_t count = gridDim.x; count > 1; count = (count + kSumsOfBlock - 1) / kSumsOfBlock) {
    for (std::uint32_t first = 0; first < count; first += kSumsOfBlock) {
      const std::uint32_t mine = first + kEach * threadIdx.x;
      double each[kEach];
      LPMM_UNROLL for (std::uint32_t i = 0; i < kEach; ++i) {
        each[i] = mine + i < count ? from_other(sums.of_blocks + mine + i) : 0.0;
      }
      LPMM_UNROLL for (std::uint32_t width = 1; width < kEach; width *= 2) {
        LPMM_UNROLL for (std::uint32_t i = 0; i < kEach; i += 2 * width) each[i] += each[i + width];
      }
      sum = sum_of_threads(each[0], 1, of_warps);
      if (threadIdx.x == 0) sums.of_blocks[first / kSumsOfBlock] = sum;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) *sums.to = sum;
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
