// Sums down the columns of a matrix: a block takes a strip of columns of a shard of rows; each thread adds
// every so many rows of its columns, and the threads of a column meet in a tree. The sums of shards are added
// up by the last block to finish, where AddShards says so: which one that is does not matter. Sums over a
// warp.
#pragma once

#include <algorithm>

#include "kernels/cuda/compute/map.h"
#include "kernels/cuda/sum_tree.h"

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

// Columns of a strip, a power of two: more than eight only where there are many blocks.
inline int strip_columns(std::int64_t shards, std::int64_t columns) {
  constexpr std::int64_t kManyBlocks = 512;
  int strip = 8;
  while (strip < kWarp && shards * columns > strip * kManyBlocks) strip *= 2;
  return strip;
}

// Stores a block's sums as part `shard` of [shard][term][column].
template <int kTerms, class Number>
struct StoreSums {
  std::int64_t columns;
  Number* sums;
  template <class Sum>
  LPMM_HD void operator()(std::int64_t shard, std::int64_t column, const Sum (&of)[kTerms]) const {
    for (int k = 0; k < kTerms; ++k) sums[(shard * kTerms + k) * columns + column] = of[k];
  }
};

// Reads them back, as rows that are added up again.
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

// Terms that look at a shard's first row, or at its columns, before all others.
template <class Terms>
concept BeginTerms = requires(Terms& terms) {
  terms.begin(0, 0);
};

// The sums of rows from `first` to `end` of a strip, by all threads of a block: finish(column, sums) for each
// column. A thread has kWide columns.
template <int kTerms, int kWide, class Number, class Terms, class Finish>
LPMM_DEVICE void sum_rows_of_strip(std::int64_t first, std::int64_t end, std::int64_t begin, int strip,
                                   std::int64_t columns, Terms terms, const Finish& finish) {
  auto* const sums = static_cast<Number*>(dynamic_shared());  // [term][column of a thread][thread]
  const int thread = static_cast<int>(threadIdx.x), across = strip / kWide;
  const std::int64_t column = begin + thread % across * kWide;
  Number sum[kTerms][kWide] = {};
  if (column < columns) {
    if constexpr (BeginTerms<Terms>) terms.begin(first, column);
    const int lines = kStripThreads / across;
    std::int64_t row = first + thread / across;
    // So many rows that their loads run together.
    const auto add = [&]<int kRows>(std::integral_constant<int, kRows>) {
      for (; row + (kRows - 1) * lines < end; row += kRows * lines) {
        LPMM_UNROLL
        for (int turn = 0; turn < kRows; ++turn) {
          Number of[kTerms][kWide];
          if constexpr (kWide == 1) {
            Number one[kTerms];
            terms(row + turn * lines, column, one);
            for (int k = 0; k < kTerms; ++k) of[k][0] = one[k];
          } else {
            terms.wide(row + turn * lines, column, of);
          }
          for (int k = 0; k < kTerms * kWide; ++k) sum[k / kWide][k % kWide] += of[k / kWide][k % kWide];
        }
      }
    };
    if constexpr (kWide == 1) add(std::integral_constant<int, 8>());
    add(std::integral_constant<int, 4>());
    add(std::integral_constant<int, 2>());
    add(std::integral_constant<int, 1>());
  }
  for (int k = 0; k < kTerms * kWide; ++k) sums[k * kStripThreads + thread] = sum[k / kWide][k % kWide];
  for (int half = kStripThreads / 2; half >= across; half /= 2) {
    __syncthreads();
    if (thread >= half) continue;
    for (int k = 0; k < kTerms * kWide; ++k) {
      sums[k * kStripThreads + thread] += sums[k * kStripThreads + thread + half];
    }
  }
  if constexpr (kWide > 1) __syncthreads();
  if (thread >= strip || begin + thread >= columns) return;
  Number of[kTerms];
  for (int k = 0; k < kTerms; ++k)
    of[k] = sums[(k * kWide + thread % kWide) * kStripThreads + thread / kWide];
  finish(begin + thread, of);
}

// Nothing is done with the sums of shards by the same launch.
struct Apart {};
// The last block of a strip adds them up: terms(shard, column, of), finish(column, sums).
template <class Terms, class Finish>
struct AddShards {
  std::uint32_t* arrived;  // one of each strip
  Terms terms;
  Finish finish;
};
template <class Terms, class Finish>  // clang before 17 deduces none of aggregates
AddShards(std::uint32_t*, Terms, Finish)->AddShards<Terms, Finish>;

