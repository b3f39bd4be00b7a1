// Compiled once for each instruction set by Highway's foreach_target.
#include "kernels/cpu/compute/sequence_loops.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/compute/sequence_loops.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

#include "kernels/cpu/compute/vectors-inl.h"
#include "kernels/cpu/tile.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels::loops::HWY_NAMESPACE {
namespace {

constexpr double kEpsilon = 1e-5;                      // of layer norm
constexpr float kGeluScale = 2 * 0.7978845608028654F;  // 2 sqrt(2 / pi)
constexpr float kGeluCube = 0.044715F;

// Finite for every number; NaN stays, so that a broken activation reaches the loss.
HWY_INLINE V exp_of(V x) {
  const V most = hn::Set(d32, 88.0F);
  const V e = hn::Exp(d32, hn::IfThenElse(hn::Gt(x, most), most, x));
  return hn::IfThenElse(hn::IsNaN(x), x, e);
}
// One value, as a lane of the vectors does it: whether an element is in the tail changes nothing.
HWY_INLINE float exp_of(float x) {
  return hn::GetLane(exp_of(hn::Set(d32, x)));
}

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

// ---- layer norm ------------------------------------------------------------------------------------------
template <class T>
void LayerNormForward(std::int64_t rows, std::int64_t width, const void* in, const float* weight,
                      const float* bias, void* out, float* mean, float* inverse_deviation) {
  const auto* x = static_cast<const typename T::Cell*>(in);
  auto* y = static_cast<typename T::Cell*>(out);
  const float share = 1.0F / static_cast<float>(width);
  for (std::int64_t r = 0; r < rows; ++r, x += width, y += width) {
    const float m = share * sum_of(
                                width, [&](std::int64_t i) HWY_ATTR { return T::load(x + i); },
                                [&](std::int64_t i) HWY_ATTR { return T::load1(x + i); });
    const V center = hn::Set(d32, m);
    const float square = sum_of(
        width,
        [&](std::int64_t i) HWY_ATTR {
          const V d = hn::Sub(T::load(x + i), center);
          return hn::Mul(d, d);
        },
        [&](std::int64_t i) HWY_ATTR { return (T::load1(x + i) - m) * (T::load1(x + i) - m); });
    const auto inverse = static_cast<float>(1 / std::sqrt(static_cast<double>(square) * share + kEpsilon));
    const V factor = hn::Set(d32, inverse);
    each(
        width,
        [&](std::int64_t i) HWY_ATTR {
          const V normal = hn::Mul(hn::Sub(T::load(x + i), center), factor);
          T::store(y + i, multiply_add(normal, Fp32::load(weight + i), Fp32::load(bias + i)));
        },
        [&](std::int64_t i)
            HWY_ATTR { T::store1(y + i, (T::load1(x + i) - m) * inverse * weight[i] + bias[i]); });
    mean[r] = m;
    inverse_deviation[r] = inverse;
  }
}

// With n = (x - mean) * r and g = dy * weight: dx = r * (g - mean of g - n * mean of g n).
template <class T, bool kAccumulate>
void LayerNormBackward(std::int64_t rows, std::int64_t width, const RowNormBackward& args) {
  const auto* x = static_cast<const typename T::Cell*>(args.x);
  const auto* dy = static_cast<const typename T::Cell*>(args.dy);
  auto* dx = static_cast<typename T::Cell*>(args.dx);
  const float share = 1.0F / static_cast<float>(width);
  for (std::int64_t r = 0; r < rows; ++r, x += width, dy += width, dx += width) {
    const float m = args.mean[r], inverse = args.inverse_deviation[r];
    const V center = hn::Set(d32, m), factor = hn::Set(d32, inverse);
    const auto normal = [&](std::int64_t i)
                            HWY_ATTR { return hn::Mul(hn::Sub(T::load(x + i), center), factor); };
    const auto normal1 = [&](std::int64_t i) HWY_ATTR { return (T::load1(x + i) - m) * inverse; };
    const auto g = [&](std::int64_t i)
                       HWY_ATTR { return hn::Mul(T::load(dy + i), Fp32::load(args.weight + i)); };
    const auto g1 = [&](std::int64_t i) HWY_ATTR { return T::load1(dy + i) * args.weight[i]; };
    const float mean_g = share * sum_of(width, g, g1);
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
          Fp32::store(args.bias_gradient + i, hn::Add(d, Fp32::load(args.bias_gradient + i)));
          V v = hn::Mul(factor, hn::Sub(hn::Sub(g(i), shift), hn::Mul(n, slope)));
          if (kAccumulate) v = hn::Add(v, T::load(dx + i));
          T::store(dx + i, v);
        },
        [&](std::int64_t i) HWY_ATTR {
          const float n = normal1(i), d = T::load1(dy + i);
          args.weight_gradient[i] += d * n;
          args.bias_gradient[i] += d;
          const float v = inverse * (g1(i) - mean_g - n * mean_gn);
          T::store1(dx + i, kAccumulate ? v + T::load1(dx + i) : v);
        });
  }
}

