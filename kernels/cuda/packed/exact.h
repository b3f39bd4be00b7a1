// Quotients and roots that are IEEE's to the bit, without branches: the approximate instructions of the
// device and the corrections that a compiler puts after them where operands are in range. Ranges are checked
// once per thread; what is outside is done again with / and sqrtf.
//
// On the host the instructions have twins that are wrong by as much as theirs may be, so that a correction
// that is missing shows.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/formats/codec.h"
#include "kernels/macros.h"
#include "kernels/rules/rule.h"

namespace lpmm::kernels::cuda {

// ---- instructions ----------------------------------------------------------------------------------------
// Four bytes of those of a (0 to 3) and b (4 to 7), chosen by the low four digits of `digits`.
LPMM_HD std::uint32_t permute_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t digits) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(a, b, digits);
#else
  const std::uint64_t all = std::uint64_t{b} << 32 | a;
  std::uint32_t chosen = 0;
  for (int i = 0; i < 4; ++i) {
    chosen |= static_cast<std::uint32_t>(all >> (8 * (digits >> (4 * i) & 7U)) & 0xFFU) << (8 * i);
  }
  return chosen;
#endif
}
// The lower two bytes are 255 where a and b are negative, else 0.
LPMM_HD std::uint32_t sign_bytes(float a, float b) {
#if defined(__CUDA_ARCH__)
  std::uint32_t bytes;
  asm("prmt.b32 %0, %1, %2, 0x00FB;" : "=r"(bytes) : "r"(float_bits(a)), "r"(float_bits(b)));
  return bytes;  // the upper two are any
#else
  return (float_bits(a) >> 31) * 0xFFU | (float_bits(b) >> 31) * 0xFF00U;
#endif
}
LPMM_HD float multiply_add(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return std::fmaf(a, b, c);
#endif
}
// Rounded towards 0.
LPMM_HD float multiply_add_truncated(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rz(a, b, c);
#else
  const float nearest = std::fmaf(a, b, c);
  const double rest = double{a} * b + (double{c} - nearest);  // its sign is exact
  const bool is_beyond = nearest > 0.0F ? rest < 0.0 : rest > 0.0;
  return is_beyond ? std::nextafterf(nearest, 0.0F) : nearest;
#endif
}
LPMM_HD std::int32_t round_to_int(float x) {
#if defined(__CUDA_ARCH__)
  return __float2int_rn(x);
#else
  return static_cast<std::int32_t>(std::rint(x));
#endif
}
// 2^23 + floor(x) for 0 <= x < 2^23: its low bits are the integer.
LPMM_HD float floor_above_2_23(float x) {
#if defined(__CUDA_ARCH__)
  return __fadd_rz(x, 0x1p23F);
#else
  return 0x1p23F + std::floor(x);
#endif
}
// The larger of two magnitudes, `most` and |x|; NaN where either is.
LPMM_HD float larger_magnitude(float most, float x) {
#if defined(__CUDA_ARCH__)
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(most), "f"(fabsf(x)));
  return larger;
#else
  return abs_bits(x) > float_bits(most) ? std::fabs(x) : most;
#endif
}
// min(a + b, c), modulo 2^32.
LPMM_HD std::uint32_t add_then_min(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
#if defined(__CUDA_ARCH__)
  return __viaddmin_u32(a, b, c);
#else
  return a + b < c ? a + b : c;
#endif
}
LPMM_HD std::uint32_t add_then_max(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
#if defined(__CUDA_ARCH__)
  return __viaddmax_u32(a, b, c);
#else
  return a + b > c ? a + b : c;
#endif
}

// `x` must be finite.
LPMM_HD std::uint16_t nearest_bf16(float x) {
#if defined(__CUDA_ARCH__)
  std::uint16_t half;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half) : "f"(x));
  return half;
#else
  return float_to_bf16(x);
#endif
}

// A value just made, rounded away from the nearest by less than one unit, for about half of all x.
inline float misrounded(double exact, float x, bool up) {
  const auto nearest = static_cast<float>(exact);
  if ((float_bits(x) * 0x9E3779B9U >> 31) == 0 || nearest == 0.0F || !std::isfinite(nearest)) return nearest;
  const bool is_right = up ? static_cast<double>(nearest) >= exact : static_cast<double>(nearest) <= exact;
  return is_right ? nearest : std::nextafterf(nearest, up ? HUGE_VALF : 0.0F);
}
// Within one unit of 1 / x for 2^-126 <= |x| <= 2^125; infinite for 0.
LPMM_HD float approximate_reciprocal(float x) {
#if defined(__CUDA_ARCH__)
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
#else
  return misrounded(1.0 / static_cast<double>(x), x, true);
#endif
}
// Within 2^-22.9 of 1 / sqrt(x), for normal x.
LPMM_HD float approximate_inverse_root(float x) {
#if defined(__CUDA_ARCH__)
  float r;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
#else
  return misrounded(1.0 / std::sqrt(static_cast<double>(x)), x, false);
#endif
}

