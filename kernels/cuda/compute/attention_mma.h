// Tiles of attention on tensor cores, after Dao 2023 (arXiv 2307.08691): bf16 factors, fp32 sums and softmax.
// Each of a block's warps has 16 rows that it owns, queries or keys, and the block goes over tiles of others.
// A warp's scores stay in its registers, where they are the left factor of the next product.
//
// That factor is rounded to bf16, as in Dao's kernels: probabilities, and the gradients of scores, each with
// a relative error of at most 2^-9. Results are sums of them times values, so their error is at most 2^-9
// times the sum of the products' magnitudes, and their own rounding is as large. Sums of probabilities, log
// sums and dots are of fp32.
#pragma once

#include "kernels/cuda/compute/attention_heads.h"
#include "kernels/cuda/compute/mma.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

// kHeadWidth: head_width, padded with zeros. kOtherRows: of a tile of others. Rows lie so that the eight that
// are read at once are in different banks.
template <int kHeadWidth, int kOtherRows>
struct MmaTile {
  static constexpr int kWidth = kHeadWidth, kOthers = kOtherRows;
  static constexpr int kThreads = 128, kOwn = kThreads / kWarp * 16;
  static constexpr int kSteps = kWidth / 16;  // of a product over the width
  static constexpr int kStride = kWidth + 8;
  static constexpr int kOwnCells = kOwn * kStride, kOtherCells = kOthers * kStride;
  static constexpr bool kKeepsOwn = kWidth <= 64;  // in registers
  using Scores = Sums[kOthers / 8];
  using Results = Sums[kWidth / 8];

  // The first of a warp's rows in the tile; of them, this thread's row i, 0 or 1.
  __device__ static int warp_row() { return static_cast<int>(threadIdx.x) / kWarp * 16; }
  __device__ static int row(int i) { return warp_row() + lane_of_mma() / 4 + 8 * i; }
  // Column e, 0 or 1, of matrix n of scores or results.
  __device__ static int column(int n, int e) { return 8 * n + lane_of_mma() % 4 * 2 + e; }
};

// Begins to copy `rows` rows from row `first` on; what is not there is 0.
template <class T>
LPMM_DEVICE void begin_tile(const HeadRows& from, std::int64_t first, int rows, Bf16* tile) {
  constexpr int kPieces = T::kWidth / 8;
  const Bf16* const cells = static_cast<const Bf16*>(from.values) + from.at;
  LPMM_UNROLL
  for (int i = static_cast<int>(threadIdx.x); i < rows * kPieces; i += T::kThreads) {
    const int row = i / kPieces, c = i % kPieces * 8;
    const bool is_there = first + row < from.rows && c < from.width;
    begin_copy<16>(tile + row * T::kStride + c, is_there ? cells + (first + row) * from.stride + c : cells,
                   is_there);
  }
}

// A warp's rows of its own tile, a left factor: in registers where there is room.
template <class T>
struct OwnRows {
  SharedCells cells;
  Quad kept[T::kKeepsOwn ? T::kSteps : 1];

  LPMM_DEVICE explicit OwnRows(const Bf16* tile)
      : cells(SharedCells::at(tile) +
              ((T::warp_row() + lane_of_mma() % 16) * T::kStride + lane_of_mma() / 16 * 8)) {
    if constexpr (T::kKeepsOwn) {
      LPMM_UNROLL
      for (int step = 0; step < T::kSteps; ++step) kept[step] = load_matrices(cells + 16 * step);
    }
  }
  LPMM_DEVICE Quad at(int step) const {
    if constexpr (T::kKeepsOwn) {
      return kept[step];
    } else {
      return load_matrices(cells + 16 * step);
    }
  }
};