// ---- GELU ------------------------------------------------------------------------------------------------
HWY_INLINE V sigmoid_of_cubic(V x) {
  const V one = hn::Set(d32, 1.0F);
  const V cubic = multiply_add(hn::Mul(hn::Mul(x, x), x), hn::Set(d32, kGeluCube), x);
  return hn::Div(one, hn::Add(one, exp_of(hn::Mul(cubic, hn::Set(d32, -kGeluScale)))));
}
HWY_INLINE V gelu(V x) {
  return hn::Mul(x, sigmoid_of_cubic(x));
}
HWY_INLINE V gelu_slope(V x) {
  const V one = hn::Set(d32, 1.0F), s = sigmoid_of_cubic(x);
  const V inner =
      hn::Mul(hn::Set(d32, kGeluScale), multiply_add(hn::Mul(x, x), hn::Set(d32, 3 * kGeluCube), one));
  return multiply_add(hn::Mul(hn::Mul(x, s), hn::Sub(one, s)), inner, s);
}
HWY_INLINE float gelu(float x) {
  return hn::GetLane(gelu(hn::Set(d32, x)));
}
HWY_INLINE float gelu_slope(float x) {
  return hn::GetLane(gelu_slope(hn::Set(d32, x)));
}

template <class T>
void GeluForward(std::int64_t count, const void* in, void* out) {
  const auto* x = static_cast<const typename T::Cell*>(in);
  auto* y = static_cast<typename T::Cell*>(out);
  each(
      count, [&](std::int64_t i) HWY_ATTR { T::store(y + i, gelu(T::load(x + i))); },
      [&](std::int64_t i) HWY_ATTR { T::store1(y + i, gelu(T::load1(x + i))); });
}
template <class T, bool kAccumulate>
void GeluBackward(std::int64_t count, const void* in, const void* dy_in, void* dx_out) {
  const auto* x = static_cast<const typename T::Cell*>(in);
  const auto* dy = static_cast<const typename T::Cell*>(dy_in);
  auto* dx = static_cast<typename T::Cell*>(dx_out);
  each(
      count,
      [&](std::int64_t i) HWY_ATTR {
        V v = hn::Mul(T::load(dy + i), gelu_slope(T::load(x + i)));
        if (kAccumulate) v = hn::Add(v, T::load(dx + i));
        T::store(dx + i, v);
      },
      [&](std::int64_t i) HWY_ATTR {
        const float v = T::load1(dy + i) * gelu_slope(T::load1(x + i));
        T::store1(dx + i, kAccumulate ? v + T::load1(dx + i) : v);
      });
}

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
  return std::clamp<std::int64_t>(t.visible + row, 0, t.columns);
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

void SoftmaxGradient(std::int64_t columns, float scale, float log_sum, float* logits) {
  const V offset = hn::Set(d32, log_sum), factor = hn::Set(d32, scale);
  each(
      columns,
      [&](std::int64_t i) HWY_ATTR {
        Fp32::store(logits + i, hn::Mul(factor, exp_of(hn::Sub(Fp32::load(logits + i), offset))));
      },
      [&](std::int64_t i) HWY_ATTR { logits[i] = scale * exp_of(logits[i] - log_sum); });
}

