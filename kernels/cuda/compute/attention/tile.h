// Tiles of attention, after Dao et al. 2022, in fp32. A block works on a tile of rows that it owns, queries
// or keys, and goes over tiles of others; the scores of both lie in shared memory. Thread (tx, ty) has rows
// 4 ty, ..., 4 ty + 3 of its own tile, and of the others rows tx, tx + 16, ...
#pragma once

#include <stdexcept>

#include "kernels/cuda/compute/attention/heads.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

// kWidth: head_width, padded with zeros. Strides leave no two threads that read at once in one bank.
template <int kWidth>
struct Tile {
  static constexpr int kSide = kWidth <= 64 ? 64 : kWidth == 128 ? 32 : 16;
  static constexpr int kAcross = 16, kRows = 4;            // threads beside each other; rows of a thread
  static constexpr int kColumns = kSide / kAcross;         // scores of a thread's row
  static constexpr int kValues = kWidth / kAcross;         // of a thread's row of results
  static constexpr int kPack = kValues < 4 ? kValues : 4;  // values side by side
  static constexpr int kStride = kWidth + 4, kScoreStride = kSide + 4;
  static constexpr int kThreads = kAcross * kSide / kRows;
  static constexpr int kBlocks = kWidth <= 64 ? 2 : 1;  // that share a processor's registers
  static constexpr int kFloats = kSide * kStride, kScores = kSide * kScoreStride;

  using Scores = float[kRows][kColumns];
  using Results = float[kRows][kValues];
  __device__ static int across() { return static_cast<int>(threadIdx.x) % kAcross; }
  __device__ static int row(int i) { return static_cast<int>(threadIdx.x) / kAcross * kRows + i; }
  __device__ static int other(int j) { return across() + kAcross * j; }
  // The place of value k in a row of results.
  __device__ static int value(int k) { return (k / kPack * kAcross + across()) * kPack + k % kPack; }
};

// A tile from row `first` on, times `scale`; what is not there is 0.
template <class T>
__device__ void load_tile(const HeadRows& from, std::int64_t first, float scale, float* tile) {
  constexpr int kWidth = T::kStride - 4;
  for (int i = static_cast<int>(threadIdx.x); i < T::kSide * kWidth; i += T::kThreads) {
    const int row = i / kWidth, c = i % kWidth;
    const bool is_there = first + row < from.rows && c < from.width;
    tile[row * T::kStride + c] = is_there ? scale * from.load(first + row, c) : 0.0F;
  }
}

template <int kCount>
struct alignas(4 * kCount) Pack {
  float v[kCount];
};
template <int kCount>
__device__ Pack<kCount> pack_at(const float* p) {
  return *reinterpret_cast<const Pack<kCount>*>(p);
}

