// Compiled once for each instruction set by Highway's foreach_target.
#include "kernels/cpu/sequence/sequence_loops.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sequence/sequence_loops.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "kernels/cpu/compute/exponential-inl.h"
#include "kernels/cpu/compute/vectors-inl.h"
#include "kernels/cpu/tile.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels::loops::HWY_NAMESPACE {
namespace {

// Lanes as a tree.
HWY_INLINE float total(const Sums& sums) {
  alignas(64) float lanes[kGroupChannels];
  for (int i = 0; i < kVectors; ++i) hn::StoreU(sums.v[i], d32, lanes + i * kLanes);
  for (int width = kGroupChannels / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

// The sum of value(Vectors or Singles, i) over a row: 16 lanes, then what is left one by one.
template <class Value>
HWY_INLINE float sum_of(std::int64_t count, Value value) {
  Sums sums;
  std::int64_t i = 0;
  for (; i + kGroupChannels <= count; i += kGroupChannels) {
    for (int v = 0; v < kVectors; ++v) sums.v[v] = hn::Add(sums.v[v], value(Vectors(), i + v * kLanes));
  }
  float sum = total(sums);
  for (; i < count; ++i) sum += hn::GetLane(value(Singles(), i));
  return sum;
}

HWY_INLINE float maximum_of(std::int64_t count, const float* x) {
  V most = hn::Set(d32, x[0]);
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) most = hn::Max(most, Fp32::load(x + i));
  float maximum = hn::GetLane(hn::MaxOfLanes(d32, most));
  for (; i < count; ++i) maximum = std::max(maximum, x[i]);
  return maximum;
}

// ---- norms of rows ---------------------------------------------------------------------------------------
// A norm that is not centred has a mean of 0 and no bias.
template <class T, bool kCentred>
void normalize(const RowNormShape& shape, const RowNormForward& args) {
  const std::int64_t width = shape.width;
  const float share = 1.0F / static_cast<float>(width);
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const auto* x = static_cast<const typename T::Cell*>(args.x) + shape.at(r);
    auto* y = static_cast<typename T::Cell*>(args.y) + shape.at(r);
    float m = 0;
    if constexpr (kCentred) {
      m = share * sum_of(width, [&](auto at, std::int64_t i) HWY_ATTR { return at.load(x + i); });
      args.mean[r] = m;
    }
    const V center = hn::Set(d32, m);
    const float square = sum_of(width, [&](auto at, std::int64_t i) HWY_ATTR {
      const V d = hn::Sub(at.load(x + i), center);
      return hn::Mul(d, d);
    });
    const auto inverse =
        static_cast<float>(1 / std::sqrt(static_cast<double>(square) * share + shape.epsilon));
    const V factor = hn::Set(d32, inverse), more = hn::Set(d32, shape.adds_one ? 1.0F : 0.0F);
    each(width, [&](auto at, std::int64_t i) HWY_ATTR {
      const V normal = hn::Mul(hn::Sub(at.load(x + i), center), factor);
      V v = hn::Mul(normal, hn::Add(at.load(args.weight + i), more));
      if constexpr (kCentred) v = hn::Add(v, at.load(args.bias + i));
      at.store(y + i, v);
    });
    args.inverse_deviation[r] = inverse;
  }
}
void row_norm_forward(const RowNormShape& shape, const RowNormForward& args) {
  with_type(shape.type, shape.is_centred,
            [&]<class T, bool kCentred>() HWY_ATTR { normalize<T, kCentred>(shape, args); });
}

// With n = (x - mean) * r and g = dy * weight: dx = r * (g - mean of g - n * mean of g n), without the mean
// of g where the norm is not centred.
template <class T, bool kCentred, bool kAccumulate>
void norm_gradients(const RowNormShape& shape, const RowNormBackward& args) {
  const std::int64_t width = shape.width;
  const float share = 1.0F / static_cast<float>(width);
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const auto* x = static_cast<const typename T::Cell*>(args.x) + shape.at(r);
    const auto* dy = static_cast<const typename T::Cell*>(args.dy) + shape.at(r);
    auto* dx = static_cast<typename T::Cell*>(args.dx) + shape.at(r);
    const float m = kCentred ? args.mean[r] : 0.0F, inverse = args.inverse_deviation[r];
    const V center = hn::Set(d32, m), factor = hn::Set(d32, inverse),
            more = hn::Set(d32, shape.adds_one ? 1.0F : 0.0F);
    const auto normal = [&](auto at, std::int64_t i)
                            HWY_ATTR { return hn::Mul(hn::Sub(at.load(x + i), center), factor); };
    const auto g = [&](auto at, std::int64_t i)
                       HWY_ATTR { return hn::Mul(at.load(dy + i), hn::Add(at.load(args.weight + i), more)); };
    float mean_g = 0;
    if constexpr (kCentred) mean_g = share * sum_of(width, g);
    const float mean_gn = share * sum_of(width, [&](auto at, std::int64_t i)
                                                    HWY_ATTR { return hn::Mul(g(at, i), normal(at, i)); });
    const V shift = hn::Set(d32, mean_g), slope = hn::Set(d32, mean_gn);
    each(width, [&](auto at, std::int64_t i) HWY_ATTR {
      const V n = normal(at, i), d = at.load(dy + i);
      at.store(args.weight_gradient + i, multiply_add(d, n, at.load(args.weight_gradient + i)));
      if constexpr (kCentred) put<true>(at, args.bias_gradient + i, d);
      put<kAccumulate>(at, dx + i, hn::Mul(factor, hn::Sub(hn::Sub(g(at, i), shift), hn::Mul(n, slope))));
    });
  }
}
void row_norm_backward(const RowNormShape& shape, const RowNormBackward& args) {
  with_type(shape.type, args.accumulate, [&]<class T, bool kAccumulate>() HWY_ATTR {
    (shape.is_centred ? norm_gradients<T, true, kAccumulate> : norm_gradients<T, false, kAccumulate>)(shape,
                                                                                                      args);
  });
}

