// Compiled once for each instruction set by Highway's foreach_target.
#include "kernels/cpu/compute/loops.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/compute/loops.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "kernels/cpu/compute/batch_norm_loops-inl.h"
#include "kernels/cpu/compute/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels::loops::HWY_NAMESPACE {
namespace {

template <class T>
void convert(const Rows& rows, const void* in, float* out) {
  const auto* x = static_cast<const typename T::Cell*>(in);
  for (std::int64_t r = 0; r < rows.count; ++r, x += rows.in_stride, out += rows.out_stride) {
    each(rows.columns, [&](auto at, std::int64_t i) HWY_ATTR { at.store(out + i, at.load(x + i)); });
  }
}
void to_float(ValueType type, const Rows& rows, const void* in, float* out) {
  (type == ValueType::kFp32 ? convert<Fp32> : convert<Bf16>)(rows, in, out);
}

void from_float(ValueType type, const Rows& rows, const float* x, void* out) {
  with_type(type, rows.accumulate, [&]<class T, bool kAccumulate>() HWY_ATTR {
    const float* in = x;
    auto* y = static_cast<typename T::Cell*>(out);
    for (std::int64_t r = 0; r < rows.count; ++r, in += rows.in_stride, y += rows.out_stride) {
      each(rows.columns,
           [&](auto at, std::int64_t i) HWY_ATTR { put<kAccumulate>(at, y + i, at.load(in + i)); });
    }
  });
}

template <class T>
void sum_of_two(std::int64_t count, const void* a_in, const void* b_in, void* out) {
  const auto* a = static_cast<const typename T::Cell*>(a_in);
  const auto* b = static_cast<const typename T::Cell*>(b_in);
  auto* y = static_cast<typename T::Cell*>(out);
  each(count,
       [&](auto at, std::int64_t i) HWY_ATTR { at.store(y + i, hn::Add(at.load(a + i), at.load(b + i))); });
}
void add(ValueType type, std::int64_t count, const void* a, const void* b, void* y) {
  (type == ValueType::kFp32 ? sum_of_two<Fp32> : sum_of_two<Bf16>)(count, a, b, y);
}

template <class T>
void with_bias(const Rows& rows, const float* in, const float* bias, void* out) {
  auto* y = static_cast<typename T::Cell*>(out);
  for (std::int64_t r = 0; r < rows.count; ++r, in += rows.in_stride, y += rows.out_stride) {
    each(rows.columns, [&](auto at, std::int64_t c)
                           HWY_ATTR { at.store(y + c, hn::Add(at.load(in + c), at.load(bias + c))); });
  }
}
void add_bias(ValueType type, const Rows& rows, const float* in, const float* bias, void* out) {
  (type == ValueType::kFp32 ? with_bias<Fp32> : with_bias<Bf16>)(rows, in, bias, out);
}

void round_bf16(std::int64_t count, float* values) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = bf16_to_float(float_to_bf16(values[i]));
}

template <class T>
void onto_row(std::int64_t count, const void* in, float* sum) {
  const auto* x = static_cast<const typename T::Cell*>(in);
  each(count, [&](auto at, std::int64_t i)
                  HWY_ATTR { at.store(sum + i, hn::Add(at.load(sum + i), at.load(x + i))); });
}
void add_row(ValueType type, std::int64_t count, const void* in, float* sum) {
  (type == ValueType::kFp32 ? onto_row<Fp32> : onto_row<Bf16>)(count, in, sum);
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

// Transposes squares, within strips of one cache line.
void transpose(const Rows& of, const float* in, float* out) {
  constexpr std::int64_t kStrip = 16;
  const std::int64_t rows = of.count, columns = of.columns, in_stride = of.in_stride,
                     out_stride = of.out_stride;
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

const ElementLoops& element_loops() {
  static constexpr ElementLoops kLoops{to_float,
                                       from_float,
                                       add,
                                       add_row,
                                       round_bf16,
                                       transpose,
                                       add_bias,
                                       batch_norm_statistics,
                                       batch_norm_apply,
                                       batch_norm_reduce,
                                       batch_norm_backward};
  return kLoops;
}

}  // namespace
}  // namespace lpmm::kernels::loops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lpmm::kernels::loops {
HWY_EXPORT(element_loops);
const ElementLoops& elements() {
  return HWY_DYNAMIC_DISPATCH(element_loops)();
}
}  // namespace lpmm::kernels::loops
#endif  // HWY_ONCE
