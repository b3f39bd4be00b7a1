// Batch norm over a shard of rows: groups of channels outside, rows inside, sums in registers. Each sum has
// two accumulators (even and odd rows), added at the end: shorter chains, fixed order. Compiled once for each
// instruction set, with the file that includes it.
#if defined(LPMM_KERNELS_CPU_COMPUTE_BATCH_NORM_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LPMM_KERNELS_CPU_COMPUTE_BATCH_NORM_LOOPS_INL_H_
#undef LPMM_KERNELS_CPU_COMPUTE_BATCH_NORM_LOOPS_INL_H_
#else
#define LPMM_KERNELS_CPU_COMPUTE_BATCH_NORM_LOOPS_INL_H_
#endif

#include <type_traits>

#include "kernels/compute.h"
#include "kernels/cpu/compute/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels::loops::HWY_NAMESPACE {
namespace {

template <class T>
void statistics_of_group(std::int64_t rows, int stride, const typename T::Cell* x, float* mean,
                         float* squares) {
  // Sums of x - x[0] lose nothing to a large mean; one pass does.
  Sums origin, sum[2], square[2];
  for (int v = 0; v < kVectors; ++v) origin.v[v] = T::load(x + v * kLanes);
  const auto row = [&](std::int64_t r, int parity) HWY_ATTR {
    for (int v = 0; v < kVectors; ++v) {
      const V d = hn::Sub(T::load(x + r * stride + v * kLanes), origin.v[v]);
      sum[parity].v[v] = hn::Add(sum[parity].v[v], d);
      square[parity].v[v] = multiply_add(d, d, square[parity].v[v]);
    }
  };
  std::int64_t r = 0;
  for (; r + 2 <= rows; r += 2) {
    row(r, 0);
    row(r + 1, 1);
  }
  if (r < rows) row(r, 0);
  const V inverse = hn::Set(d32, 1.0F / static_cast<float>(rows));
  for (int v = 0; v < kVectors; ++v) {
    const V total = hn::Add(sum[0].v[v], sum[1].v[v]);
    const V center = hn::Mul(total, inverse);
    Fp32::store(mean + v * kLanes, hn::Add(origin.v[v], center));
    Fp32::store(squares + v * kLanes,
                hn::Sub(hn::Add(square[0].v[v], square[1].v[v]), hn::Mul(total, center)));
  }
}

template <class T>
void channel_statistics(const BatchNormShape& s, const void* in, float* mean, float* squares) {
  const auto* x = static_cast<const typename T::Cell*>(in);
  int c = 0;
  for (; c + kGroupChannels <= s.channels; c += kGroupChannels) {
    statistics_of_group<T>(s.rows, s.channels, x + c, mean + c, squares + c);
  }
  for (; c < s.channels; ++c) {
    const float origin = T::load1(x + c);
    float sum = 0, square = 0;
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const float d = T::load1(x + r * s.channels + c) - origin;
      sum += d;
      square += d * d;
    }
    const float inverse = 1.0F / static_cast<float>(s.rows);
    mean[c] = origin + sum * inverse;
    squares[c] = square - sum * sum * inverse;
  }
}
void batch_norm_statistics(const BatchNormShape& s, const void* x, float* mean, float* squares) {
  (s.type == ValueType::kFp32 ? channel_statistics<Fp32> : channel_statistics<Bf16>)(s, x, mean, squares);
}

template <class T, bool kResidual, bool kRelu>
void apply_norm(const BatchNormShape& s, const BatchNormApply& args) {
  const auto* x = static_cast<const typename T::Cell*>(args.x);
  const auto* residual = static_cast<const typename T::Cell*>(args.residual);
  auto* y = static_cast<typename T::Cell*>(args.y);
  for (std::int64_t first = 0; first < s.rows * s.channels; first += s.channels) {
    each(s.channels, [&](auto at, std::int64_t c) HWY_ATTR {
      V v = multiply_add(at.load(x + first + c), at.load(args.scale + c), at.load(args.shift + c));
      if constexpr (kResidual) v = hn::Add(v, at.load(residual + first + c));
      at.store(y + first + c, kRelu ? relu_of(v) : v);
    });
  }
}
void batch_norm_apply(const BatchNormShape& s, const BatchNormApply& args) {
  with_type(s.type, args.relu, [&]<class T, bool kRelu>() HWY_ATTR {
    (args.residual != nullptr ? apply_norm<T, true, kRelu> : apply_norm<T, false, kRelu>)(s, args);
  });
}

