// Attention, one head of one sequence at a time, its scores in tiles.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu.h"
#include "kernels/cpu/compute/backend.h"
#include "kernels/cpu/compute/cut.h"
#include "kernels/cpu/compute/loops.h"
#include "kernels/cpu/sequence/sequence_loops.h"
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

  // This head of what lies in rows of `heads` heads, of which it is number `at`; from position `first` on.
  void load(const void* from, int at, int heads, float* to, std::int64_t first = 0) const {
    loops::to_float(s_.type, {length_ - first, d_, heads * d_, d_}, bytes_at(from, offset(at, heads)),
                    to + first * d_);
  }
  void store(const float* from, int at, int heads, bool accumulate, void* to, std::int64_t first = 0) const {
    loops::from_float(s_.type, {length_ - first, d_, d_, heads * d_}, from + first * d_,
                      bytes_at(to, offset(at, heads)), accumulate);
  }
  // Its number among the heads of queries, and that of its keys and values among theirs.
  int query() const { return static_cast<int>(item_ % s_.heads); }
  int key() const { return query() / s_.shared_by(); }
  // Heads in a row of qkv, and where its own are.
  int row_heads() const { return s_.heads + 2 * s_.key_heads(); }
  void load_query(const void* qkv, std::int64_t first = 0) const {
    load(qkv, query(), row_heads(), q, first);
  }
  void load_keys(const void* qkv) const {
    load(qkv, s_.heads + key(), row_heads(), k);
    load(qkv, s_.heads + s_.key_heads() + key(), row_heads(), v);
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

  // How many of its sequence's positions rows up to `last` see.
  std::int64_t seen(std::int64_t last) const {
    if (s_.is_causal) return last + 1;
    return s_.lengths == nullptr ? length_ : s_.lengths[item_ / s_.heads];
  }
  // The tile of scores of rows `row`... and columns `column`...
  loops::ScoreTile tile(std::int64_t row, std::int64_t column) const {
    return {std::min(kTileRows, length_ - row), std::min(kTileRows, length_ - column), seen(row) - column,
            s_.is_causal ? 1 : 0, scores};
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
  // c += values of a tile, or their transpose, times b; rows of b and c are as wide as the head.
  void add(const loops::ScoreTile& t, const float* values, bool transpose, const float* b, float* c) const {
    multiply({.transpose_a = transpose,
              .m = transpose ? t.columns : t.rows,
              .n = d_,
              .k = transpose ? t.rows : t.columns,
              .a = values,
              .a_stride = t.columns,
              .b = b,
              .b_stride = d_,
              .c = c,
              .c_stride = d_,
              .accumulate = true});
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
  std::int64_t offset(int at, int heads) const {
    const std::int64_t row = item_ / s_.heads * length_;
    return (row * heads + at) * d_ * value_bytes(s_.type);
  }
  const AttentionShape& s_;
  std::int64_t item_, d_, length_;
};

float score_scale(const AttentionShape& s) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(s.head_width)));
}

// The heads of queries that share keys and values are of one thread, in their order.
template <class Body>
void for_heads(Pool& pool, const AttentionShape& s, bool by_keys, void* scratch, const Body& body) {
  const int run = by_keys ? s.shared_by() : 1;
  pool.for_each(std::int64_t{1} * s.batch * s.heads / run, [&](std::int64_t at, int thread) {
    for (std::int64_t item = at * run; item < (at + 1) * run; ++item) {
      body(item, Head(s, item, static_cast<float*>(scratch) + thread * Head::floats(s)));
    }
  });
}

