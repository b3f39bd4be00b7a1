// Batch norm over a shard of rows: groups of channels outside, rows inside, sums in registers. Each sum has
// two accumulators (even and odd rows), added at the end: shorter chains, fixed order. Compiled once for each
// instruction set, with the file that includes it.
#if defined(LPMM_KERNELS_CPU_COMPUTE_NORM_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LPMM_KERNELS_CPU_COMPUTE_NORM_LOOPS_INL_H_
#undef LPMM_KERNELS_CPU_COMPUTE_NORM_LOOPS_INL_H_
#else
#define LPMM_KERNELS_CPU_COMPUTE_NORM_LOOPS_INL_H_
#endif

#include "kernels/compute.h"
#include "kernels/cpu/compute/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels::loops::HWY_NAMESPACE {
namespace {

template <class T>
void NormStatisticsGroup(std::int64_t rows, int stride, const typename T::Cell* x, float* mean,
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
void NormStatistics(std::int64_t rows, int channels, const void* in, float* mean, float* squares) {
  const auto* x = static_cast<const typename T::Cell*>(in);
  int c = 0;
  for (; c + kGroupChannels <= channels; c += kGroupChannels) {
    NormStatisticsGroup<T>(rows, channels, x + c, mean + c, squares + c);
  }
  for (; c < channels; ++c) {
    const float origin = T::load1(x + c);
    float sum = 0, square = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const float d = T::load1(x + r * channels + c) - origin;
      sum += d;
      square += d * d;
    }
    const float inverse = 1.0F / static_cast<float>(rows);
    mean[c] = origin + sum * inverse;
    squares[c] = square - sum * sum * inverse;
  }
}

template <class T, bool kResidual, bool kRelu>
void NormApply(std::int64_t rows, int channels, const void* in, const float* scale, const float* shift,
               const void* residual, void* out) {
  const auto* x = static_cast<const typename T::Cell*>(in);
  const auto* add = static_cast<const typename T::Cell*>(residual);
  auto* y = static_cast<typename T::Cell*>(out);
  for (std::int64_t r = 0; r < rows; ++r) {
    each(
        channels,
        [&](std::int64_t c) HWY_ATTR {
          const std::int64_t i = r * channels + c;
          V v = multiply_add(T::load(x + i), Fp32::load(scale + c), Fp32::load(shift + c));
          if (kResidual) v = hn::Add(v, T::load(add + i));
          T::store(y + i, kRelu ? relu_of(v) : v);
        },
        [&](std::int64_t c) HWY_ATTR {
          const std::int64_t i = r * channels + c;
          float v = T::load1(x + i) * scale[c] + shift[c];
          if (kResidual) v += T::load1(add + i);
          T::store1(y + i, kRelu ? relu_of(v) : v);
        });
  }
}

template <class T, bool kRelu>
void NormReduceGroup(std::int64_t rows, int stride, const typename T::Cell* x, const typename T::Cell* y,
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
void NormReduce(std::int64_t rows, int channels, const NormBackward& args, std::int64_t first, float* sum_g,
                float* sum_gx) {
  const auto* x = static_cast<const typename T::Cell*>(args.x) + first * channels;
  const auto* y = kRelu ? static_cast<const typename T::Cell*>(args.y) + first * channels : nullptr;
  const auto* dy = static_cast<const typename T::Cell*>(args.dy) + first * channels;
  int c = 0;
  for (; c + kGroupChannels <= channels; c += kGroupChannels) {
    NormReduceGroup<T, kRelu>(rows, channels, x + c, y + c, dy + c, args.mean + c, sum_g + c, sum_gx + c);
  }
  for (; c < channels; ++c) {
    float sum = 0, sum_x = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t i = r * channels + c;
      const float g = kRelu ? positive(T::load1(y + i), T::load1(dy + i)) : T::load1(dy + i);
      sum += g;
      sum_x += g * (T::load1(x + i) - args.mean[c]);
    }
    sum_g[c] = sum;
    sum_gx[c] = sum_x;
  }
}

// kResidual: 0 none, 1 overwritten, 2 added to.
template <class T, bool kRelu, bool kAccumulate, int kResidual>
void NormBackwardRows(std::int64_t rows, int channels, const NormBackward& args, std::int64_t first,
                      const float* a, const float* b, const float* d) {
  const auto* x = static_cast<const typename T::Cell*>(args.x);
  const auto* y = static_cast<const typename T::Cell*>(args.y);
  const auto* dy = static_cast<const typename T::Cell*>(args.dy);
  auto* dx = static_cast<typename T::Cell*>(args.dx);
  auto* dres = static_cast<typename T::Cell*>(args.dresidual);
  for (std::int64_t r = first; r < first + rows; ++r) {
    each(
        channels,
        [&](std::int64_t c) HWY_ATTR {
          const std::int64_t i = r * channels + c;
          V g = T::load(dy + i);
          if (kRelu) g = positive(T::load(y + i), g);
          V v = multiply_add(T::load(x + i), Fp32::load(b + c), hn::Mul(g, Fp32::load(a + c)));
          v = hn::Add(v, Fp32::load(d + c));
          if (kAccumulate) v = hn::Add(v, T::load(dx + i));
          T::store(dx + i, v);
          if (kResidual != 0) T::store(dres + i, kResidual == 2 ? hn::Add(g, T::load(dres + i)) : g);
        },
        [&](std::int64_t c) HWY_ATTR {
          const std::int64_t i = r * channels + c;
          const float g = kRelu ? positive(T::load1(y + i), T::load1(dy + i)) : T::load1(dy + i);
          const float v = g * a[c] + T::load1(x + i) * b[c] + d[c];
          T::store1(dx + i, kAccumulate ? v + T::load1(dx + i) : v);
          if (kResidual != 0) T::store1(dres + i, kResidual == 2 ? g + T::load1(dres + i) : g);
        });
  }
}

void NormStatisticsAny(Compute type, std::int64_t rows, int channels, const void* x, float* mean,
                       float* squares) {
  type == Compute::kFp32 ? NormStatistics<Fp32>(rows, channels, x, mean, squares)
                         : NormStatistics<Bf16>(rows, channels, x, mean, squares);
}
template <class T>
void NormApplyType(std::int64_t rows, int channels, const void* x, const float* scale, const float* shift,
                   const void* residual, bool relu, void* y) {
  if (residual != nullptr) {
    relu ? NormApply<T, true, true>(rows, channels, x, scale, shift, residual, y)
         : NormApply<T, true, false>(rows, channels, x, scale, shift, residual, y);
  } else {
    relu ? NormApply<T, false, true>(rows, channels, x, scale, shift, residual, y)
         : NormApply<T, false, false>(rows, channels, x, scale, shift, residual, y);
  }
}
void NormApplyAny(Compute type, std::int64_t rows, int channels, const void* x, const float* scale,
                  const float* shift, const void* residual, bool relu, void* y) {
  type == Compute::kFp32 ? NormApplyType<Fp32>(rows, channels, x, scale, shift, residual, relu, y)
                         : NormApplyType<Bf16>(rows, channels, x, scale, shift, residual, relu, y);
}
template <class T>
void NormReduceType(std::int64_t rows, int channels, const NormBackward& args, std::int64_t first,
                    float* sum_g, float* sum_gx) {
  args.relu ? NormReduce<T, true>(rows, channels, args, first, sum_g, sum_gx)
            : NormReduce<T, false>(rows, channels, args, first, sum_g, sum_gx);
}
void NormReduceAny(std::int64_t rows, const NormShape& shape, const NormBackward& args, std::int64_t first,
                   float* sum_g, float* sum_gx) {
  shape.type == Compute::kFp32 ? NormReduceType<Fp32>(rows, shape.channels, args, first, sum_g, sum_gx)
                               : NormReduceType<Bf16>(rows, shape.channels, args, first, sum_g, sum_gx);
}
template <class T, bool kRelu, bool kAccumulate>
void NormBackwardResidual(std::int64_t rows, int channels, const NormBackward& args, std::int64_t first,
                          const float* a, const float* b, const float* d) {
  if (args.dresidual == nullptr) {
    NormBackwardRows<T, kRelu, kAccumulate, 0>(rows, channels, args, first, a, b, d);
  } else if (!args.accumulate_residual) {
    NormBackwardRows<T, kRelu, kAccumulate, 1>(rows, channels, args, first, a, b, d);
  } else {
    NormBackwardRows<T, kRelu, kAccumulate, 2>(rows, channels, args, first, a, b, d);
  }
}
template <class T>
void NormBackwardType(std::int64_t rows, int channels, const NormBackward& args, std::int64_t first,
                      const float* a, const float* b, const float* d) {
  if (args.accumulate) {
    args.relu ? NormBackwardResidual<T, true, true>(rows, channels, args, first, a, b, d)
              : NormBackwardResidual<T, false, true>(rows, channels, args, first, a, b, d);
  } else {
    args.relu ? NormBackwardResidual<T, true, false>(rows, channels, args, first, a, b, d)
              : NormBackwardResidual<T, false, false>(rows, channels, args, first, a, b, d);
  }
}
void NormBackwardAny(std::int64_t rows, const NormShape& shape, const NormBackward& args, std::int64_t first,
                     const float* a, const float* b, const float* d) {
  shape.type == Compute::kFp32 ? NormBackwardType<Fp32>(rows, shape.channels, args, first, a, b, d)
                               : NormBackwardType<Bf16>(rows, shape.channels, args, first, a, b, d);
}

}  // namespace
}  // namespace lpmm::kernels::loops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