// terms(row, column, of) gives what is added up, finish(shard, column, sums) takes the sums.
template <int kTerms, int kWide, class Number, class Terms, class Finish, class Then>
__global__ void sum_strip(std::int64_t rows, std::int64_t columns, std::int64_t shard_rows, int strip,
                          Terms terms, Finish finish, Then then) {
  begin_kernel();
  const std::int64_t strips = (columns + strip - 1) / strip;
  const Place block = Place::of(blockIdx.x, strips);  // a shard's strip
  const std::int64_t shard = block.row, at = block.column, first = shard * shard_rows;
  const std::int64_t end = rows < first + shard_rows ? rows : first + shard_rows;
  sum_rows_of_strip<kTerms, kWide, Number>(
      first, end, at * strip, strip, columns, terms,
      [&](std::int64_t column, const Number(&of)[kTerms]) { finish(shard, column, of); });
  if constexpr (!std::is_same_v<Then, Apart>) {
    const std::int64_t shards = gridDim.x / strips;
    auto* const room = static_cast<std::uint32_t*>(dynamic_shared());
    if (!is_last_of(static_cast<std::uint32_t>(shards), then.arrived + at, room)) return;
    sum_rows_of_strip<kTerms, 1, double>(0, shards, at * strip, strip, columns, then.terms, then.finish);
  }
}

template <int kTerms, class Number>
constexpr std::int64_t strip_bytes(int wide) {
  return static_cast<std::int64_t>(sizeof(Number)) * kTerms * wide * kStripThreads;
}

// `is_wide`: columns are whole vectors, and the memory of the terms is aligned.
template <int kTerms, class Number, class Terms, class Finish>
void sum_columns(Stream stream, std::int64_t rows, std::int64_t columns, std::int64_t shard_rows,
                 const Terms& terms, const Finish& finish, bool is_wide = false) {
  const std::int64_t shards = (rows + shard_rows - 1) / shard_rows;
  const auto run = [&](auto kernel, int strip, int wide) {
    launch(kernel, shards * ((columns + strip - 1) / strip), kStripThreads, strip_bytes<kTerms, Number>(wide),
           stream, rows, columns, shard_rows, strip, terms, finish, Apart{});
  };
  if constexpr (WideTerms<Terms, kTerms>) {
    constexpr int kWideStrip = 8 * kVector;
    if (is_wide) return run(sum_strip<kTerms, kVector, Number, Terms, Finish, Apart>, kWideStrip, kVector);
  }
  run(sum_strip<kTerms, 1, Number, Terms, Finish, Apart>, strip_columns(shards, columns), 1);
}

// Sums of whole columns by one launch; there are rows and columns. Its strips are narrow, so that their last
// blocks have little to do, but where columns are many.
inline int whole_strip(std::int64_t columns) {
  return columns <= 8 ? 8 : columns <= 512 ? 16 : 64;
}
inline std::int64_t whole_strips(std::int64_t columns) {
  return (columns + whole_strip(columns) - 1) / whole_strip(columns);
}
// Rows of a shard: as many blocks as keep a large device busy, each with four turns or more where there are.
inline std::int64_t whole_shard_rows(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kBlocks = 512, kMostShards = 256, kTurn = 128;
  const std::int64_t share = kBlocks / whole_strips(columns);
  const std::int64_t shards = share < 1 ? 1 : share < kMostShards ? share : kMostShards;
  return (rows + shards * kTurn - 1) / (shards * kTurn) * kTurn;
}
// More rows may be fewer shards.
inline std::int64_t whole_shards(std::int64_t rows, std::int64_t columns) {
  const std::int64_t shard_rows = whole_shard_rows(rows, columns);
  return (rows + shard_rows - 1) / shard_rows;
}
template <int kTerms, int kWide, class Terms, class Finish, class Then>
void sum_whole_columns(Stream stream, std::int64_t rows, std::int64_t columns, const Terms& terms,
                       const Finish& finish, const Then& then) {
  const std::int64_t shard_rows = whole_shard_rows(rows, columns);
  const std::int64_t blocks = whole_shards(rows, columns) * whole_strips(columns);
  constexpr std::int64_t kBytes = std::max(strip_bytes<kTerms, float>(kWide), strip_bytes<kTerms, double>(1));
  launch(sum_strip<kTerms, kWide, float, Terms, Finish, Then>, blocks, kStripThreads, kBytes, stream, rows,
         columns, shard_rows, whole_strip(columns), terms, finish, then);
}

// The same, where the sums of shards, [shard][term][column], only lie in `room` on their way; `arrived` has a
// counter for each strip. finish(column, sums).
template <int kTerms, class Terms, class Finish>
void sum_whole_columns(Stream stream, std::int64_t rows, std::int64_t columns, double* room,
                       std::uint32_t* arrived, const Terms& terms, const Finish& finish, bool is_wide) {
  const StoreSums<kTerms, double> store{columns, room};
  const AddShards then{arrived, ShardTerms<kTerms, double>{columns, room}, finish};
  is_wide ? sum_whole_columns<kTerms, kVector>(stream, rows, columns, terms, store, then)
          : sum_whole_columns<kTerms, 1>(stream, rows, columns, terms, store, then);
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
