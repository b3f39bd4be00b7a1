// The operands of the attention kernels: heads of sequences, and the draws of dropout.
//
// Two sets of kernels compute it: *_mma.cu on tensor cores, where is_for_tensor_cores says so, and in fp32
// what is left.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "kernels/cuda/compute/map.h"
#include "kernels/sequence.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

LPMM_HD float load_any(ValueType type, const void* p, std::int64_t i) {
  return type == ValueType::kFp32 ? static_cast<const float*>(p)[i]
                                  : bf16_to_float(static_cast<const std::uint16_t*>(p)[i]);
}
LPMM_HD void store_any(ValueType type, void* p, std::int64_t i, float v) {
  if (type == ValueType::kFp32) {
    static_cast<float*>(p)[i] = v;
  } else {
    static_cast<std::uint16_t*>(p)[i] = float_to_bf16(v);
  }
}

// Rows of one head of one sequence: row r begins at value `at` + r * stride.
struct HeadRows {
  ValueType type = ValueType::kFp32;
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
  // For self-attention, `kv` is the memory that holds the queries too.
  LPMM_HD HeadRows keys(const AttentionShape& s, const void* kv) const {
    return HeadRows::of(s, kv, sequence, s.key_rows(), s.first_key_head() + key, s.key_row_heads());
  }
  LPMM_HD HeadRows values(const AttentionShape& s, const void* kv) const {
    return HeadRows::of(s, kv, sequence, s.key_rows(), s.first_key_head() + s.key_heads() + key,
                        s.key_row_heads());
  }
  // The results of attention.
  LPMM_HD HeadRows results(const AttentionShape& s, const void* y) const {
    return HeadRows::of(s, y, sequence, s.length, query, s.heads);
  }
};

// Dropout of probabilities: `line` counts the rows of all heads of all sequences; of `length` keys.
struct DropRow {
  Dropout drop;
  std::int64_t length;
  LPMM_HD PhiloxWords words(std::int64_t line, std::int64_t column) const {
    const std::int64_t group = line * groups_of(length) + column / kGroup;
    return noise_words(drop.noise, 16 * (drop.noise.first_group + static_cast<std::uint32_t>(group)) +
                                       static_cast<std::uint32_t>(column % 16));
  }
  // Columns 16 apart share their words.
  LPMM_HD bool keeps(const PhiloxWords& words, std::int64_t column) const {
    const auto draw = static_cast<unsigned>(column % kGroup) / 16;
    // Words by choice, not by index, which would put them into memory.
    const std::uint32_t even = draw < 4 ? words.x[0] : words.x[2], odd = draw < 4 ? words.x[1] : words.x[3];
    const std::uint32_t word = draw % 4 < 2 ? even : odd;
    return (word >> (16 * (draw % 2)) & 0xFFFFU) >= drop.threshold;
  }
  // The factor that a probability is multiplied by.
  LPMM_HD float factor(const PhiloxWords& words, std::int64_t column) const {
    return keeps(words, column) ? drop.scale : 0.0F;
  }
};

// The arguments of a kernel; for self-attention, kv is q.
struct Attention : AttentionForward {
  float scale;
  // Keys and values of a head, as far as they are there.
  LPMM_HD void others(const HeadOf& head, HeadRows* keys, HeadRows* values) const {
    *keys = head.keys(shape, kv);
    *values = head.values(shape, kv);
    if (cache == nullptr) return;
    const int heads = shape.key_heads();
    *keys = HeadRows::of(shape, cache, head.sequence, room, head.key, 2 * heads);
    *values = HeadRows::of(shape, cache, head.sequence, room, heads + head.key, 2 * heads);
    keys->rows = values->rows = past + shape.length;
  }
};
struct AttentionGradient : AttentionBackward {
  float scale;
  float* dots;  // of y and dy, (batch, heads, length)
  float* sums;  // of the gradients of scores by distance, (batch, heads, tiles, distances()), with a bias
};
// What a head adds to the score of a row and a key: the bias, if any, of distances that there are.
LPMM_HD float bias_of(const AttentionShape& s, const float* bias, std::int64_t head, std::int64_t row,
                      std::int64_t key) {
  const std::int64_t at = s.distance(row, key);
  return bias == nullptr || at < 0 || at >= s.distances() ? 0.0F : bias[at * s.heads + head];
}

// Heads of bf16 without a bias that are copied 16 bytes at a time, up to the width whose sums registers hold.
inline bool is_for_tensor_cores(const AttentionShape& s, std::initializer_list<const void*> values) {
  bool is_aligned = s.head_width % 8 == 0;
  for (const void* p : values) is_aligned = is_aligned && reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
  return s.type == ValueType::kBf16 && !s.has_bias && s.head_width <= 128 && is_aligned;
}
void attend_on_tensor_cores(const Attention& a, Stream stream);
void differentiate_on_tensor_cores(const AttentionGradient& a, Stream stream);

inline float score_scale(const AttentionShape& s) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(s.head_width)));
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
