// Causal attention, one head of one sequence at a time, its scores in tiles.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu.h"
#include "kernels/cpu/compute/backend.h"
#include "kernels/cpu/compute/cut.h"
#include "kernels/cpu/compute/loops.h"
#include "kernels/cpu/compute/sequence_loops.h"
#include "kernels/cpu/tile.h"

namespace lpmm::kernels {
namespace {

constexpr std::int64_t kTileRows = 128;  // of scores, and columns
static_assert(kTileRows == kGroup);      // a row of a tile is one group of dropout's draws

// One head of one sequence in fp32, and a tile of its scores: the scratch of one thread.
class Head {
 public:
  Head(const AttentionShape& s, std::int64_t item, float* base)
      : s_(s), item_(item), d_(s.head_width), length_(s.length) {
    float** const whole[] = {&q, &k, &v, &y, &dy, &dq, &dk, &dv};
    for (float** p : whole) *p = take(base, length_ * d_);
    scores = take(base, kTileRows * kTileRows);
    gradients = take(base, kTileRows * kTileRows);
    maxima = take(base, length_);
    sums = take(base, length_);
  }
  static std::int64_t floats(const AttentionShape& s) {
    return 8 * padded(std::int64_t{1} * s.length * s.head_width) + 2 * padded(kTileRows * kTileRows) +
           2 * padded(s.length);
  }

  // Part `part` of rows of `parts` parts each, from position `first` on.
  void load(const void* from, int part, int parts, float* to, std::int64_t first = 0) const {
    loops::to_float(s_.type, {length_ - first, d_, parts * s_.width(), d_},
                    bytes_at(from, offset(part, parts)), to + first * d_);
  }
  void store(const float* from, int part, int parts, bool accumulate, void* to,
             std::int64_t first = 0) const {
    loops::from_float(s_.type, {length_ - first, d_, d_, parts * s_.width()}, from + first * d_,
                      bytes_at(to, offset(part, parts)), accumulate);
  }

  // y of positions `first` and later, from q, k and v, with sums and maxima of their scores.
  void attend(std::int64_t first, const Dropout& drop) const;

  // Drops from `values` of a tile, of its scores' shape.
  void drop_tile(const Dropout& drop, const loops::ScoreTile& t, std::int64_t row, std::int64_t column,
                 float* values) const {
    if (drop.threshold == 0) return;
    for (std::int64_t r = 0; r < t.rows; ++r) {
      alignas(64) std::uint32_t words[kGroup / 2];
      const std::int64_t line = item_ * length_ + row + r;
      tile_kernels().draw(drop.noise, line * groups_of(length_) + column / kGroup, 1, words);
      loops::drop(t.columns, drop, words, values + r * t.columns);
    }
  }

  // The tile of scores of rows `row`... and columns `column`...
  loops::ScoreTile tile(std::int64_t row, std::int64_t column) const {
    return {std::min(kTileRows, length_ - row), std::min(kTileRows, length_ - column), row - column + 1,
            scores};
  }
  // scores <- q k^T of a tile; q is scaled already.
  void multiply_scores(const loops::ScoreTile& t, std::int64_t row, std::int64_t column) const {
    multiply({.transpose_b = true,
              .m = t.rows,
              .n = t.columns,
              .k = d_,
              .a = q + row * d_,
              .a_stride = d_,
              .b = k + column * d_,
              .b_stride = d_,
              .c = t.scores,
              .c_stride = t.columns});
  }
  static void multiply(const MatrixArgs& args) { backend::matmul(args); }

  float *q, *k, *v, *y, *dy, *dq, *dk, *dv;  // (length, head_width)
  float *scores, *gradients;                 // one tile
  float *maxima, *sums;                      // (length)

 private:
  static std::int64_t padded(std::int64_t floats) { return aligned(4 * floats) / 4; }
  static float* take(float*& base, std::int64_t floats) {
    float* p = base;
    base += padded(floats);
    return p;
  }
  std::int64_t offset(int part, int parts) const {
    const std::int64_t row = item_ / s_.heads * length_;
    return ((row * parts + part) * s_.width() + item_ % s_.heads * d_) * value_bytes(s_.type);
  }
  const AttentionShape& s_;
  std::int64_t item_, d_, length_;
};

float score_scale(const AttentionShape& s) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(s.head_width)));
}

template <class Body>
void for_heads(Pool& pool, const AttentionShape& s, void* scratch, const Body& body) {
  pool.for_each(std::int64_t{1} * s.batch * s.heads, [&](std::int64_t item, int thread) {
    body(item, Head(s, item, static_cast<float*>(scratch) + thread * Head::floats(s)));
  });
}

void Head::attend(std::int64_t first, const Dropout& drop) const {
  loops::scale((length_ - first) * d_, score_scale(s_), q + first * d_);
  std::fill(y + first * d_, y + length_ * d_, 0.0F);
  std::fill(maxima + first, maxima + length_, -std::numeric_limits<float>::infinity());
  std::fill(sums + first, sums + length_, 0.0F);
  for (std::int64_t row = first; row < length_; row += kTileRows) {
    const std::int64_t last = std::min(row + kTileRows, length_) - 1;
    for (std::int64_t column = 0; column <= last; column += kTileRows) {
      const loops::ScoreTile t = tile(row, column);
      multiply_scores(t, row, column);
      loops::softmax_online(t, maxima + row, sums + row, y + row * d_, d_);
      drop_tile(drop, t, row, column, t.scores);
      multiply({.m = t.rows,
                .n = d_,
                .k = t.columns,
                .a = t.scores,
                .a_stride = t.columns,
                .b = v + column * d_,
                .b_stride = d_,
                .c = y + row * d_,
                .c_stride = d_,
                .accumulate = true});
    }
  }
  for (std::int64_t t = first; t < length_; ++t) loops::scale(d_, 1.0F / sums[t], y + t * d_);
}

}  // namespace

