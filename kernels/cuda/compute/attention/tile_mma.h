// Tiles of attention on tensor cores, after Dao 2023 (arXiv 2307.08691): bf16 factors, fp32 sums and softmax.
// Each of a block's warps has 16 rows that it owns, queries or keys, and the block goes over tiles of others.
// A warp's scores stay in its registers, where they are the left factor of the next product.
//
// That factor is rounded to bf16, as in Dao's kernels: probabilities, and the gradients of scores, each with
// a relative error of at most 2^-8. Results are sums of products with them, so their error is at most 2^-8 of
// the sum of the products' magnitudes, and what rounding the result itself adds. Softmax, its sums and the
// dots of y and dy are of fp32.
#pragma once

#include "kernels/cuda/compute/attention/heads.h"
#include "kernels/cuda/compute/mma.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

// kHeadWidth: head_width, padded with zeros. kOtherRows: of a tile of others. A warp owns 16 rows kRowTiles
// times: what it loads of the others it multiplies with all of them. Rows lie so that the eight that are read
// at once are in different banks.
template <int kHeadWidth, int kOtherRows, int kRowTiles, int kMostBlocks, bool kWithDropout>
struct MmaTile {
  static constexpr int kWidth = kHeadWidth, kOthers = kOtherRows;
  static constexpr bool kDrops = kWithDropout;
  // Thread blocks that share a multiprocessor's registers; draws and wide heads want more registers.
  static constexpr int kBlocks = kWidth > 64 || kMostBlocks < 3 ? 2 : kMostBlocks - (kDrops ? 1 : 0);
  static constexpr int kHeights = kRowTiles, kRows = 2 * kHeights;  // of a thread
  static constexpr int kThreads = 128, kWarpRows = 16 * kHeights, kOwn = kThreads / kWarp * kWarpRows;
  static constexpr int kSteps = kWidth / 16;  // of a product over the width
  static constexpr int kStride = kWidth + 8;
  static constexpr int kOwnCells = kOwn * kStride, kOtherCells = kOthers * kStride;
  static constexpr bool kKeepsOwn = kWidth <= 64;  // in registers
  using Scores = Sums[kHeights][kOthers / 8];
  using Results = Sums[kHeights][kWidth / 8];

  // The first of a warp's rows in the tile; of them, this thread's row i: value 2 (i % 2) + e of sums i / 2.
  __device__ static int warp_row() { return static_cast<int>(threadIdx.x) / kWarp * kWarpRows; }
  __device__ static int row(int i) { return warp_row() + lane_of_mma() / 4 + 8 * i; }
  // Column e, 0 or 1, of matrix n of scores or results.
  __device__ static int column(int n, int e) { return 8 * n + lane_of_mma() % 4 * 2 + e; }
};

// Begins to copy kRows rows from row `first` on; what is not there is 0. `partner`: how far behind them
// others of that shape begin, which go behind them in shared memory too; 0: none.
template <class T, int kRows>
LPMM_DEVICE void begin_tile(const HeadRows& from, int first, Bf16* tile, std::int64_t partner = 0) {
  constexpr int kPieces = T::kWidth / 8, kAtOnce = T::kThreads / kPieces;
  const int row = static_cast<int>(threadIdx.x) / kPieces, c = static_cast<int>(threadIdx.x) % kPieces * 8;
  const int there = c < from.width ? static_cast<int>(from.rows) - first : 0;  // past it are zeros
  const Bf16* cells = static_cast<const Bf16*>(from.values) + from.at + (first + row) * from.stride + c;
  Bf16* to = tile + row * T::kStride + c;
  LPMM_UNROLL
  for (int i = 0; i < kRows; i += kAtOnce) {
    begin_copy<16>(to, cells, row + i < there);
    if (partner != 0) begin_copy<16>(to + kRows * T::kStride, cells + partner, row + i < there);
    cells += kAtOnce * from.stride;
    to += kAtOnce * T::kStride;
  }
}

// A warp's rows of its own tile, a left factor: in registers where there is room.
template <class T>
struct OwnRows {
  SharedCells cells;
  Quad kept[T::kHeights][T::kKeepsOwn ? T::kSteps : 1];

  LPMM_DEVICE explicit OwnRows(const Bf16* tile)
      : cells(SharedCells::at(tile) +
              ((T::warp_row() + lane_of_mma() % 16) * T::kStride + lane_of_mma() / 16 * 8)) {
    if constexpr (T::kKeepsOwn) {
      LPMM_UNROLL
      for (int m = 0; m < T::kHeights; ++m) {
        LPMM_UNROLL
        for (int step = 0; step < T::kSteps; ++step) kept[m][step] = load(m, step);
      }
    }
  }
  LPMM_DEVICE Quad at(int m, int step) const {
    if constexpr (T::kKeepsOwn) {
      return kept[m][step];
    } else {
      return load(m, step);
    }
  }
  LPMM_DEVICE Quad load(int m, int step) const {
    return load_matrices(cells + (16 * m * T::kStride + 16 * step));
  }
};

