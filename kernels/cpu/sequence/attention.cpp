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
      : s_(s), item_(item), d_(s.head_width), length_(s.length), keys_(s.key_rows()) {
    float** const of_queries[] = {&q, &y, &dy, &dq};
    float** const of_keys[] = {&k, &v, &dk, &dv};
    for (float** p : of_queries) *p = take(base, length_ * d_);
    for (float** p : of_keys) *p = take(base, keys_ * d_);
    scores = take(base, kTileRows * kTileRows);
    gradients = take(base, kTileRows * kTileRows);
    maxima = take(base, length_);
    sums = take(base, length_);
  }
  static std::int64_t floats(const AttentionShape& s) {
    const std::int64_t d = s.head_width;
    return 4 * padded(s.length * d) + 4 * padded(s.key_rows() * d) + 2 * padded(kTileRows * kTileRows) +
           2 * padded(s.length);
  }

  // The layout in memory: `room` rows of each sequence, of `heads` heads each.
  struct Lines {
    std::int64_t room;
    int heads;
  };
  // This head, number `at` of a row, of `count` rows of its sequence.
  void load(const void* from, const Lines& lines, int at, std::int64_t count, float* to) const {
    loops::elements().to_float(s_.type, {count, d_, lines.heads * d_, d_}, bytes_at(from, offset(lines, at)),
                               to);
  }
  void store(const float* from, const Lines& lines, int at, std::int64_t count, bool accumulate,
             void* to) const {
    loops::elements().from_float(s_.type, {count, d_, d_, lines.heads * d_, accumulate}, from,
                                 bytes_at(to, offset(lines, at)));
  }
  // Its number among the heads of queries, and that of its keys and values among theirs.
  int query() const { return static_cast<int>(item_ % s_.heads); }
  int key() const { return query() / s_.shared_by(); }
  int key_place() const { return s_.first_key_head() + key(); }  // in a row of them
  int value_place() const { return key_place() + s_.key_heads(); }
  Lines query_lines() const { return {length_, s_.query_row_heads()}; }
  Lines key_lines() const { return {keys_, s_.key_row_heads()}; }
  Lines result_lines() const { return {length_, s_.heads}; }
  void load_query(const void* from) const { load(from, query_lines(), query(), length_, q); }
  void load_keys(const void* from) const {
    load(from, key_lines(), key_place(), keys_, k);
    load(from, key_lines(), value_place(), keys_, v);
  }

  // y of positions `first` and later, from q, k and v, with sums and maxima of their scores.
  void attend(std::int64_t first, const Dropout& drop, const float* bias = nullptr) const;

  // Drops from `values` of a tile, of its scores' shape.
  void drop_tile(const Dropout& drop, const loops::ScoreTile& t, float* values) const {
    if (drop.threshold == 0) return;
    for (std::int64_t r = 0; r < t.rows; ++r) {
      alignas(64) std::uint32_t words[kGroup / 2];
      const std::int64_t line = item_ * length_ + t.row + r;
      tile_kernels().draw(drop.noise, line * groups_of(keys_) + t.column / kGroup, 1, words);
      loops::sequences().drop(t.columns, drop, words, values + r * t.columns);
    }
  }

  // Calls body(tile of scores) for those of rows `first`... that hold a key that a row sees.
  template <class Body>
  void for_tiles(std::int64_t first, const Body& body) const {
    const Seen seen = s_.seen(item_ / s_.heads);
    for (std::int64_t row = first; row < length_; row += kTileRows) {
      const std::int64_t rows = std::min(kTileRows, length_ - row), end = seen.end(row + rows - 1);
      for (std::int64_t column = seen.first(row) / kTileRows * kTileRows; column < end; column += kTileRows) {
        body(loops::ScoreTile{rows, std::min(kTileRows, keys_ - column), row, column, seen, scores});
      }
    }
  }
  // The bias of this head at the distance from a row to a key.
  std::int64_t bias_at(std::int64_t row, std::int64_t key) const {
    return s_.distance(row, key) * s_.heads + query();
  }
  // scores <- q k^T of a tile, and its bias; q is scaled already.
  void multiply_scores(const loops::ScoreTile& t, const float* bias) const {
    for (std::int64_t r = 0; r < t.rows && bias != nullptr; ++r) {
      for (std::int64_t c = 0; c < t.columns; ++c)
        t.scores[r * t.columns + c] = bias[bias_at(t.row + r, t.column + c)];
    }
    multiply({.transpose_b = true,
              .m = t.rows,
              .n = t.columns,
              .k = d_,
              .a = q + t.row * d_,
              .a_stride = d_,
              .b = k + t.column * d_,
              .b_stride = d_,
              .c = t.scores,
              .c_stride = t.columns,
              .accumulate = bias != nullptr});
  }
  // sums[distance] += what a tile of gradients has along it.
  void add_by_distance(const loops::ScoreTile& t, float* sums_of) const {
    for (std::int64_t r = 0; r < t.rows; ++r) {
      float* const to = sums_of + s_.distance(t.row + r, t.column);
      for (std::int64_t c = 0; c < t.columns; ++c) to[c] += gradients[r * t.columns + c];
    }
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

  float *q, *y, *dy, *dq, *k, *v, *dk, *dv;  // (length or that of keys, head_width)
  float *scores, *gradients;                 // one tile
  float *maxima, *sums;                      // (length)

 private:
  static std::int64_t padded(std::int64_t floats) { return aligned(4 * floats) / 4; }
  static float* take(float*& base, std::int64_t floats) {
    float* p = base;
    base += padded(floats);
    return p;
  }
  std::int64_t offset(const Lines& lines, int at) const {
    const std::int64_t row = item_ / s_.heads * lines.room;
    return (row * lines.heads + at) * d_ * value_bytes(s_.type);
  }
  const AttentionShape& s_;
  std::int64_t item_, d_, length_, keys_;
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

void Head::attend(std::int64_t first, const Dropout& drop, const float* bias) const {
  const loops::SequenceLoops& loops = loops::sequences();
  loops.scale((length_ - first) * d_, score_scale(s_), q + first * d_);
  std::fill(y + first * d_, y + length_ * d_, 0.0F);
  std::fill(maxima + first, maxima + length_, -std::numeric_limits<float>::infinity());
  std::fill(sums + first, sums + length_, 0.0F);
  for_tiles(first, [&](const loops::ScoreTile& t) {
    multiply_scores(t, bias);
    loops.softmax_online(t, maxima + t.row, sums + t.row, y + t.row * d_, d_);
    drop_tile(drop, t, t.scores);
    add(t, t.scores, false, v + t.column * d_, y + t.row * d_);
  });
  for (std::int64_t t = first; t < length_; ++t) loops.scale(d_, 1.0F / sums[t], y + t * d_);
}

// Attention to what is cached, and to itself.
void attend_cached(Pool& pool, const AttentionForward& args) {
  const AttentionShape& s = args.shape;
  const std::int64_t b = value_bytes(s.type), both = 2 * s.key_width() * b, past = args.past;
  for (std::int64_t row = 0; row < s.rows(); ++row) {
    const std::int64_t to = row / s.length * args.room + past + row % s.length;
    std::memcpy(bytes_at(args.cache, to * both), bytes_at(args.q, (row * s.row_width() + s.width()) * b),
                static_cast<std::size_t>(both));
  }
  AttentionShape whole = s;
  whole.length += args.past;
  const Head::Lines of_qkv{s.length, s.query_row_heads()}, of_cache{args.room, 2 * s.key_heads()},
      of_y{s.length, s.heads};
  for_heads(pool, whole, false, args.scratch, [&](std::int64_t, const Head& h) {
    const std::int64_t first = past * s.head_width;
    h.load(args.q, of_qkv, h.query(), s.length, h.q + first);
    h.load(args.cache, of_cache, h.key(), whole.length, h.k);
    h.load(args.cache, of_cache, s.key_heads() + h.key(), whole.length, h.v);
    h.attend(past, {});
    h.store(h.y + first, of_y, h.query(), s.length, false, args.y);
  });
}

// The sums of gradients at each distance, of every head of every sequence, behind the heads of threads.
std::int64_t distance_floats(const AttentionShape& s) {
  return s.has_bias ? s.batch * s.heads * s.distances() : 0;
}
// The gradient of the bias: those sums over sequences, in their order.
void add_bias_gradient(Pool& pool, const AttentionBackward& args, const float* sums) {
  const AttentionShape& s = args.shape;
  pool.for_each(s.distances(), [&](std::int64_t distance, int) {
    for (std::int64_t head = 0; head < s.heads; ++head) {
      float& to = args.bias_gradient[distance * s.heads + head];
      float sum = args.accumulate_bias ? to : 0;
      for (std::int64_t i = 0; i < s.batch; ++i) sum += sums[(i * s.heads + head) * s.distances() + distance];
      to = sum;
    }
  });
}

}  // namespace