void Head::attend(std::int64_t first, const Dropout& drop) const {
  loops::scale((length_ - first) * d_, score_scale(s_), q + first * d_);
  std::fill(y + first * d_, y + length_ * d_, 0.0F);
  std::fill(maxima + first, maxima + length_, -std::numeric_limits<float>::infinity());
  std::fill(sums + first, sums + length_, 0.0F);
  for (std::int64_t row = first; row < length_; row += kTileRows) {
    const std::int64_t end = seen(std::min(row + kTileRows, length_) - 1);
    for (std::int64_t column = 0; column < end; column += kTileRows) {
      const loops::ScoreTile t = tile(row, column);
      multiply_scores(t, row, column);
      loops::softmax_online(t, maxima + row, sums + row, y + row * d_, d_);
      drop_tile(drop, t, row, column, t.scores);
      add(t, t.scores, false, v + column * d_, y + row * d_);
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
  for_heads(pool(), s, false, scratch, [&](std::int64_t item, const Head& h) {
    h.load_query(qkv);
    h.load_keys(qkv);
    h.attend(0, drop);
    for (std::int64_t t = 0; t < s.length; ++t) {
      log_sums[item * s.length + t] = h.maxima[t] + std::log(h.sums[t]);
    }
    h.store(h.y, h.query(), s.heads, false, y);
  });
}

void CpuDevice::attention_cached(const AttentionShape& s, std::int64_t past, const void* qkv, void* cache,
                                 void* y, void* scratch) {
  const std::int64_t b = value_bytes(s.type), both = 2 * s.key_width() * b;
  for (std::int64_t t = 0; t < s.length; ++t) {
    std::memcpy(bytes_at(cache, (past + t) * both), bytes_at(qkv, (t * s.row_width() + s.width()) * b),
                static_cast<std::size_t>(both));
  }
  AttentionShape whole = s;
  whole.length += static_cast<int>(past);
  for_heads(pool(), whole, false, scratch, [&](std::int64_t, const Head& h) {
    h.load_query(qkv, past);
    h.load(cache, h.key(), 2 * s.key_heads(), h.k);
    h.load(cache, s.key_heads() + h.key(), 2 * s.key_heads(), h.v);
    h.attend(past, {});
    h.store(h.y, h.query(), s.heads, false, y, past);
  });
}

// With p = softmax(scores), D = sum of dy * y: dv = drop(p)^T dy, ds = p * (drop(dy v^T) - D), dq = ds k,
// dk = ds^T q.
void CpuDevice::attention_backward(const AttentionShape& s, const void* qkv, const Dropout& drop,
                                   const void* y, const float* log_sums, const void* dy, void* dqkv,
                                   bool accumulate, void* scratch) {
  const std::int64_t d = s.head_width, length = s.length;
  for_heads(pool(), s, true, scratch, [&](std::int64_t item, const Head& h) {
    h.load_query(qkv);
    h.load_keys(qkv);
    h.load(y, h.query(), s.heads, h.y);
    h.load(dy, h.query(), s.heads, h.dy);
    loops::scale(length * d, score_scale(s), h.q);
    float* dots = h.sums;
    for (std::int64_t t = 0; t < length; ++t) dots[t] = loops::dot(d, h.dy + t * d, h.y + t * d);
    std::fill_n(h.dq, length * d, 0.0F);
    if (item % s.shared_by() == 0) {  // the first of those that share them
      std::fill_n(h.dk, length * d, 0.0F);
      std::fill_n(h.dv, length * d, 0.0F);
    }
    for (std::int64_t row = 0; row < length; row += kTileRows) {
      const std::int64_t end = h.seen(std::min(row + kTileRows, length) - 1);
      for (std::int64_t column = 0; column < end; column += kTileRows) {
        const loops::ScoreTile t = h.tile(row, column);
        h.multiply_scores(t, row, column);
        loops::softmax_again(t, log_sums + item * length + row);
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
        h.add(t, h.gradients, false, h.k + column * d, h.dq + row * d);
        h.add(t, h.gradients, true, h.q + row * d, h.dk + column * d);
        h.drop_tile(drop, t, row, column, t.scores);
        h.add(t, t.scores, true, h.dy + row * d, h.dv + column * d);
      }
    }
    loops::scale(length * d, score_scale(s), h.dq);
    h.store(h.dq, h.query(), h.row_heads(), accumulate, dqkv);
    if ((item + 1) % s.shared_by() != 0) return;
    h.store(h.dk, s.heads + h.key(), h.row_heads(), accumulate, dqkv);
    h.store(h.dv, s.heads + s.key_heads() + h.key(), h.row_heads(), accumulate, dqkv);
  });
}

}  // namespace lpmm::kernels