// scores = own * others^T
template <class T>
LPMM_DEVICE void multiply_mma(const OwnRows<T>& own, const Bf16* others, typename T::Scores& scores) {
  const int lane = lane_of_mma();
  const SharedCells from =
      SharedCells::at(others) + ((lane / 16 * 8 + lane % 8) * T::kStride + lane / 8 % 2 * 8);
  LPMM_UNROLL
  for (int m = 0; m < T::kHeights; ++m) {
    LPMM_UNROLL
    for (int n = 0; n < T::kOthers / 8; ++n) scores[m][n] = {};
  }
  LPMM_UNROLL
  for (int step = 0; step < T::kSteps; ++step) {
    Quad right[T::kOthers / 16];
    LPMM_UNROLL
    for (int n = 0; n < T::kOthers / 16; ++n) {
      right[n] = load_matrices(from + (16 * n * T::kStride + 16 * step));
    }
    LPMM_UNROLL
    for (int m = 0; m < T::kHeights; ++m) multiply_add(scores[m], own.at(m, step), right);
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
    Quad left[T::kHeights];
    LPMM_UNROLL
    for (int m = 0; m < T::kHeights; ++m) {
      const float(&a)[4] = scores[m][2 * step].v, (&b)[4] = scores[m][2 * step + 1].v;
      left[m] = {{pair_of(a[0], a[1]), pair_of(a[2], a[3]), pair_of(b[0], b[1]), pair_of(b[2], b[3])}};
    }
    LPMM_UNROLL
    for (int n = 0; n < T::kWidth / 16; n += kQuads) {
      Quad right[kQuads];
      LPMM_UNROLL
      for (int k = 0; k < kQuads; ++k) {
        right[k] = load_transposed(from + (16 * step * T::kStride + 16 * (n + k)));
      }
      LPMM_UNROLL
      for (int m = 0; m < T::kHeights; ++m) multiply_add(results[m] + 2 * n, left[m], right);
    }
  }
}
// Multiplies the thread's row i.
template <class T>
LPMM_DEVICE void scale_row(int i, float factor, typename T::Results& results) {
  LPMM_UNROLL
  for (int n = 0; n < T::kWidth / 8; ++n) {
    results[i / 2][n].v[i % 2 * 2] *= factor;
    results[i / 2][n].v[i % 2 * 2 + 1] *= factor;
  }
}
template <class T>
LPMM_DEVICE void store_mma(const typename T::Results& results, const HeadRows& rows, std::int64_t first,
                           void* to, bool adds) {
  LPMM_UNROLL
  for (int i = 0; i < T::kRows; ++i) {
    const std::int64_t row = first + T::row(i);
    if (row >= rows.rows) continue;
    auto* const pairs =
        reinterpret_cast<std::uint32_t*>(static_cast<Bf16*>(to) + rows.at + row * rows.stride);
    LPMM_UNROLL
    for (int n = 0; n < T::kWidth / 8; ++n) {
      if (8 * n >= rows.width) continue;
      std::uint32_t& pair = pairs[T::column(n, 0) / 2];
      float low = results[i / 2][n].v[i % 2 * 2], high = results[i / 2][n].v[i % 2 * 2 + 1];
      if (adds) {
        low += bf16_to_float(static_cast<Bf16>(pair));
        high += bf16_to_float(static_cast<Bf16>(pair >> 16));
      }
      pair = pair_of(low, high);
    }
  }
}

// Scores that rows of a tile do not see become those of probability 0. They are of keys from `column` on;
// rows of `seen` are counted from the tile's first. Each bound is a pass of its own: fewer registers.
template <class T>
LPMM_DEVICE void mask_scores(const Seen& seen, int column, typename T::Scores& scores) {
  const auto hide = [&](const auto& is_hidden) {  // of a row and a key
    LPMM_UNROLL
    for (int i = 0; i < T::kRows; ++i) {
      LPMM_UNROLL
      for (int n = 0; n < T::kOthers / 8; ++n) {
        LPMM_UNROLL
        for (int e = 0; e < 2; ++e) {
          if (is_hidden(T::row(i), column + T::column(n, e))) scores[i / 2][n].v[i % 2 * 2 + e] = -INFINITY;
        }
      }
    }
  };
  if (column + T::kOthers > seen.end(T::warp_row())) {
    hide([&](int row, int key) { return key >= seen.end(row); });
  }
  if (column < seen.first(T::warp_row() + T::kWarpRows - 1)) {
    hide([&](int row, int key) { return key < seen.first(row); });
  }
}

// The sum over the 4 threads of a row.
LPMM_DEVICE float quad_sum(float v) {
  for (int lanes = 2; lanes > 0; lanes /= 2) v += __shfl_xor_sync(kAllLanes, v, lanes);
  return v;
}
LPMM_DEVICE float quad_maximum(float v) {
  for (int lanes = 2; lanes > 0; lanes /= 2) v = fmaxf(v, __shfl_xor_sync(kAllLanes, v, lanes));
  return v;
}

// Drops from scores; `line` is that of the thread's row 0, `column` the first.
template <class T>
LPMM_DEVICE void drop_scores(const DropRow& drop, std::int64_t line, std::int64_t column,
                             typename T::Scores& scores) {
  LPMM_UNROLL
  for (int i = 0; i < T::kRows; ++i) {
    LPMM_UNROLL
    for (int place = 0; place < 4; ++place) {  // of 16 columns a thread has 4
      const int first = place / 2, e = place % 2;
      const PhiloxWords words = drop.words(line + 8 * i, column + T::column(first, e));
      LPMM_UNROLL
      for (int n = first; n < T::kOthers / 8; n += 2) {
        scores[i / 2][n].v[i % 2 * 2 + e] *= drop.factor(words, column + T::column(n, e));
      }
    }
  }
}

// The head of a block, and the first row of its tile. For all heads, the first or the last tile comes first:
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

// Calls body with the narrowest width that holds the heads, and whether there is dropout, as constants.
template <class Body>
void with_mma_width(int head_width, const Dropout& drop, const Body& body) {
  const auto with = [&](auto drops) {
    if (head_width <= 32) return body(std::integral_constant<int, 32>{}, drops);
    if (head_width <= 64) return body(std::integral_constant<int, 64>{}, drops);
    return body(std::integral_constant<int, 128>{}, drops);
  };
  if (drop.threshold == 0) return with(std::false_type{});
  with(std::true_type{});
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
