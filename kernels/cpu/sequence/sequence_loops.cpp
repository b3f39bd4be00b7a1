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

// Sum of value(i) over a row: 16 lanes, then what is left one by one.
template <class Wide, class Narrow>
HWY_INLINE float sum_of(std::int64_t count, Wide wide, Narrow narrow) {
  Sums sums;
  std::int64_t i = 0;
  for (; i + kGroupChannels <= count; i += kGroupChannels) {
    for (int v = 0; v < kVectors; ++v) sums.v[v] = hn::Add(sums.v[v], wide(i + v * kLanes));
  }
  float sum = total(sums);
  for (; i < count; ++i) sum += narrow(i);
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
void RowNormForward(const RowNormShape& shape, const void* in, const float* weight, const float* bias,
                    void* out, float* mean, float* inverse_deviation) {
  const std::int64_t width = shape.width;
  const float share = 1.0F / static_cast<float>(width);
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const auto* x = static_cast<const typename T::Cell*>(in) + shape.at(r);
    auto* y = static_cast<typename T::Cell*>(out) + shape.at(r);
    float m = 0;
    if constexpr (kCentred) {
      m = share * sum_of(
                      width, [&](std::int64_t i) HWY_ATTR { return T::load(x + i); },
                      [&](std::int64_t i) HWY_ATTR { return T::load1(x + i); });
      mean[r] = m;
    }
    const V center = hn::Set(d32, m);
    const float square = sum_of(
        width,
        [&](std::int64_t i) HWY_ATTR {
          const V d = hn::Sub(T::load(x + i), center);
          return hn::Mul(d, d);
        },
        [&](std::int64_t i) HWY_ATTR { return (T::load1(x + i) - m) * (T::load1(x + i) - m); });
    const auto inverse =
        static_cast<float>(1 / std::sqrt(static_cast<double>(square) * share + shape.epsilon));
    const V factor = hn::Set(d32, inverse);
    each(
        width,
        [&](std::int64_t i) HWY_ATTR {
          const V normal = hn::Mul(hn::Sub(T::load(x + i), center), factor);
          V v = hn::Mul(normal, Fp32::load(weight + i));
          if constexpr (kCentred) v = hn::Add(v, Fp32::load(bias + i));
          T::store(y + i, v);
        },
        [&](std::int64_t i) HWY_ATTR {
          float v = (T::load1(x + i) - m) * inverse * weight[i];
          if constexpr (kCentred) v += bias[i];
          T::store1(y + i, v);
        });
    inverse_deviation[r] = inverse;
  }
}

// With n = (x - mean) * r and g = dy * weight: dx = r * (g - mean of g - n * mean of g n), without the mean
// of g where the norm is not centred.
template <class T, bool kCentred, bool kAccumulate>
void RowNormBackwardPass(const RowNormShape& shape, const RowNormBackward& args) {
  const std::int64_t width = shape.width;
  const float share = 1.0F / static_cast<float>(width);
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const auto* x = static_cast<const typename T::Cell*>(args.x) + shape.at(r);
    const auto* dy = static_cast<const typename T::Cell*>(args.dy) + shape.at(r);
    auto* dx = static_cast<typename T::Cell*>(args.dx) + shape.at(r);
    const float m = kCentred ? args.mean[r] : 0.0F, inverse = args.inverse_deviation[r];
    const V center = hn::Set(d32, m), factor = hn::Set(d32, inverse);
    const auto normal = [&](std::int64_t i)
                            HWY_ATTR { return hn::Mul(hn::Sub(T::load(x + i), center), factor); };
    const auto normal1 = [&](std::int64_t i) HWY_ATTR { return (T::load1(x + i) - m) * inverse; };
    const auto g = [&](std::int64_t i)
                       HWY_ATTR { return hn::Mul(T::load(dy + i), Fp32::load(args.weight + i)); };
    const auto g1 = [&](std::int64_t i) HWY_ATTR { return T::load1(dy + i) * args.weight[i]; };
    float mean_g = 0;
    if constexpr (kCentred) mean_g = share * sum_of(width, g, g1);
    const float mean_gn =
        share * sum_of(
                    width, [&](std::int64_t i) HWY_ATTR { return hn::Mul(g(i), normal(i)); },
                    [&](std::int64_t i) HWY_ATTR { return g1(i) * normal1(i); });
    const V shift = hn::Set(d32, mean_g), slope = hn::Set(d32, mean_gn);
    each(
        width,
        [&](std::int64_t i) HWY_ATTR {
          const V n = normal(i), d = T::load(dy + i);
          Fp32::store(args.weight_gradient + i, multiply_add(d, n, Fp32::load(args.weight_gradient + i)));
          if constexpr (kCentred) {
            Fp32::store(args.bias_gradient + i, hn::Add(d, Fp32::load(args.bias_gradient + i)));
          }
          V v = hn::Mul(factor, hn::Sub(hn::Sub(g(i), shift), hn::Mul(n, slope)));
          if (kAccumulate) v = hn::Add(v, T::load(dx + i));
          T::store(dx + i, v);
        },
        [&](std::int64_t i) HWY_ATTR {
          const float n = normal1(i), d = T::load1(dy + i);
          args.weight_gradient[i] += d * n;
          if constexpr (kCentred) args.bias_gradient[i] += d;
          const float v = inverse * (g1(i) - mean_g - n * mean_gn);
          T::store1(dx + i, kAccumulate ? v + T::load1(dx + i) : v);
        });
  }
}