template <class T, bool kRelu>
void reduce_group(std::int64_t rows, int stride, const typename T::Cell* x, const typename T::Cell* y,
                  const typename T::Cell* dy, const float* mean, float* sum_g, float* sum_gx) {
  Sums center, g_sum[2], gx_sum[2];
  for (int v = 0; v < kVectors; ++v) center.v[v] = Fp32::load(mean + v * kLanes);
  const auto row = [&](std::int64_t r, int parity) HWY_ATTR {
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t i = r * stride + v * kLanes;
      V g = T::load(dy + i);
      if (kRelu) g = positive(T::load(y + i), g);
      g_sum[parity].v[v] = hn::Add(g_sum[parity].v[v], g);
      gx_sum[parity].v[v] = multiply_add(g, hn::Sub(T::load(x + i), center.v[v]), gx_sum[parity].v[v]);
    }
  };
  std::int64_t r = 0;
  for (; r + 2 <= rows; r += 2) {
    row(r, 0);
    row(r + 1, 1);
  }
  if (r < rows) row(r, 0);
  for (int v = 0; v < kVectors; ++v) {
    Fp32::store(sum_g + v * kLanes, hn::Add(g_sum[0].v[v], g_sum[1].v[v]));
    Fp32::store(sum_gx + v * kLanes, hn::Add(gx_sum[0].v[v], gx_sum[1].v[v]));
  }
}

template <class T, bool kRelu>
void reduce_norm(const BatchNormShape& s, const BatchNormBackward& args, float* sum_g, float* sum_gx) {
  const auto* x = static_cast<const typename T::Cell*>(args.x);
  const auto* y = static_cast<const typename T::Cell*>(args.y);
  const auto* dy = static_cast<const typename T::Cell*>(args.dy);
  int c = 0;
  for (; c + kGroupChannels <= s.channels; c += kGroupChannels) {
    reduce_group<T, kRelu>(s.rows, s.channels, x + c, kRelu ? y + c : nullptr, dy + c, args.mean + c,
                           sum_g + c, sum_gx + c);
  }
  for (; c < s.channels; ++c) {
    float sum = 0, sum_x = 0;
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const std::int64_t i = r * s.channels + c;
      const float g = kRelu ? positive(T::load1(y + i), T::load1(dy + i)) : T::load1(dy + i);
      sum += g;
      sum_x += g * (T::load1(x + i) - args.mean[c]);
    }
    sum_g[c] = sum;
    sum_gx[c] = sum_x;
  }
}
void batch_norm_reduce(const BatchNormShape& s, const BatchNormBackward& args, float* sum_g, float* sum_gx) {
  with_type(s.type, args.relu,
            [&]<class T, bool kRelu>() HWY_ATTR { reduce_norm<T, kRelu>(s, args, sum_g, sum_gx); });
}

// kResidual: 0 none, 1 overwritten, 2 added to.
template <class T, bool kRelu, bool kAccumulate, int kResidual>
void norm_gradient(const BatchNormShape& s, const BatchNormBackward& args, const float* factors) {
  const auto* x = static_cast<const typename T::Cell*>(args.x);
  const auto* y = static_cast<const typename T::Cell*>(args.y);
  const auto* dy = static_cast<const typename T::Cell*>(args.dy);
  auto* dx = static_cast<typename T::Cell*>(args.dx);
  auto* residual = static_cast<typename T::Cell*>(args.dresidual);
  const float *a = factors, *b = a + s.channels, *d = b + s.channels;
  for (std::int64_t first = 0; first < s.rows * s.channels; first += s.channels) {
    each(s.channels, [&](auto at, std::int64_t c) HWY_ATTR {
      const std::int64_t i = first + c;
      V g = at.load(dy + i);
      if constexpr (kRelu) g = positive(at.load(y + i), g);
      const V v = multiply_add(at.load(x + i), at.load(b + c), hn::Mul(g, at.load(a + c)));
      put<kAccumulate>(at, dx + i, hn::Add(v, at.load(d + c)));
      if constexpr (kResidual != 0) put<kResidual == 2>(at, residual + i, g);
    });
  }
}
void batch_norm_backward(const BatchNormShape& s, const BatchNormBackward& args, const float* factors) {
  with_type(s.type, args.accumulate, [&]<class T, bool kAccumulate>() HWY_ATTR {
    const auto run = [&]<int kResidual>(std::integral_constant<int, kResidual>) HWY_ATTR {
      (args.relu ? norm_gradient<T, true, kAccumulate, kResidual>
                 : norm_gradient<T, false, kAccumulate, kResidual>)(s, args, factors);
    };
    if (args.dresidual == nullptr) return run(std::integral_constant<int, 0>());
    args.accumulate_residual ? run(std::integral_constant<int, 2>()) : run(std::integral_constant<int, 1>());
  });
}

}  // namespace
}  // namespace lpmm::kernels::loops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
