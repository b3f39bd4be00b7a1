// Compiled once for each instruction set by Highway's foreach_target.
#include "kernels/cpu/compute/loops.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/compute/loops.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "kernels/cpu/compute/norm_loops-inl.h"
#include "kernels/cpu/compute/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels::loops::HWY_NAMESPACE {
namespace {

template <class T>
void ToFloat(std::int64_t count, const void* in, float* out) {
  const auto* x = static_cast<const typename T::Cell*>(in);
  each(
      count, [&](std::int64_t i) HWY_ATTR { Fp32::store(out + i, T::load(x + i)); },
      [&](std::int64_t i) HWY_ATTR { out[i] = T::load1(x + i); });
}

template <class T, bool kAccumulate>
void FromFloat(std::int64_t count, const float* in, void* out) {
  auto* y = static_cast<typename T::Cell*>(out);
  each(
      count,
      [&](std::int64_t i) HWY_ATTR {
        V v = Fp32::load(in + i);
        if (kAccumulate) v = hn::Add(v, T::load(y + i));
        T::store(y + i, v);
      },
      [&](std::int64_t i) HWY_ATTR { T::store1(y + i, kAccumulate ? in[i] + T::load1(y + i) : in[i]); });
}

template <class T>
void ReluForward(std::int64_t count, const void* in, void* out) {
  const auto* x = static_cast<const typename T::Cell*>(in);
  auto* y = static_cast<typename T::Cell*>(out);
  each(
      count, [&](std::int64_t i) HWY_ATTR { T::store(y + i, relu_of(T::load(x + i))); },
      [&](std::int64_t i) HWY_ATTR { T::store1(y + i, relu_of(T::load1(x + i))); });
}

template <class T, bool kAccumulate>
void ReluBackward(std::int64_t count, const void* y_in, const void* dy_in, void* dx_out) {
  const auto* y = static_cast<const typename T::Cell*>(y_in);
  const auto* dy = static_cast<const typename T::Cell*>(dy_in);
  auto* dx = static_cast<typename T::Cell*>(dx_out);
  each(
      count,
      [&](std::int64_t i) HWY_ATTR {
        V g = positive(T::load(y + i), T::load(dy + i));
        if (kAccumulate) g = hn::Add(g, T::load(dx + i));
        T::store(dx + i, g);
      },
      [&](std::int64_t i) HWY_ATTR {
        const float g = positive(T::load1(y + i), T::load1(dy + i));
        T::store1(dx + i, kAccumulate ? g + T::load1(dx + i) : g);
      });
}

template <class T>
void Add(std::int64_t count, const void* a_in, const void* b_in, void* out) {
  const auto* a = static_cast<const typename T::Cell*>(a_in);
  const auto* b = static_cast<const typename T::Cell*>(b_in);
  auto* y = static_cast<typename T::Cell*>(out);
  each(
      count, [&](std::int64_t i) HWY_ATTR { T::store(y + i, hn::Add(T::load(a + i), T::load(b + i))); },
      [&](std::int64_t i) HWY_ATTR { T::store1(y + i, T::load1(a + i) + T::load1(b + i)); });
}

template <class T>
void AddBias(const Rows& rows, const float* in, const float* bias, void* out) {
  auto* y = static_cast<typename T::Cell*>(out);
  for (std::int64_t r = 0; r < rows.count; ++r, in += rows.in_stride, y += rows.out_stride) {
    each(
        rows.columns,
        [&](std::int64_t c) HWY_ATTR { T::store(y + c, hn::Add(Fp32::load(in + c), Fp32::load(bias + c))); },
        [&](std::int64_t c) HWY_ATTR { T::store1(y + c, in[c] + bias[c]); });
  }
}

// ---- the choice of type ----------------------------------------------------------------------------------
void ToFloatAny(Compute type, const Rows& rows, const void* in, float* out) {
  const auto to_float = type == Compute::kFp32 ? ToFloat<Fp32> : ToFloat<Bf16>;
  const auto* from = static_cast<const std::byte*>(in);
  for (std::int64_t r = 0; r < rows.count; ++r) {
    to_float(rows.columns, from + r * rows.in_stride * value_bytes(type), out + r * rows.out_stride);
  }
}
void FromFloatAny(Compute type, const Rows& rows, const float* in, void* out, bool accumulate) {
  const auto stored = accumulate ? FromFloat<Fp32, true> : FromFloat<Fp32, false>;
  const auto rounded = accumulate ? FromFloat<Bf16, true> : FromFloat<Bf16, false>;
  const auto from_float = type == Compute::kFp32 ? stored : rounded;
  auto* to = static_cast<std::byte*>(out);
  for (std::int64_t r = 0; r < rows.count; ++r) {
    from_float(rows.columns, in + r * rows.in_stride, to + r * rows.out_stride * value_bytes(type));
  }
}
void ReluForwardAny(Compute type, std::int64_t count, const void* x, void* y) {
  type == Compute::kFp32 ? ReluForward<Fp32>(count, x, y) : ReluForward<Bf16>(count, x, y);
}
void ReluBackwardAny(Compute type, std::int64_t count, const void* y, const void* dy, void* dx,
                     bool accumulate) {
  with_type(type, accumulate,
            [&]<class T, bool kAccumulate>() HWY_ATTR { ReluBackward<T, kAccumulate>(count, y, dy, dx); });
}
void AddAny(Compute type, std::int64_t count, const void* a, const void* b, void* y) {
  type == Compute::kFp32 ? Add<Fp32>(count, a, b, y) : Add<Bf16>(count, a, b, y);
}
void AddBiasAny(Compute type, const Rows& rows, const float* in, const float* bias, void* out) {
  (type == Compute::kFp32 ? AddBias<Fp32> : AddBias<Bf16>)(rows, in, bias, out);
}
void RoundBf16(std::int64_t count, float* values) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = bf16_to_float(float_to_bf16(values[i]));
}
template <class T>
void AddRow(std::int64_t count, const void* in, float* sum) {
  const auto* x = static_cast<const typename T::Cell*>(in);
  each(
      count,
      [&](std::int64_t i) HWY_ATTR { Fp32::store(sum + i, hn::Add(Fp32::load(sum + i), T::load(x + i))); },
      [&](std::int64_t i) HWY_ATTR { sum[i] += T::load1(x + i); });
}
void AddRowAny(Compute type, std::int64_t count, const void* in, float* sum) {
  (type == Compute::kFp32 ? AddRow<Fp32> : AddRow<Bf16>)(count, in, sum);
}

