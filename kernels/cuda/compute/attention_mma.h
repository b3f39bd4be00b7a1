// Tiles of attention on tensor cores, after Dao 2023 (arXiv 2307.08691): bf16 factors, fp32 sums and softmax.
// Each of a block's warps has 16 rows that it owns, queries or keys, and the block goes over tiles of others.
// A warp's scores stay in its registers, where they are the left factor of the next product.
//
// That factor is rounded to bf16, as in Dao's kernels: probabilities, and the gradients of scores, each with
// a relative error of at most 2^-8. Results are sums of products with them, so their error is at most 2^-8 of
// the sum of the products' magnitudes, and what rounding the result itself adds. Softmax, its sums and the
// dots of y and dy are of fp32.
#pragma once

#include "kernels/cuda/compute/attention_heads.h"
#include "kernels/cuda/compute/mma.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

// kHeadWidth: head_width, padded with zeros. kOtherRows: of a tile of others. Rows lie so that the eight that
// are read at once are in different banks.
template <int kHeadWidth, int kOtherRows, bool kWithDropout>
struct MmaTile {
  static constexpr int kWidth = kHeadWidth, kOthers = kOtherRows;
  static constexpr bool kDrops = kWithDropout;
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

// Begins to copy kRows rows from row `first` on; what is not there is 0.
template <class T, int kRows>
LPMM_DEVICE void begin_tile(const HeadRows& from, std::int64_t first, Bf16* tile) {
  constexpr int kPieces = T::kWidth / 8, kAtOnce = T::kThreads / kPieces;
  const int row = static_cast<int>(threadIdx.x) / kPieces, c = static_cast<int>(threadIdx.x) % kPieces * 8;
  const std::int64_t left = c < from.width ? from.rows - first : 0;
  const int there = static_cast<int>(left < kRows ? left : kRows);
  const Bf16* cells = static_cast<const Bf16*>(from.values) + from.at + (first + row) * from.stride + c;
  LPMM_UNROLL
  for (int i = 0; i < kRows; i += kAtOnce) {
    begin_copy<16>(tile + (row + i) * T::kStride + c, cells, row + i < there);
    cells += kAtOnce * from.stride;
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

// How many keys a query's rows see: those of the thread, and the warp's first, which sees fewest.
template <class T>
struct SeenKeys {
  int rows[2], least;
  // Row `first` of the tile, where causal, sees first + past + 1; all see at most `seen`.
  LPMM_DEVICE SeenKeys(bool is_causal, int first, int seen) : least(seen) {
    if (is_causal && first + T::warp_row() + 1 < seen) least = first + T::warp_row() + 1;
    LPMM_UNROLL
    for (int i = 0; i < 2; ++i) {
      rows[i] = is_causal && first + T::row(i) + 1 < seen ? first + T::row(i) + 1 : seen;
    }
  }
  // Scores of keys from `column` on that are not seen become those of probability 0.
  LPMM_DEVICE void mask(int column, typename T::Scores& scores) const {
    if (column + T::kOthers <= least) return;
    LPMM_UNROLL
    for (int i = 0; i < 2; ++i) {
      LPMM_UNROLL
      for (int n = 0; n < T::kOthers / 8; ++n) {
        LPMM_UNROLL
        for (int e = 0; e < 2; ++e) {
          if (column + T::column(n, e) >= rows[i]) scores[n].v[2 * i + e] = -INFINITY;
        }
      }
    }
  }
};

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

// Calls body with the narrowest tile that holds the heads, and of kOthers rows, or kOthersOfWide.
template <int kOthers, int kOthersOfWide, class Body>
void with_mma_tile(int head_width, const Dropout& drop, const Body& body) {
  const auto with = [&](auto drops) {
    if (head_width <= 32) return body(MmaTile<32, kOthers, drops()>{});
    if (head_width <= 64) return body(MmaTile<64, kOthers, drops()>{});
    return body(MmaTile<128, kOthersOfWide, drops()>{});
  };
  if (drop.threshold == 0) return with(std::false_type{});
  with(std::true_type{});
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