// ---- dropout ---------------------------------------------------------------------------------------------
// Sixteen words hold the draws of 32 elements: of the first sixteen in their lower halves.
void Drop(std::int64_t count, const Dropout& drop, const std::uint32_t* words, float* values) {
  const auto threshold = hn::Set(du32, drop.threshold), low = hn::Set(du32, 0xFFFFU);
  const V scale = hn::Set(d32, drop.scale);
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
    values[i] = draw_of(words, rest) >= drop.threshold ? drop.scale * values[i] : 0.0F;
  }
}

// ---- softmax ---------------------------------------------------------------------------------------------
// x <- exp(x - shift); returns the sum.
HWY_INLINE float exponentials(std::int64_t count, float shift, float* x) {
  const V offset = hn::Set(d32, shift);
  return sum_of(
      count,
      [&](std::int64_t i) HWY_ATTR {
        const V e = exp_of(hn::Sub(Fp32::load(x + i), offset));
        Fp32::store(x + i, e);
        return e;
      },
      [&](std::int64_t i) HWY_ATTR { return x[i] = exp_of(x[i] - shift); });
}

void Scale(std::int64_t count, float factor, float* x) {
  const V f = hn::Set(d32, factor);
  each(
      count, [&](std::int64_t i) HWY_ATTR { Fp32::store(x + i, hn::Mul(Fp32::load(x + i), f)); },
      [&](std::int64_t i) HWY_ATTR { x[i] *= factor; });
}

float Dot(std::int64_t count, const float* a, const float* b) {
  return sum_of(
      count, [&](std::int64_t i) HWY_ATTR { return hn::Mul(Fp32::load(a + i), Fp32::load(b + i)); },
      [&](std::int64_t i) HWY_ATTR { return a[i] * b[i]; });
}

HWY_INLINE std::int64_t seen(const ScoreTile& t, std::int64_t row) {
  return std::clamp<std::int64_t>(t.visible + row * t.step, 0, t.columns);
}

void SoftmaxOnline(const ScoreTile& t, float* maximum, float* sum, float* output, std::int64_t width) {
  for (std::int64_t r = 0; r < t.rows; ++r) {
    float* row = t.scores + r * t.columns;
    const std::int64_t count = seen(t, r);
    if (count == 0) {
      std::fill(row, row + t.columns, 0.0F);
      continue;
    }
    const float most = std::max(maximum[r], maximum_of(count, row));
    const float correction = exp_of(maximum[r] - most);  // 0 for the first tile
    maximum[r] = most;
    sum[r] = sum[r] * correction + exponentials(count, most, row);
    std::fill(row + count, row + t.columns, 0.0F);
    if (correction != 1.0F) Scale(width, correction, output + r * width);
  }
}

void SoftmaxAgain(const ScoreTile& t, const float* log_sums) {
  for (std::int64_t r = 0; r < t.rows; ++r) {
    float* row = t.scores + r * t.columns;
    const std::int64_t count = seen(t, r);
    exponentials(count, log_sums[r], row);
    std::fill(row + count, row + t.columns, 0.0F);
  }
}

void SoftmaxBackward(const ScoreTile& t, const float* dots, float* gradient) {
  for (std::int64_t r = 0; r < t.rows; ++r) {
    const float* p = t.scores + r * t.columns;
    float* g = gradient + r * t.columns;
    const V d = hn::Set(d32, dots[r]);
    each(
        t.columns,
        [&](std::int64_t i)
            HWY_ATTR { Fp32::store(g + i, hn::Mul(Fp32::load(p + i), hn::Sub(Fp32::load(g + i), d))); },
        [&](std::int64_t i) HWY_ATTR { g[i] = p[i] * (g[i] - dots[r]); });
  }
}

void SoftmaxScan(std::int64_t first, std::int64_t columns, const float* logits, std::int32_t label,
                 SoftmaxRow* state) {
  SoftmaxRow& s = *state;
  const float most = maximum_of(columns, logits);
  if (most > s.maximum) {
    s.best = static_cast<std::int32_t>(first + (std::find(logits, logits + columns, most) - logits));
    s.sum *= static_cast<double>(exp_of(s.maximum - most));
    s.maximum = most;
  }
  const V offset = hn::Set(d32, s.maximum);
  s.sum += static_cast<double>(sum_of(
      columns, [&](std::int64_t i) HWY_ATTR { return exp_of(hn::Sub(Fp32::load(logits + i), offset)); },
      [&](std::int64_t i) HWY_ATTR { return exp_of(logits[i] - s.maximum); }));
  if (label >= first && label < first + columns) s.target = logits[label - first];
}