// ---- sequences -------------------------------------------------------------------------------------------
// The limits of what follows; tests/kernels/cuda_exact_test.cpp tries all mantissas of roots and the hardest
// quotients.
inline constexpr std::uint32_t kLeastOperand = 0x0D000000U;  // of roots and numerators, 2^-101; 0 is fine too
inline constexpr float kLeastDenominator = 0x1p-60F, kMostDenominator = 0x1p24F;

// 1 / x for 2^-120 <= x <= 2^120.
LPMM_HD float exact_reciprocal(float x) {
  const float r = approximate_reciprocal(x);
  return multiply_add(r, multiply_add(-x, r, 1.0F), r);
}
// One correction: with the nearest reciprocal it is enough.
LPMM_HD float exact_quotient(float a, float b) {
  const float r = exact_reciprocal(b);
  const float q = a * r;
  return multiply_add(r, multiply_add(-b, q, a), q);
}
// The inverse root of 0 is infinite, its product with 0 NaN, and the larger of that and 0 is 0.
LPMM_HD float exact_root(float x) {
  const float r = approximate_inverse_root(x);
  const float s = x * r;
  return fmaxf(multiply_add(multiply_add(-s, s, x), 0.5F * r, s), 0.0F);
}

// The least root or numerator of a thread, less 1 so that 0 counts as large. Bounds of denominators follow
// from a rule's scalars.
struct OperandRange {
  std::uint32_t least = ~0U;
  LPMM_HD bool is_exact() const { return least >= kLeastOperand - 1; }
};

// The number type that a rule (kernels/rules/rule.h) computes with. Roots are of the variance, whose sign its
// largest magnitude shows.
struct Number {
  float v = 0;
  OperandRange* range = nullptr;
  Number() = default;
  LPMM_HD explicit Number(float x, OperandRange* r = nullptr) : v(x), range(r) {}
  LPMM_HD Number(float x, const Number& a, const Number& b)
      : v(x), range(a.range != nullptr ? a.range : b.range) {}
};
LPMM_HD Number operator+(const Number& a, const Number& b) {
  return {a.v + b.v, a, b};
}
LPMM_HD Number operator-(const Number& a, const Number& b) {
  return {a.v - b.v, a, b};
}
LPMM_HD Number operator*(const Number& a, const Number& b) {
  return {a.v * b.v, a, b};
}
LPMM_HD Number operator/(const Number& a, const Number& b) {
  a.range->least = add_then_min(abs_bits(a.v), ~0U, a.range->least);
  return Number(exact_quotient(a.v, b.v), a.range);
}
LPMM_HD Number square_root(const Number& a) {
  a.range->least = add_then_min(float_bits(a.v), ~0U, a.range->least);
  return Number(exact_root(a.v), a.range);
}
LPMM_HD Number larger_of(const Number& a, const Number& b) {
  return {lpmm::larger_of(a.v, b.v), a, b};
}
LPMM_HD Number sign(const Number& a) {
  return Number(lpmm::sign(a.v), a.range);
}
// A product with 1 is cheaper than the question whether it is one.
LPMM_HD Number scaled(const Number& x, float factor) {
  return Number(factor * x.v, x.range);
}

// A number of rules that seldom divide: quotients and roots are the compiler's.
struct PlainNumber {
  float v = 0;
  PlainNumber() = default;
  LPMM_HD explicit PlainNumber(float x, OperandRange* = nullptr) : v(x) {}
};
LPMM_HD PlainNumber operator+(PlainNumber a, PlainNumber b) {
  return PlainNumber(a.v + b.v);
}
LPMM_HD PlainNumber operator-(PlainNumber a, PlainNumber b) {
  return PlainNumber(a.v - b.v);
}
LPMM_HD PlainNumber operator*(PlainNumber a, PlainNumber b) {
  return PlainNumber(a.v * b.v);
}
LPMM_HD PlainNumber operator/(PlainNumber a, PlainNumber b) {
  return PlainNumber(a.v / b.v);
}
LPMM_HD PlainNumber square_root(PlainNumber a) {
  return PlainNumber(lpmm::square_root(a.v));
}
LPMM_HD PlainNumber sign(PlainNumber a) {
  return PlainNumber(lpmm::sign(a.v));
}
LPMM_HD PlainNumber scaled(PlainNumber x, float factor) {
  return PlainNumber(factor * x.v);
}

}  // namespace lpmm::kernels::cuda