// ---- by type ---------------------------------------------------------------------------------------------
void LayerNormForwardAny(Compute type, std::int64_t rows, std::int64_t width, const void* x,
                         const float* weight, const float* bias, void* y, float* mean,
                         float* inverse_deviation) {
  (type == Compute::kFp32 ? LayerNormForward<Fp32> : LayerNormForward<Bf16>)(rows, width, x, weight, bias, y,
                                                                             mean, inverse_deviation);
}
template <class T>
void LayerNormBackwardType(std::int64_t rows, std::int64_t width, const RowNormBackward& args) {
  (args.accumulate ? LayerNormBackward<T, true> : LayerNormBackward<T, false>)(rows, width, args);
}
void LayerNormBackwardAny(Compute type, std::int64_t rows, std::int64_t width, const RowNormBackward& args) {
  (type == Compute::kFp32 ? LayerNormBackwardType<Fp32> : LayerNormBackwardType<Bf16>)(rows, width, args);
}
void GeluForwardAny(Compute type, std::int64_t count, const void* x, void* y) {
  (type == Compute::kFp32 ? GeluForward<Fp32> : GeluForward<Bf16>)(count, x, y);
}
template <class T>
void GeluBackwardType(std::int64_t count, const void* x, const void* dy, void* dx, bool accumulate) {
  (accumulate ? GeluBackward<T, true> : GeluBackward<T, false>)(count, x, dy, dx);
}
void GeluBackwardAny(Compute type, std::int64_t count, const void* x, const void* dy, void* dx,
                     bool accumulate) {
  (type == Compute::kFp32 ? GeluBackwardType<Fp32> : GeluBackwardType<Bf16>)(count, x, dy, dx, accumulate);
}

}  // namespace
}  // namespace lpmm::kernels::loops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lpmm::kernels::loops {

HWY_EXPORT(LayerNormForwardAny);
HWY_EXPORT(LayerNormBackwardAny);
HWY_EXPORT(GeluForwardAny);
HWY_EXPORT(GeluBackwardAny);
HWY_EXPORT(Drop);
HWY_EXPORT(SoftmaxOnline);
HWY_EXPORT(SoftmaxAgain);
HWY_EXPORT(SoftmaxBackward);
HWY_EXPORT(Dot);
HWY_EXPORT(Scale);
HWY_EXPORT(SoftmaxScan);
HWY_EXPORT(SoftmaxGradient);

void layer_norm_forward(Compute type, std::int64_t rows, std::int64_t width, const void* x,
                        const float* weight, const float* bias, void* y, float* mean,
                        float* inverse_deviation) {
  HWY_DYNAMIC_DISPATCH(LayerNormForwardAny)
  (type, rows, width, x, weight, bias, y, mean, inverse_deviation);
}
void layer_norm_backward(Compute type, std::int64_t rows, std::int64_t width, const RowNormBackward& args) {
  HWY_DYNAMIC_DISPATCH(LayerNormBackwardAny)(type, rows, width, args);
}
void gelu_forward(Compute type, std::int64_t count, const void* x, void* y) {
  HWY_DYNAMIC_DISPATCH(GeluForwardAny)(type, count, x, y);
}
void gelu_backward(Compute type, std::int64_t count, const void* x, const void* dy, void* dx,
                   bool accumulate) {
  HWY_DYNAMIC_DISPATCH(GeluBackwardAny)(type, count, x, dy, dx, accumulate);
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
void scale(std::int64_t count, float factor, float* values) {
  HWY_DYNAMIC_DISPATCH(Scale)(count, factor, values);
}
void softmax_scan(std::int64_t first, std::int64_t columns, const float* logits, std::int32_t label,
                  SoftmaxRow* state) {
  HWY_DYNAMIC_DISPATCH(SoftmaxScan)(first, columns, logits, label, state);
}
void softmax_gradient(std::int64_t columns, float scale, float log_sum, float* logits) {
  HWY_DYNAMIC_DISPATCH(SoftmaxGradient)(columns, scale, log_sum, logits);
}

}  // namespace lpmm::kernels::loops
#endif  // HWY_ONCE