float Sum(std::int64_t count, const float* values) {
  return sum_of(
      count, [&](std::int64_t i) HWY_ATTR { return Fp32::load(values + i); },
      [&](std::int64_t i) HWY_ATTR { return values[i]; });
}

// Less a spread of 0 is the same value.
void SoftmaxGradient(std::int64_t columns, float scale, float log_sum, float spread, float* logits) {
  const V offset = hn::Set(d32, log_sum), factor = hn::Set(d32, scale), less = hn::Set(d32, spread);
  each(
      columns,
      [&](std::int64_t i) HWY_ATTR {
        const V p = hn::Mul(factor, exp_of(hn::Sub(Fp32::load(logits + i), offset)));
        Fp32::store(logits + i, hn::Sub(p, less));
      },
      [&](std::int64_t i) HWY_ATTR { logits[i] = scale * exp_of(logits[i] - log_sum) - spread; });
}

// ---- by type ---------------------------------------------------------------------------------------------
void RowNormForwardAny(const RowNormShape& shape, const void* x, const float* weight, const float* bias,
                       void* y, float* mean, float* inverse_deviation) {
  with_type(shape.type, false, [&]<class T, bool>() HWY_ATTR {
    (shape.is_centred ? RowNormForward<T, true> : RowNormForward<T, false>)(shape, x, weight, bias, y, mean,
                                                                            inverse_deviation);
  });
}
void RowNormBackwardAny(const RowNormShape& shape, const RowNormBackward& args) {
  with_type(shape.type, args.accumulate, [&]<class T, bool kAccumulate>() HWY_ATTR {
    (shape.is_centred ? RowNormBackwardPass<T, true, kAccumulate>
                      : RowNormBackwardPass<T, false, kAccumulate>)(shape, args);
  });
}

}  // namespace
}  // namespace lpmm::kernels::loops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lpmm::kernels::loops {

HWY_EXPORT(RowNormForwardAny);
HWY_EXPORT(RowNormBackwardAny);
HWY_EXPORT(Drop);
HWY_EXPORT(SoftmaxOnline);
HWY_EXPORT(SoftmaxAgain);
HWY_EXPORT(SoftmaxBackward);
HWY_EXPORT(Dot);
HWY_EXPORT(Sum);
HWY_EXPORT(Scale);
HWY_EXPORT(SoftmaxScan);
HWY_EXPORT(SoftmaxGradient);

void row_norm_forward(const RowNormShape& shape, const void* x, const float* weight, const float* bias,
                      void* y, float* mean, float* inverse_deviation) {
  HWY_DYNAMIC_DISPATCH(RowNormForwardAny)(shape, x, weight, bias, y, mean, inverse_deviation);
}
void row_norm_backward(const RowNormShape& shape, const RowNormBackward& args) {
  HWY_DYNAMIC_DISPATCH(RowNormBackwardAny)(shape, args);
}
void drop(std::int64_t count, const Dropout& drop, const std::uint32_t* words, float* values) {
  HWY_DYNAMIC_DISPATCH(Drop)(count, drop, words, values);
}
void softmax_online(const ScoreTile& tile, float* maximum, float* sum, float* output, std::int64_t width) {
  HWY_DYNAMIC_DISPATCH(SoftmaxOnline)(tile, maximum, sum, output, width);
}
void softmax_again(const ScoreTile& tile, const float* log_sums) {
  HWY_DYNAMIC_DISPATCH(SoftmaxAgain)(tile, log_sums);
}
void softmax_backward(const ScoreTile& tile, const float* dots, float* gradient) {
  HWY_DYNAMIC_DISPATCH(SoftmaxBackward)(tile, dots, gradient);
}
float dot(std::int64_t count, const float* a, const float* b) {
  return HWY_DYNAMIC_DISPATCH(Dot)(count, a, b);
}
float sum(std::int64_t count, const float* values) {
  return HWY_DYNAMIC_DISPATCH(Sum)(count, values);
}
void scale(std::int64_t count, float factor, float* values) {
  HWY_DYNAMIC_DISPATCH(Scale)(count, factor, values);
}
void softmax_scan(std::int64_t first, std::int64_t columns, const float* logits, std::int32_t label,
                  SoftmaxRow* state) {
  HWY_DYNAMIC_DISPATCH(SoftmaxScan)(first, columns, logits, label, state);
}
void softmax_gradient(std::int64_t columns, float scale, float log_sum, float spread, float* logits) {
  HWY_DYNAMIC_DISPATCH(SoftmaxGradient)(columns, scale, log_sum, spread, logits);
}

}  // namespace lpmm::kernels::loops
#endif  // HWY_ONCE