// scores = own * others^T
template <class T>
__device__ void multiply(const float* own, const float* others, typename T::Scores& scores) {
  LPMM_UNROLL
  for (int i = 0; i < T::kRows; ++i) {
    LPMM_UNROLL
    for (int j = 0; j < T::kColumns; ++j) scores[i][j] = 0;
  }
  for (int c = 0; c < T::kStride - 4; c += 4) {
    Pack<4> a[T::kRows], b[T::kColumns];
    LPMM_UNROLL
    for (int i = 0; i < T::kRows; ++i) a[i] = pack_at<4>(own + T::row(i) * T::kStride + c);
    LPMM_UNROLL
    for (int j = 0; j < T::kColumns; ++j) b[j] = pack_at<4>(others + T::other(j) * T::kStride + c);
    LPMM_UNROLL
    for (int i = 0; i < T::kRows; ++i) {
      LPMM_UNROLL
      for (int j = 0; j < T::kColumns; ++j) {
        LPMM_UNROLL
        for (int k = 0; k < 4; ++k) scores[i][j] += a[i].v[k] * b[j].v[k];
      }
    }
  }
}
// results += scores * others, with scores of the thread's rows from shared memory.
template <class T>
__device__ void accumulate(const float* scores, const float* others, typename T::Results& results) {
  for (int u = 0; u < T::kSide; u += 4) {
    Pack<4> p[T::kRows];
    LPMM_UNROLL
    for (int i = 0; i < T::kRows; ++i) p[i] = pack_at<4>(scores + T::row(i) * T::kScoreStride + u);
    LPMM_UNROLL
    for (int k = 0; k < 4; ++k) {
      LPMM_UNROLL
      for (int n = 0; n < T::kValues; n += T::kPack) {
        const auto b = pack_at<T::kPack>(others + (u + k) * T::kStride + T::value(n));
        LPMM_UNROLL
        for (int i = 0; i < T::kRows; ++i) {
          LPMM_UNROLL
          for (int m = 0; m < T::kPack; ++m) results[i][n + m] += p[i].v[k] * b.v[m];
        }
      }
    }
  }
}
// Adds the bias of a head: rows of scores are from `row` on, columns are keys from `key` on; or, for kByKeys,
// the other way round.
template <class T, bool kByKeys = false>
__device__ void add_bias(const AttentionShape& s, const float* bias, std::int64_t head, std::int64_t row,
                         std::int64_t key, typename T::Scores& scores) {
  if (bias == nullptr) return;
  LPMM_UNROLL
  for (int i = 0; i < T::kRows; ++i) {
    LPMM_UNROLL
    for (int j = 0; j < T::kColumns; ++j) {
      scores[i][j] += kByKeys ? bias_of(s, bias, head, row + T::other(j), key + T::row(i))
                              : bias_of(s, bias, head, row + T::row(i), key + T::other(j));
    }
  }
}
template <class T>
__device__ void store_scores(const typename T::Scores& of, float* scores) {
  LPMM_UNROLL
  for (int i = 0; i < T::kRows; ++i) {
    LPMM_UNROLL
    for (int j = 0; j < T::kColumns; ++j) scores[T::row(i) * T::kScoreStride + T::other(j)] = of[i][j];
  }
}
template <class T>
__device__ void store_results(const typename T::Results& results, const HeadRows& rows, std::int64_t first,
                              void* to, bool adds) {
  LPMM_UNROLL
  for (int i = 0; i < T::kRows; ++i) {
    if (first + T::row(i) >= rows.rows) continue;
    LPMM_UNROLL
    for (int k = 0; k < T::kValues; ++k) {
      if (T::value(k) < rows.width) rows.store(to, first + T::row(i), T::value(k), results[i][k], adds);
    }
  }
}

// The sum over the 16 threads of a row.
__device__ inline float row_sum(float v) {
  for (int lanes = 8; lanes > 0; lanes /= 2) v += __shfl_xor_sync(kAllLanes, v, lanes);
  return v;
}
__device__ inline float row_maximum(float v) {
  for (int lanes = 8; lanes > 0; lanes /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, v, lanes);
    v = other > v ? other : v;
  }
  return v;
}

// Calls body with the narrowest tile that holds the heads.
template <class Body>
void with_tile(int head_width, const Body& body) {
  if (head_width <= 32) return body(Tile<32>{});
  if (head_width <= 64) return body(Tile<64>{});
  if (head_width <= 128) return body(Tile<128>{});
  if (head_width <= 256) return body(Tile<256>{});
  throw std::invalid_argument("CUDA: attention has heads of at most 256 values");
}
// Returns the blocks for `rows` positions, queries or keys, of each sequence.
template <class T>
std::int64_t tile_blocks(const AttentionShape& s, int heads, std::int64_t rows) {
  return s.batch * heads * ((rows + T::kSide - 1) / T::kSide);
}
// The head of a block, and the first row of its tile; long ones begin first.
struct TileOfBlock {
  std::int64_t item, first;
  template <class T>
  __device__ static TileOfBlock mine(std::int64_t rows) {
    const std::int64_t tiles = (rows + T::kSide - 1) / T::kSide;
    return {blockIdx.x / tiles, (tiles - 1 - blockIdx.x % tiles) * T::kSide};
  }
};

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
