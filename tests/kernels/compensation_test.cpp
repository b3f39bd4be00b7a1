// A parameter's two terms, one element at a time: bf16 and ulp8 over all exponents.
#include "kernels/formats/compensation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/support.h"

namespace lpmm::kernels {
namespace {

const Codec kHalf = codec_of({Map::kBf16, 16}, 0, Rounding::kNearest);
const Codec kHalfStochastic = codec_of({Map::kBf16, 16}, 0, Rounding::kStochastic);
const Codec kUlp8 = codec_of({Map::kUlp, 8}, 0, Rounding::kNearest);

struct Split {
  float parameter;
  std::uint8_t code;
  float unit() const { return compensation_unit(kUlp8, kHalf, parameter); }
  double sum() const { return double{parameter} + double{unit()} * (static_cast<std::int8_t>(code) / 127.0); }
  float joined() const { return whole_parameter(parameter, ulp8_to_float(code), unit()); }
};
Split split(float x) {
  Split s{bf16_to_float(float_to_bf16(x)), 0};
  s.code = float_to_ulp8(compensation_of(x, s.parameter, s.unit()));
  return s;
}

// Every bf16 number of normal and subnormal exponents up to 2^120, and `low` values between it and the next.
template <class Body>
void for_each_value(std::uint32_t low, const Body& body) {
  for (std::uint32_t high = 0; high < 0x7B80U; ++high) {
    for (std::uint32_t i = 0; i < low; ++i) {
      const std::uint32_t bits = high << 16 | (i * (65536U / low) + (i * 2654435761U >> 20) % (65536U / low));
      body(bits_float(bits));
      body(bits_float(bits | 0x80000000U));
    }
  }
}

TEST(Compensation, Bf16AndUlp8KeepAParameterToA254thOfItsUnit) {
  for_each_value(32, [](float x) {
    const Split s = split(x);
    const double error = std::abs(double{s.joined()} - double{x}), unit = s.unit();
    ASSERT_LE(error, unit / 254 * (1 + 1e-6) + 0x1p-23 * std::abs(x) + 0x1p-149) << x;
    ASSERT_LE(error, std::abs(double{s.parameter} - double{x}) * (1 + 1e-6) + 0x1p-24 * std::abs(x)) << x;
    ASSERT_LE(std::abs(double{s.parameter} - double{x}), unit) << x;
  });
}

TEST(Compensation, WhatIsABf16NumberNeedsNone) {
  for_each_value(1, [](float x) {
    const float half = bf16_to_float(float_to_bf16(x));
    const Split s = split(half);
    ASSERT_EQ(s.code, 0) << half;
    ASSERT_EQ(s.joined(), half);
  });
}

// The published formula in fp64, where all of it is exact: 127 times the share of half a unit, ties away from
// 0. Signs do not matter.
TEST(Compensation, CodesAreThePublishedOnes) {
  for_each_value(16, [](float x) {
    const Split s = split(x), mirrored = split(-x);
    const int exponent = std::max(-126, std::ilogb(s.parameter == 0 ? 0x1p-126F : s.parameter));
    const double share = (double{x} - double{s.parameter}) / std::ldexp(1.0, exponent - 8);
    const double wanted = std::round(127 * std::clamp(share, -1.0, 1.0));
    ASSERT_EQ(static_cast<std::int8_t>(s.code), wanted) << x;
    ASSERT_EQ(static_cast<std::int8_t>(mirrored.code), -wanted) << x;
  });
}

// Splitting again costs nothing: a value that an update does not move stays where it is.
TEST(Compensation, ASumThatIsSplitAgainIsTheSame) {
  for_each_value(16, [](float x) {
    const float once = split(x).joined(), again = split(once).joined();
    ASSERT_LE(std::abs(double{again} - double{once}), 0x1p-23 * std::abs(x)) << x;
  });
}

TEST(Compensation, StochasticParametersHaveTwiceTheUnit) {
  for_each_value(4, [](float x) {
    for (const std::uint32_t draw : {0U, 20000U, 65535U}) {
      const float stored = bf16_to_float(float_to_bf16_stochastic(x, draw));
      const float unit = compensation_unit(kUlp8, kHalfStochastic, stored);
      ASSERT_EQ(unit, 2 * compensation_unit(kUlp8, kHalf, stored));
      ASSERT_LE(std::abs(double{x} - double{stored}), unit) << x;
    }
  });
}

TEST(Compensation, InBlocksIsWhatItSays) {
  for (const Format f : all_formats()) {
    if (f.map == Map::kUlp) continue;
    EXPECT_EQ(compensation_unit(codec_of(f), kHalf, 0.3F), 1.0F);
  }
  EXPECT_EQ(whole_parameter(0.5F, -0.25F, 1), 0.25F);
  EXPECT_EQ(compensation_of(0.25F, 0.5F, 1), -0.25F);
}

TEST(Compensation, Ulp8RoundsStochasticallyWithoutBias) {
  for (const float x : {0.0F, 0.3F / 127, -0.7F / 127, 100.25F / 127, -1.0F, 1.0F, 7.0F}) {
    double sum = 0;
    for (std::uint32_t draw = 0; draw < 65536; ++draw) {
      sum += static_cast<std::int8_t>(float_to_ulp8_stochastic(x, draw));
    }
    EXPECT_NEAR(sum / 65536, 127 * std::clamp(double{x}, -1.0, 1.0), 2e-5) << x;
  }
  for (int code = -127; code <= 127; ++code) {
    const auto stored = static_cast<std::uint8_t>(code);
    EXPECT_EQ(float_to_ulp8(ulp8_to_float(stored)), stored);
    for (const std::uint32_t draw : {0U, 65535U}) {
      EXPECT_EQ(float_to_ulp8_stochastic(ulp8_to_float(stored), draw), stored);
    }
  }
}

}  // namespace
}  // namespace lpmm::kernels