std::int64_t CpuDevice::attention_scratch_bytes(const AttentionShape& s) const {
  return 4 * (Head::floats(s) * threads_ + distance_floats(s));
}

std::int64_t attention_probabilities(const AttentionShape& s) {
  return s.rows() * s.heads * groups_of(s.key_rows()) * kGroup;
}

void CpuDevice::attention_forward(const AttentionForward& args) {
  if (args.cache != nullptr) return attend_cached(pool(), args);
  const AttentionShape& s = args.shape;
  for_heads(pool(), s, false, args.scratch, [&](std::int64_t item, const Head& h) {
    h.load_query(args.q);
    h.load_keys(s.is_self() ? args.q : args.kv);
    h.attend(0, args.drop, args.bias);
    for (std::int64_t t = 0; t < s.length; ++t) {
      args.log_sums[item * s.length + t] = h.maxima[t] + std::log(h.sums[t]);
    }
    h.store(h.y, h.result_lines(), h.query(), s.length, false, args.y);
  });
}

// With p = softmax(scores), D = sum of dy * y: dv = drop(p)^T dy, ds = p * (drop(dy v^T) - D), dq = ds k,
// dk = ds^T q; a bias has ds as its gradient.
void CpuDevice::attention_backward(const AttentionBackward& args) {
  const AttentionShape& s = args.shape;
  const loops::SequenceLoops& loops = loops::sequences();
  const std::int64_t d = s.head_width, length = s.length, keys = s.key_rows();
  void* const dkv = s.is_self() ? args.dq : args.dkv;
  const bool adds_keys = s.is_self() ? args.accumulate : args.accumulate_kv;
  float* const sums = static_cast<float*>(args.scratch) + Head::floats(s) * threads_;
  std::fill_n(sums, distance_floats(s), 0.0F);
  for_heads(pool(), s, true, args.scratch, [&](std::int64_t item, const Head& h) {
    h.load_query(args.q);
    h.load_keys(s.is_self() ? args.q : args.kv);
    h.load(args.y, h.result_lines(), h.query(), length, h.y);
    h.load(args.dy, h.result_lines(), h.query(), length, h.dy);
    loops.scale(length * d, score_scale(s), h.q);
    float* dots = h.sums;
    for (std::int64_t t = 0; t < length; ++t) dots[t] = loops.dot(d, h.dy + t * d, h.y + t * d);
    std::fill_n(h.dq, length * d, 0.0F);
    if (item % s.shared_by() == 0) {  // the first of those that share them
      std::fill_n(h.dk, keys * d, 0.0F);
      std::fill_n(h.dv, keys * d, 0.0F);
    }
    h.for_tiles(0, [&](const loops::ScoreTile& t) {
      h.multiply_scores(t, args.bias);
      loops.softmax_again(t, args.log_sums + item * length + t.row);
      Head::multiply({.transpose_b = true,
                      .m = t.rows,
                      .n = t.columns,
                      .k = d,
                      .a = h.dy + t.row * d,
                      .a_stride = d,
                      .b = h.v + t.column * d,
                      .b_stride = d,
                      .c = h.gradients,
                      .c_stride = t.columns});
      h.drop_tile(args.drop, t, h.gradients);
      loops.softmax_backward(t, dots + t.row, h.gradients);
      if (s.has_bias) h.add_by_distance(t, sums + item * s.distances());
      h.add(t, h.gradients, false, h.k + t.column * d, h.dq + t.row * d);
      h.add(t, h.gradients, true, h.q + t.row * d, h.dk + t.column * d);
      h.drop_tile(args.drop, t, t.scores);
      h.add(t, t.scores, true, h.dy + t.row * d, h.dv + t.column * d);
    });
    loops.scale(length * d, score_scale(s), h.dq);
    h.store(h.dq, h.query_lines(), h.query(), length, args.accumulate, args.dq);
    if ((item + 1) % s.shared_by() != 0) return;
    h.store(h.dk, h.key_lines(), h.key_place(), keys, adds_keys, dkv);
    h.store(h.dv, h.key_lines(), h.value_place(), keys, adds_keys, dkv);
  });
  if (s.has_bias) add_bias_gradient(pool(), args, sums);
}

}  // namespace lpmm::kernels
