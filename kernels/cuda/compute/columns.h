// Sums down the columns of a matrix: a block takes a strip of columns of a shard of rows; each thread adds
// every so many rows of one column, and the threads of a column meet in a tree. Sums over a warp.
#pragma once

#include "kernels/cuda/compute/map.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

inline constexpr int kStripThreads = 256;

// Lanes as a tree; each gets the sum.
template <class Number>
__device__ Number warp_sum(Number v) {
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) v += __shfl_xor_sync(kAllLanes, v, lanes);
  return v;
}

// Kernels in which a warp does the work of a row.
inline constexpr int kRowThreads = 256, kRowsOfBlock = kRowThreads / kWarp;
inline std::int64_t row_blocks(std::int64_t rows) {
  return (rows + kRowsOfBlock - 1) / kRowsOfBlock;
}
__device__ inline std::int64_t row_of_warp() {
  return std::int64_t{1} * blockIdx.x * kRowsOfBlock + threadIdx.x / kWarp;
}
__device__ inline int lane_of_warp() {
  return static_cast<int>(threadIdx.x) % kWarp;
}

// Columns of a strip, a power of two: all of a narrow matrix, so that few threads idle.
inline int strip_columns(std::int64_t columns) {
  int strip = 8;
  while (strip < kWarp && strip < columns) strip *= 2;
  return strip;
}

// What a block's sums become: part `shard` of [shard][term][column].
template <int kTerms, class Number>
struct StoreSums {
  std::int64_t columns;
  Number* sums;
  template <class Sum>
  LPMM_HD void operator()(std::int64_t shard, std::int64_t column, const Sum (&of)[kTerms]) const {
    for (int k = 0; k < kTerms; ++k) sums[(shard * kTerms + k) * columns + column] = of[k];
  }
};

// And back, as rows that are added up again.
template <int kTerms, class Number>
struct ShardTerms {
  std::int64_t columns;
  const Number* sums;
  LPMM_HD void operator()(std::int64_t shard, std::int64_t column, Number (&of)[kTerms]) const {
    for (int k = 0; k < kTerms; ++k) of[k] = sums[(shard * kTerms + k) * columns + column];
  }
};

// Terms of kVector neighbouring columns at once, of memory that is aligned for it.
template <class Terms, int kTerms>
concept WideTerms = requires(const Terms& terms, float (&of)[kTerms][kVector]) {
  terms.wide(0, 0, of);
};

// terms(row, column, of) gives what is added up, finish(shard, column, sums) takes the sums. A thread has
// kWide columns.
template <int kTerms, int kWide, class Number, class Terms, class Finish>
__global__ void sum_strip(std::int64_t rows, std::int64_t columns, std::int64_t shard_rows, int strip,
                          Terms terms, Finish finish) {
  auto* const sums = static_cast<Number*>(dynamic_shared());  // [term][column of a thread][thread]
  const int thread = static_cast<int>(threadIdx.x), across = strip / kWide;
  const std::int64_t strips = (columns + strip - 1) / strip, shard = blockIdx.x / strips;
  const std::int64_t column = blockIdx.x % strips * strip + thread % across * kWide;
  const std::int64_t end = rows < (shard + 1) * shard_rows ? rows : (shard + 1) * shard_rows;
  Number sum[kTerms][kWide] = {};
  if (column < columns) {
    for (std::int64_t row = shard * shard_rows + thread / across; row < end; row += kStripThreads / across) {
      if constexpr (kWide == 1) {
        Number of[kTerms];
        terms(row, column, of);
        for (int k = 0; k < kTerms; ++k) sum[k][0] += of[k];
      } else {
        Number of[kTerms][kWide];
        terms.wide(row, column, of);
        for (int k = 0; k < kTerms * kWide; ++k) sum[k / kWide][k % kWide] += of[k / kWide][k % kWide];
      }
    }
  }
  for (int k = 0; k < kTerms * kWide; ++k) sums[k * kStripThreads + thread] = sum[k / kWide][k % kWide];
  for (int half = kStripThreads / 2; half >= across; half /= 2) {
    __syncthreads();
    if (thread >= half) continue;
    for (int k = 0; k < kTerms * kWide; ++k) {
      sums[k * kStripThreads + thread] += sums[k * kStripThreads + thread + half];
    }
  }
  if (thread >= across || column >= columns) return;
  for (int i = 0; i < kWide; ++i) {
    Number of[kTerms];
    for (int k = 0; k < kTerms; ++k) of[k] = sums[(k * kWide + i) * kStripThreads + thread];
    finish(shard, column + i, of);
  }
}

// `is_wide`: columns are whole vectors, and the memory of the terms is aligned.
template <int kTerms, class Number, class Terms, class Finish>
void sum_columns(Stream stream, std::int64_t rows, std::int64_t columns, std::int64_t shard_rows,
                 const Terms& terms, const Finish& finish, bool is_wide = false) {
  const auto run = [&](auto kernel, int strip, int wide) {
    const std::int64_t blocks = (rows + shard_rows - 1) / shard_rows * ((columns + strip - 1) / strip);
    launch(kernel, blocks, kStripThreads,
           static_cast<std::int64_t>(sizeof(Number)) * kTerms * wide * kStripThreads, stream, rows, columns,
           shard_rows, strip, terms, finish);
  };
  if constexpr (WideTerms<Terms, kTerms>) {
    constexpr int kWideStrip = 8 * kVector;
    if (is_wide) return run(sum_strip<kTerms, kVector, Number, Terms, Finish>, kWideStrip, kVector);
  }
  run(sum_strip<kTerms, 1, Number, Terms, Finish>, strip_columns(columns), 1);
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