// ---- dropout ---------------------------------------------------------------------------------------------
// Sixteen words hold the draws of 32 elements: of the first sixteen in their lower halves.
void drop(std::int64_t count, const Dropout& by, const std::uint32_t* words, float* values) {
  const auto threshold = hn::Set(du32, by.threshold), low = hn::Set(du32, 0xFFFFU);
  const V scale = hn::Set(d32, by.scale);
  std::int64_t i = 0;
  for (; i + 32 <= count; i += 32, words += 16) {
    for (int lane = 0; lane < 16; lane += kLanes) {
      const auto word = hn::LoadU(du32, words + lane);
      float *first = values + i + lane, *second = first + 16;
      const auto keep = [&](auto draws, float* v) HWY_ATTR {
        const auto dropped = hn::RebindMask(d32, hn::Lt(draws, threshold));
        Fp32::store(v, hn::IfThenZeroElse(dropped, hn::Mul(scale, Fp32::load(v))));
      };
      keep(hn::And(word, low), first);
      keep(hn::ShiftRight<16>(word), second);
    }
  }
  for (std::int64_t rest = 0; i < count; ++i, ++rest) {
    values[i] = draw_of(words, rest) >= by.threshold ? by.scale * values[i] : 0.0F;
  }
}

// ---- softmax ---------------------------------------------------------------------------------------------
// x <- exp(x - shift); returns the sum.
HWY_INLINE float exponentials(std::int64_t count, float shift, float* x) {
  const V offset = hn::Set(d32, shift);
  return sum_of(count, [&](auto at, std::int64_t i) HWY_ATTR {
    const V e = exp_of(hn::Sub(at.load(x + i), offset));
    at.store(x + i, e);
    return e;
  });
}

void scale(std::int64_t count, float factor, float* x) {
  const V f = hn::Set(d32, factor);
  each(count, [&](auto at, std::int64_t i) HWY_ATTR { at.store(x + i, hn::Mul(at.load(x + i), f)); });
}

float dot(std::int64_t count, const float* a, const float* b) {
  return sum_of(count,
                [&](auto at, std::int64_t i) HWY_ATTR { return hn::Mul(at.load(a + i), at.load(b + i)); });
}

float sum(std::int64_t count, const float* values) {
  return sum_of(count, [&](auto at, std::int64_t i) HWY_ATTR { return at.load(values + i); });
}

