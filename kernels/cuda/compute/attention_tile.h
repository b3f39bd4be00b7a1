// Tiles of attention, after Dao et al. 2022, in fp32. A block works on a tile of rows that it owns, queries
// or keys, and goes over tiles of others; the scores of both lie in shared memory. Thread (tx, ty) has rows
// 4 ty, ..., 4 ty + 3 of its own tile, and of the others rows tx, tx + 16, ...
#pragma once

#include <cmath>
#include <stdexcept>

#include "kernels/cuda/compute/map.h"
#include "kernels/sequence.h"

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
  // Where value k of a row of results is in it.
  __device__ static int value(int k) { return (k / kPack * kAcross + across()) * kPack + k % kPack; }
};

LPMM_HD float load_any(Compute type, const void* p, std::int64_t i) {
  return type == Compute::kFp32 ? static_cast<const float*>(p)[i]
                                : bf16_to_float(static_cast<const std::uint16_t*>(p)[i]);
}
LPMM_HD void store_any(Compute type, void* p, std::int64_t i, float v) {
  if (type == Compute::kFp32) {
    static_cast<float*>(p)[i] = v;
  } else {
    static_cast<std::uint16_t*>(p)[i] = float_to_bf16(v);
  }
}

// Rows of one head of one sequence: row r begins at value `at` + r * stride.
struct HeadRows {
  Compute type = Compute::kFp32;
  const void* values = nullptr;
  std::int64_t at = 0, stride = 0, rows = 0;
  int width = 0;

  // Head `at` of what lies in rows of `heads` heads, `rows` of one sequence.
  LPMM_HD static HeadRows of(const AttentionShape& s, const void* values, std::int64_t sequence,
                             std::int64_t rows, std::int64_t at, std::int64_t heads) {
    const std::int64_t stride = heads * s.head_width;
    return {s.type, values, sequence * rows * stride + at * s.head_width, stride, rows, s.head_width};
  }
  LPMM_HD float load(std::int64_t row, int c) const { return load_any(type, values, at + row * stride + c); }
  LPMM_HD void store(void* to, std::int64_t row, int c, float v, bool accumulate) const {
    const std::int64_t i = at + row * stride + c;
    store_any(type, to, i, accumulate ? v + load_any(type, to, i) : v);
  }
};

// One head of a sequence: item counts the heads of queries over all sequences.
struct HeadOf {
  std::int64_t sequence, query, key;
  LPMM_HD static HeadOf item(const AttentionShape& s, std::int64_t item) {
    const std::int64_t query = item % s.heads;
    return {item / s.heads, query, query / s.shared_by()};
  }
  LPMM_HD HeadRows queries(const AttentionShape& s, const void* q) const {
    return HeadRows::of(s, q, sequence, s.length, query, s.query_row_heads());
  }
  // Of self-attention `kv` is what queries are in too.
  LPMM_HD HeadRows keys(const AttentionShape& s, const void* kv) const {
    return HeadRows::of(s, kv, sequence, s.key_rows(), s.first_key_head() + key, s.key_row_heads());
  }
  LPMM_HD HeadRows values(const AttentionShape& s, const void* kv) const {
    return HeadRows::of(s, kv, sequence, s.key_rows(), s.first_key_head() + s.key_heads() + key,
                        s.key_row_heads());
  }
  // What attention gives.
  LPMM_HD HeadRows results(const AttentionShape& s, const void* y) const {
    return HeadRows::of(s, y, sequence, s.length, query, s.heads);
  }
  // Keys of a sequence that is not causal: the first so many are seen.
  LPMM_HD std::int64_t seen(const AttentionShape& s) const {
    return s.lengths == nullptr ? s.key_rows() : s.lengths[sequence];
  }
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

// What the 16 threads of a row have together.
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

// Dropout of probabilities: `line` counts the rows of all heads of all sequences; of `length` keys.
struct DropRow {
  Dropout drop;
  std::int64_t length;
  LPMM_HD PhiloxWords words(std::int64_t line, std::int64_t column) const {
    const std::int64_t group = line * groups_of(length) + column / kGroup;
    return noise_words(drop.noise, 16 * (drop.noise.first_group + static_cast<std::uint32_t>(group)) +
                                       static_cast<std::uint32_t>(column % 16));
  }
  // What a probability is multiplied by; columns 16 apart share their words.
  LPMM_HD float factor(const PhiloxWords& words, std::int64_t column) const {
    const auto draw = static_cast<unsigned>(column % kGroup) / 16;
    // Words by choice, not by index, which would put them into memory.
    const std::uint32_t even = draw < 4 ? words.x[0] : words.x[2], odd = draw < 4 ? words.x[1] : words.x[3];
    const std::uint32_t word = draw % 4 < 2 ? even : odd;
    return (word >> (16 * (draw % 2)) & 0xFFFFU) >= drop.threshold ? drop.scale : 0.0F;
  }
};

// Calls body with the narrowest tile that holds the heads.
template <class Body>
void with_tile(int head_width, const Body& body) {
  if (head_width <= 32) return body(Tile<32>{});
  if (head_width <= 64) return body(Tile<64>{});
  if (head_width <= 128) return body(Tile<128>{});
  if (head_width <= 256) return body(Tile<256>{});
  throw std::invalid_argument("CUDA: attention has heads of at most 256 values");
}
// For `rows` positions, queries or keys, of each sequence.
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
inline float score_scale(const AttentionShape& s) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(s.head_width)));
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