// scores = own * others^T
template <class T>
LPMM_DEVICE void multiply_mma(const OwnRows<T>& own, const Bf16* others, typename T::Scores& scores) {
  const int lane = lane_of_mma();
  const SharedCells from =
      SharedCells::at(others) + ((lane / 16 * 8 + lane % 8) * T::kStride + lane / 8 % 2 * 8);
  LPMM_UNROLL
  for (int n = 0; n < T::kOthers / 8; ++n) scores[n] = {};
  LPMM_UNROLL
  for (int step = 0; step < T::kSteps; ++step) {
    Quad right[T::kOthers / 16];
    LPMM_UNROLL
    for (int n = 0; n < T::kOthers / 16; ++n) {
      right[n] = load_matrices(from + (16 * n * T::kStride + 16 * step));
    }
    multiply_add(scores, own.at(step), right);
  }
}
// results += scores * others
template <class T>
LPMM_DEVICE void accumulate_mma(const typename T::Scores& scores, const Bf16* others,
                                typename T::Results& results) {
  constexpr int kQuads = T::kWidth < 64 ? T::kWidth / 16 : 4;  // at a time
  const int lane = lane_of_mma();
  const SharedCells from = SharedCells::at(others) + (lane % 16 * T::kStride + lane / 16 * 8);
  LPMM_UNROLL
  for (int step = 0; step < T::kOthers / 16; ++step) {
    const float(&a)[4] = scores[2 * step].v, (&b)[4] = scores[2 * step + 1].v;
    const Quad left{{pair_of(a[0], a[1]), pair_of(a[2], a[3]), pair_of(b[0], b[1]), pair_of(b[2], b[3])}};
    LPMM_UNROLL
    for (int n = 0; n < T::kWidth / 16; n += kQuads) {
      Quad right[kQuads];
      LPMM_UNROLL
      for (int k = 0; k < kQuads; ++k) {
        right[k] = load_transposed(from + (16 * step * T::kStride + 16 * (n + k)));
      }
      multiply_add(results + 2 * n, left, right);
    }
  }
}
// Stores factors[i] times the thread's row i.
template <class T>
LPMM_DEVICE void store_mma(const typename T::Results& results, const float (&factors)[2],
                           const HeadRows& rows, std::int64_t first, void* to, bool adds) {
  LPMM_UNROLL
  for (int i = 0; i < 2; ++i) {
    const std::int64_t row = first + T::row(i);
    if (row >= rows.rows) continue;
    auto* const pairs =
        reinterpret_cast<std::uint32_t*>(static_cast<Bf16*>(to) + rows.at + row * rows.stride);
    LPMM_UNROLL
    for (int n = 0; n < T::kWidth / 8; ++n) {
      if (8 * n >= rows.width) continue;
      std::uint32_t& pair = pairs[T::column(n, 0) / 2];
      float low = results[n].v[2 * i] * factors[i], high = results[n].v[2 * i + 1] * factors[i];
      if (adds) {
        low += bf16_to_float(static_cast<Bf16>(pair));
        high += bf16_to_float(static_cast<Bf16>(pair >> 16));
      }
      pair = pair_of(low, high);
    }
  }
}

// What the 4 threads of a row have together.
LPMM_DEVICE float quad_sum(float v) {
  for (int lanes = 2; lanes > 0; lanes /= 2) v += __shfl_xor_sync(kAllLanes, v, lanes);
  return v;
}
LPMM_DEVICE float quad_maximum(float v) {
  for (int lanes = 2; lanes > 0; lanes /= 2) v = fmaxf(v, __shfl_xor_sync(kAllLanes, v, lanes));
  return v;
}

// Drops from scores of a query's rows `line` and `line` + 8, columns from `column` on.
template <class T>
LPMM_DEVICE void drop_scores(const DropRow& drop, std::int64_t line, std::int64_t column,
                             typename T::Scores& scores) {
  LPMM_UNROLL
  for (int i = 0; i < 2; ++i) {
    LPMM_UNROLL
    for (int place = 0; place < 4; ++place) {  // of 16 columns a thread has 4
      const int first = place / 2, e = place % 2;
      const PhiloxWords words = drop.words(line + 8 * i, column + T::column(first, e));
      LPMM_UNROLL
      for (int n = first; n < T::kOthers / 8; n += 2) {
        scores[n].v[2 * i + e] *= drop.factor(words, column + T::column(n, e));
      }
    }
  }
}

// The head of a block, and the first row of its tile. Of all heads, the first or the last tile comes first:
// the one that takes longest.
template <class T>
struct MmaBlock {
  std::int64_t item, first;
  LPMM_DEVICE static MmaBlock mine(std::int64_t items, std::int64_t rows, bool is_last_first) {
    const std::int64_t tiles = (rows + T::kOwn - 1) / T::kOwn, tile = blockIdx.x / items;
    return {blockIdx.x % items, (is_last_first ? tiles - 1 - tile : tile) * T::kOwn};
  }
  static std::int64_t count(std::int64_t items, std::int64_t rows) {
    return items * ((rows + T::kOwn - 1) / T::kOwn);
  }
};

inline constexpr float kLog2E = 1.44269504F;

// Calls body with the narrowest width that holds the heads.
template <class Body>
void with_mma_width(int head_width, const Body& body) {
  if (head_width <= 32) return body(std::integral_constant<int, 32>{});
  if (head_width <= 64) return body(std::integral_constant<int, 64>{});
  return body(std::integral_constant<int, 128>{});
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