// Four rows of four.
HWY_INLINE void transpose_square(const float* in, std::int64_t in_stride, float* out,
                                 std::int64_t out_stride) {
#if HWY_TARGET == HWY_SCALAR
  for (int r = 0; r < 4; ++r) {
    for (int c = 0; c < 4; ++c) out[c * out_stride + r] = in[r * in_stride + c];
  }
#else
  constexpr hn::FixedTag<float, 4> d4;
  constexpr hn::FixedTag<double, 2> pairs;
  const auto row = [&](int r) HWY_ATTR { return hn::LoadU(d4, in + r * in_stride); };
  const auto low = [&](auto a, auto b) HWY_ATTR { return hn::BitCast(pairs, hn::InterleaveLower(d4, a, b)); };
  const auto high = [&](auto a, auto b)
                        HWY_ATTR { return hn::BitCast(pairs, hn::InterleaveUpper(d4, a, b)); };
  const auto store = [&](int c, auto v)
                         HWY_ATTR { hn::StoreU(hn::BitCast(d4, v), d4, out + c * out_stride); };
  const auto a = row(0), b = row(1), c = row(2), d = row(3);
  store(0, hn::InterleaveLower(pairs, low(a, b), low(c, d)));
  store(1, hn::InterleaveUpper(pairs, low(a, b), low(c, d)));
  store(2, hn::InterleaveLower(pairs, high(a, b), high(c, d)));
  store(3, hn::InterleaveUpper(pairs, high(a, b), high(c, d)));
#endif
}