// The columns of a tile that its row r sees; the scores of the others become 0.
struct Columns {
  std::int64_t first, count;
};
HWY_INLINE Columns seen_columns(const ScoreTile& t, std::int64_t r) {
  float* const row = t.scores + r * t.columns;
  const auto within = [&](std::int64_t key) {
    return std::clamp<std::int64_t>(key - t.column, 0, t.columns);
  };
  const std::int64_t first = within(t.seen.first(t.row + r)),
                     end = std::max(first, within(t.seen.end(t.row + r)));
  std::fill(row, row + first, 0.0F);
  std::fill(row + end, row + t.columns, 0.0F);
  return {first, end - first};
}

void softmax_online(const ScoreTile& t, float* maximum, float* sum, float* output, std::int64_t width) {
  for (std::int64_t r = 0; r < t.rows; ++r) {
    const Columns of = seen_columns(t, r);
    if (of.count == 0) continue;
    float* row = t.scores + r * t.columns + of.first;
    const float most = std::max(maximum[r], maximum_of(of.count, row));
    const float correction = exp_of(maximum[r] - most);  // 0 for the first tile
    maximum[r] = most;
    sum[r] = sum[r] * correction + exponentials(of.count, most, row);
    if (correction != 1.0F) scale(width, correction, output + r * width);
  }
}

void softmax_again(const ScoreTile& t, const float* log_sums) {
  for (std::int64_t r = 0; r < t.rows; ++r) {
    const Columns of = seen_columns(t, r);
    exponentials(of.count, log_sums[r], t.scores + r * t.columns + of.first);
  }
}

void softmax_backward(const ScoreTile& t, const float* dots, float* gradient) {
  for (std::int64_t r = 0; r < t.rows; ++r) {
    const float* p = t.scores + r * t.columns;
    float* g = gradient + r * t.columns;
    const V d = hn::Set(d32, dots[r]);
    each(t.columns, [&](auto at, std::int64_t i)
                        HWY_ATTR { at.store(g + i, hn::Mul(at.load(p + i), hn::Sub(at.load(g + i), d))); });
  }
}

void softmax_scan(std::int64_t first, std::int64_t columns, const float* logits, std::int32_t label,
                  SoftmaxRow* state) {
  SoftmaxRow& s = *state;
  const float most = maximum_of(columns, logits);
  if (most > s.maximum) {
    s.best = static_cast<std::int32_t>(first + (std::find(logits, logits + columns, most) - logits));
    s.sum *= static_cast<double>(exp_of(s.maximum - most));
    s.maximum = most;
  }
  const V offset = hn::Set(d32, s.maximum);
  s.sum += static_cast<double>(sum_of(columns, [&](auto at, std::int64_t i) HWY_ATTR {
    return exp_of(hn::Sub(at.load(logits + i), offset));
  }));
  if (label >= first && label < first + columns) s.target = logits[label - first];
}

// Less a spread of 0 is the same value.
void softmax_gradient(std::int64_t columns, float scale, float log_sum, float spread, float* logits) {
  const V offset = hn::Set(d32, log_sum), factor = hn::Set(d32, scale), less = hn::Set(d32, spread);
  each(columns, [&](auto at, std::int64_t i) HWY_ATTR {
    const V p = hn::Mul(factor, exp_of(hn::Sub(at.load(logits + i), offset)));
    at.store(logits + i, hn::Sub(p, less));
  });
}

const SequenceLoops& sequence_loops() {
  static constexpr SequenceLoops kLoops{row_norm_forward,
                                        row_norm_backward,
                                        drop,
                                        softmax_online,
                                        softmax_again,
                                        softmax_backward,
                                        dot,
                                        sum,
                                        scale,
                                        softmax_scan,
                                        softmax_gradient};
  return kLoops;
}

}  // namespace
}  // namespace lpmm::kernels::loops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lpmm::kernels::loops {
HWY_EXPORT(sequence_loops);
const SequenceLoops& sequences() {
  return HWY_DYNAMIC_DISPATCH(sequence_loops)();
}
}  // namespace lpmm::kernels::loops
#endif  // HWY_ONCE