std::int64_t CpuDevice::attention_scratch_bytes(const AttentionShape& s) const {
  return 4 * Head::floats(s) * threads_;
}

std::int64_t attention_probabilities(const AttentionShape& s) {
  return s.rows() * s.heads * groups_of(s.length) * kGroup;
}

void CpuDevice::attention_forward(const AttentionShape& s, const void* qkv, const Dropout& drop, void* y,
                                  float* log_sums, void* scratch) {
  for_heads(pool(), s, scratch, [&](std::int64_t item, const Head& h) {
    h.load(qkv, 0, 3, h.q);
    h.load(qkv, 1, 3, h.k);
    h.load(qkv, 2, 3, h.v);
    h.attend(0, drop);
    for (std::int64_t t = 0; t < s.length; ++t) {
      log_sums[item * s.length + t] = h.maxima[t] + std::log(h.sums[t]);
    }
    h.store(h.y, 0, 1, false, y);
  });
}

void CpuDevice::attention_cached(const AttentionShape& s, std::int64_t past, const void* qkv, void* cache,
                                 void* y, void* scratch) {
  const std::int64_t part = s.width() * value_bytes(s.type);  // bytes of one part of a row
  for (std::int64_t t = 0; t < s.length; ++t) {
    std::memcpy(bytes_at(cache, (past + t) * 2 * part), bytes_at(qkv, (3 * t + 1) * part),
                static_cast<std::size_t>(2 * part));
  }
  AttentionShape whole = s;
  whole.length += static_cast<int>(past);
  for_heads(pool(), whole, scratch, [&](std::int64_t, const Head& h) {
    h.load(qkv, 0, 3, h.q, past);
    h.load(cache, 0, 2, h.k);
    h.load(cache, 1, 2, h.v);
    h.attend(past, {});
    h.store(h.y, 0, 1, false, y, past);
  });
}

// With p = softmax(scores), D = sum of dy * y: dv = drop(p)^T dy, ds = p * (drop(dy v^T) - D), dq = ds k,
// dk = ds^T q.
void CpuDevice::attention_backward(const AttentionShape& s, const void* qkv, const Dropout& drop,
                                   const void* y, const float* log_sums, const void* dy, void* dqkv,
                                   bool accumulate, void* scratch) {
  const std::int64_t d = s.head_width, length = s.length;
  for_heads(pool(), s, scratch, [&](std::int64_t item, const Head& h) {
    h.load(qkv, 0, 3, h.q);
    h.load(qkv, 1, 3, h.k);
    h.load(qkv, 2, 3, h.v);
    h.load(y, 0, 1, h.y);
    h.load(dy, 0, 1, h.dy);
    loops::scale(length * d, score_scale(s), h.q);
    float* dots = h.sums;
    for (std::int64_t t = 0; t < length; ++t) dots[t] = loops::dot(d, h.dy + t * d, h.y + t * d);
    for (float* sum : {h.dq, h.dk, h.dv}) std::fill_n(sum, length * d, 0.0F);
    for (std::int64_t row = 0; row < length; row += kTileRows) {
      for (std::int64_t column = 0; column <= row; column += kTileRows) {
        const loops::ScoreTile t = h.tile(row, column);
        h.multiply_scores(t, row, column);
        loops::softmax_again(t, log_sums + item * length + row);
        // c (m, d) += (transposed?) tile * b (., d)
        const auto add = [&](const float* tile, bool transpose, const float* b, float* c) {
          Head::multiply({.transpose_a = transpose,
                          .m = transpose ? t.columns : t.rows,
                          .n = d,
                          .k = transpose ? t.rows : t.columns,
                          .a = tile,
                          .a_stride = t.columns,
                          .b = b,
                          .b_stride = d,
                          .c = c,
                          .c_stride = d,
                          .accumulate = true});
        };
        Head::multiply({.transpose_b = true,
                        .m = t.rows,
                        .n = t.columns,
                        .k = d,
                        .a = h.dy + row * d,
                        .a_stride = d,
                        .b = h.v + column * d,
                        .b_stride = d,
                        .c = h.gradients,
                        .c_stride = t.columns});
        h.drop_tile(drop, t, row, column, h.gradients);
        loops::softmax_backward(t, dots + row, h.gradients);
        add(h.gradients, false, h.k + column * d, h.dq + row * d);
        add(h.gradients, true, h.q + row * d, h.dk + column * d);
        h.drop_tile(drop, t, row, column, t.scores);
        add(t.scores, true, h.dy + row * d, h.dv + column * d);
      }
    }
    loops::scale(length * d, score_scale(s), h.dq);
    h.store(h.dq, 0, 3, accumulate, dqkv);
    h.store(h.dk, 1, 3, accumulate, dqkv);
    h.store(h.dv, 2, 3, accumulate, dqkv);
  });
}

}  // namespace lpmm::kernels