// By squares, within strips of one cache line.
void Transpose(std::int64_t rows, std::int64_t columns, const float* in, std::int64_t in_stride, float* out,
               std::int64_t out_stride) {
  constexpr std::int64_t kStrip = 16;
  for (std::int64_t first = 0; first < columns; first += kStrip) {
    const std::int64_t last = std::min(first + kStrip, columns);
    for (std::int64_t r = 0; r < rows; r += 4) {
      std::int64_t c = first;
      for (; r + 4 <= rows && c + 4 <= last; c += 4) {
        transpose_square(in + r * in_stride + c, in_stride, out + c * out_stride + r, out_stride);
      }
      for (std::int64_t row = r; row < std::min(r + 4, rows); ++row) {
        for (std::int64_t column = c; column < last; ++column) {
          out[column * out_stride + row] = in[row * in_stride + column];
        }
      }
    }
  }
}

}  // namespace
}  // namespace lpmm::kernels::loops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lpmm::kernels::loops {

HWY_EXPORT(ToFloatAny);
HWY_EXPORT(FromFloatAny);
HWY_EXPORT(ReluForwardAny);
HWY_EXPORT(ReluBackwardAny);
HWY_EXPORT(AddAny);
HWY_EXPORT(AddRowAny);
HWY_EXPORT(RoundBf16);
HWY_EXPORT(Transpose);
HWY_EXPORT(AddBiasAny);
HWY_EXPORT(NormStatisticsAny);
HWY_EXPORT(NormApplyAny);
HWY_EXPORT(NormReduceAny);
HWY_EXPORT(NormBackwardAny);

void to_float(Compute type, const Rows& rows, const void* in, float* out) {
  HWY_DYNAMIC_DISPATCH(ToFloatAny)(type, rows, in, out);
}
void from_float(Compute type, const Rows& rows, const float* in, void* out, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(FromFloatAny)(type, rows, in, out, accumulate);
}
void relu_forward(Compute type, std::int64_t count, const void* x, void* y) {
  HWY_DYNAMIC_DISPATCH(ReluForwardAny)(type, count, x, y);
}
void relu_backward(Compute type, std::int64_t count, const void* y, const void* dy, void* dx,
                   bool accumulate) {
  HWY_DYNAMIC_DISPATCH(ReluBackwardAny)(type, count, y, dy, dx, accumulate);
}
void add(Compute type, std::int64_t count, const void* a, const void* b, void* y) {
  HWY_DYNAMIC_DISPATCH(AddAny)(type, count, a, b, y);
}
void add_row(Compute type, std::int64_t count, const void* in, float* sum) {
  HWY_DYNAMIC_DISPATCH(AddRowAny)(type, count, in, sum);
}
void round_bf16(std::int64_t count, float* values) {
  HWY_DYNAMIC_DISPATCH(RoundBf16)(count, values);
}
void transpose(std::int64_t rows, std::int64_t columns, const float* in, std::int64_t in_stride, float* out,
               std::int64_t out_stride) {
  HWY_DYNAMIC_DISPATCH(Transpose)(rows, columns, in, in_stride, out, out_stride);
}
void add_bias(Compute type, const Rows& rows, const float* in, const float* bias, void* out) {
  HWY_DYNAMIC_DISPATCH(AddBiasAny)(type, rows, in, bias, out);
}
void norm_statistics(Compute type, std::int64_t rows, int channels, const void* x, float* mean,
                     float* squares) {
  HWY_DYNAMIC_DISPATCH(NormStatisticsAny)(type, rows, channels, x, mean, squares);
}
void norm_apply(Compute type, std::int64_t rows, int channels, const void* x, const float* scale,
                const float* shift, const void* residual, bool relu, void* y) {
  HWY_DYNAMIC_DISPATCH(NormApplyAny)(type, rows, channels, x, scale, shift, residual, relu, y);
}
void norm_reduce(std::int64_t rows, const NormShape& shape, const NormBackward& args, std::int64_t first,
                 float* sum_g, float* sum_gx) {
  HWY_DYNAMIC_DISPATCH(NormReduceAny)(rows, shape, args, first, sum_g, sum_gx);
}
void norm_backward(std::int64_t rows, const NormShape& shape, const NormBackward& args, std::int64_t first,
                   const float* a, const float* b, const float* d) {
  HWY_DYNAMIC_DISPATCH(NormBackwardAny)(rows, shape, args, first, a, b, d);
}

}  // namespace lpmm::kernels::loops
#endif  // HWY_ONCE
