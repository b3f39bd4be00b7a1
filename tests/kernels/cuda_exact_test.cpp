// The sequences of kernels/cuda/packed/exact.h are IEEE's, and the encoders of
// kernels/cuda/packed/fused_roles.h those of kernels/formats/element.h, with instructions that are wrong by
// as much as the device's.
#include "kernels/cuda/packed/exact.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "kernels/cuda/packed/fused_roles.h"
#include "kernels/formats/element.h"
#include "kernels/formats/maps.h"

namespace lpmm::kernels::cuda_exact_test {
namespace {

using cuda::exact_quotient;
using cuda::exact_reciprocal;
using cuda::exact_root;

// All mantissas, at exponents of both parities.
TEST(CudaExact, RootsAreIeee) {
  EXPECT_EQ(exact_root(0.0F), 0.0F);
  std::int64_t wrong = 0;
  for (const std::uint32_t first : {cuda::kLeastOperand, 0x3F000000U, 0x7A800000U}) {
    for (std::uint32_t i = 0; i < 1U << 24; ++i) {
      const float x = bits_float(first + i);
      wrong += exact_root(x) != std::sqrt(x) ? 1 : 0;
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(CudaExact, ReciprocalsAreIeee) {
  std::int64_t wrong = 0;
  for (const float scale : {0x1p-116F, 1.0F, 0x1p119F}) {
    for (std::uint32_t i = 0; i < 1U << 23; ++i) {
      const float x = bits_float(0x3F800000U + i) * scale;
      wrong += exact_reciprocal(x) != 1.0F / x ? 1 : 0;
    }
  }
  EXPECT_EQ(wrong, 0);
}

// Quotients a / b that lie within k parts of 2^-24 of b's unit of the middle between two floats: nearer ones
// there are none. For every b that 4 does not divide.
TEST(CudaExact, TheHardestQuotientsAreIeee) {
  std::int64_t wrong = 0, tried = 0;
  for (std::uint32_t b = 1U << 23; b < 1U << 24; ++b) {
    const int zeros = std::countr_zero(b);
    if (zeros > 1) continue;
    const std::uint32_t odd = b >> zeros;
    std::uint32_t inverse = odd;  // modulo 2^32, by Newton's steps
    for (int i = 0; i < 4; ++i) inverse *= 2 - odd * inverse;
    for (const std::int32_t k : {-1, 1}) {
      for (const int shift : {24, 25}) {
        std::uint32_t middle = static_cast<std::uint32_t>(k) * inverse & ((1U << (shift - zeros)) - 1);
        while (middle < 1U << 24) middle += 1U << (shift - zeros);
        if (middle % 2 == 0) continue;
        const std::int64_t product = std::int64_t{middle} * b - (static_cast<std::int64_t>(k) << zeros);
        const std::int64_t a = product >> shift;
        if (a << shift != product || (a >= 1 << 24 && a % 2 != 0) || a >= 1 << 25) continue;
        const auto numerator = static_cast<float>(a), denominator = static_cast<float>(b);
        wrong += exact_quotient(numerator, denominator) != numerator / denominator ? 1 : 0;
        ++tried;
      }
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(tried, 1 << 22);
}

TEST(CudaExact, QuotientsInRangeAreIeee) {
  std::mt19937 random(1);
  const auto any = [&](std::uint32_t least, std::uint32_t most) {
    return bits_float(std::uniform_int_distribution<std::uint32_t>(least, most)(random));
  };
  std::int64_t wrong = 0;
  for (int i = 0; i < 4'000'000; ++i) {
    const float a = (i % 2 == 0 ? 1.0F : -1.0F) * any(cuda::kLeastOperand, 0x7B800000U);
    const float b = any(float_bits(cuda::kLeastDenominator), float_bits(cuda::kMostDenominator));
    if (std::isinf(a / b)) continue;  // shows as not storable
    wrong += exact_quotient(a, b) != a / b ? 1 : 0;
  }
  EXPECT_EQ(wrong, 0);
}

// An operand out of range is noticed, 0 is not.
TEST(CudaExact, RangesAreTracked) {
  const auto divided = [](float a) {
    cuda::OperandRange range;
    (void)(cuda::Number(a, &range) / cuda::Number(1.0F));
    return range.is_exact();
  };
  const auto rooted = [](float x) {
    cuda::OperandRange range;
    (void)square_root(cuda::Number(x, &range));
    return range.is_exact();
  };
  EXPECT_TRUE(divided(0.0F) && divided(-0.0F) && divided(-1.0F) && divided(0x1p-101F));
  EXPECT_FALSE(divided(0x1.FFp-102F) || divided(-1e-40F));
  EXPECT_TRUE(rooted(0.0F) && rooted(0x1p-101F) && rooted(0x1p120F));
  EXPECT_FALSE(rooted(1e-40F) || rooted(0x1.FFp-102F));
}

// Denominators are in range wherever a rule says so, and wherever it does not, some may not be.
TEST(CudaExact, BoundsOfDenominatorsHold) {
  constexpr float kLeast = cuda::kLeastDenominator, kMost = cuda::kMostDenominator;
  AdamAverages rule;
  std::mt19937 random(5);
  std::int64_t within = 0;
  for (int i = 0; i < 100'000; ++i) {
    const auto power = [&random](int least, int most) {
      const int exponent = least + static_cast<int>(random() % static_cast<unsigned>(most - least));
      return std::ldexp(1.0F + static_cast<float>(random()) * 0x1p-32F, exponent);
    };
    rule.epsilon = power(-70, 30);
    rule.variance_scale = power(0, 12);
    const float v = power(-120, 60);
    if (!rule.spreads_within(kLeast, kMost, v)) continue;
    ++within;
    const float largest = rule.spread(cuda::PlainNumber(v)).v;
    ASSERT_TRUE(largest <= kMost && rule.spread(cuda::PlainNumber(0.0F)).v >= kLeast) << v;
  }
  EXPECT_GT(within, 10'000);
  rule.variance_scale = 1.0F;
  rule.epsilon = 0x1p-60F;
  EXPECT_TRUE(rule.spreads_within(kLeast, kMost, 0.0F) && rule.spreads_within(kLeast, kMost, 0x1p44F));
  EXPECT_FALSE(rule.spreads_within(kLeast, kMost, 0x1p49F) ||
               rule.spreads_within(kLeast, kMost, std::nanf("")));
  for (const float epsilon : {0.0F, 0x1.FFp-61F, 0x1.1p24F}) {
    rule.epsilon = epsilon;
    EXPECT_FALSE(rule.spreads_within(kLeast, kMost, 1.0F)) << epsilon;
  }
}

// ---- encoders --------------------------------------------------------------------------------------------
// An encoder with what it reads, and codes as they are stored: of a row whose other elements are 0.
template <Coding kCoding, int kBits, Rounding kLaw>
class RowEncoder {
 public:
  explicit RowEncoder(float step) : encoder_(step, given(table_)) {}
  std::uint32_t code(float x, std::uint32_t draw) {
    lane_ = (lane_ + 1) % cuda_emulated::kColumns;
    float values[cuda_emulated::kColumns] = {};
    values[lane_] = x;
    std::uint32_t places[cuda_emulated::kColumns];
    for (int i = 0; i < cuda_emulated::kColumns; ++i)
      places[i] = encoder_.place(values[i], i == lane_ ? draw : 0);
    cuda_emulated::Words<kBits> words;
    cuda_emulated::set_row<kCoding>(words, 0, places, values);
    std::uint32_t bytes = words.row(0), high = 0;
    if constexpr (kBits > 8) high = words.template row<8>(0);
    const std::uint32_t others = ~(0xFFU << (8 * lane_));
    EXPECT_EQ((bytes | high) & others, 0U);
    return (high >> (8 * lane_) & 0xFFU) << 8 | (bytes >> (8 * lane_) & 0xFFU);
  }

 private:
  static cuda_emulated::Given given(cuda_emulated::SoftTable& table) {
    if constexpr (kCoding == Coding::kSoftsign) {
      for (int i = 0; i < cuda_emulated::kTableThreads; ++i) cuda_emulated::make_soft_table(table, i, kBits);
    }
    cuda_emulated::Given with_table;
    with_table.tables = &table;
    return with_table;
  }

  cuda_emulated::SoftTable table_ = {};
  cuda_emulated::Encoder<kCoding, kBits, kLaw> encoder_;
  int lane_ = 0;
};

template <Map kMap, int kBits, Rounding kRounding = Rounding::kStochastic>
void expect_codes_of_the_specification() {
  constexpr Format kFormat = {kMap, kBits};
  const MapTable table = map_table(kFormat);
  std::mt19937 random(kBits);
  std::int64_t wrong = 0;
  for (const float step : {0x1.02p-7F, 0x1.FEp-30F, 0x1p-100F, 1.0F, 0x1.76p80F}) {
    RowEncoder<coding_of(kMap), kBits, kRounding> encoder(step);
    const float most = map_limit(kFormat) * step;
    const auto check = [&](float x) {
      if (!(std::fabs(x) <= most)) return;
      for (const std::uint32_t draw : {0U, 0xFFFFU, static_cast<std::uint32_t>(random() & 0xFFFFU)}) {
        const std::uint32_t expected = encode_value(kFormat, table, kRounding, x, step, draw);
        const std::uint32_t below = random() & 0xFFFFU;  // these bits have no meaning
        wrong += encoder.code(x, draw << 16 | below) != expected ? 1 : 0;
      }
    };
    for (int i = 0; i < 60'000; ++i) {
      const float share = static_cast<float>(random()) * 0x1p-32F;
      const float x = most * (i % 3 == 0 ? share * share * share : share);
      check(x);
      if (is_signed(kMap)) check(-x);
    }
    // Around every entry, and from 0.
    for (std::uint32_t code = 0; code<1U << kBits; code += kBits> 8 ? 7 : 1) {
      const float entry = decode_code(kFormat, table, code, step);
      for (int ulps = -20; ulps <= 20; ++ulps) {
        if (entry != 0.0F) check(bits_float(float_bits(entry) + static_cast<std::uint32_t>(ulps)));
      }
    }
    for (const float tiny : {0.0F, 1e-45F, 1e-38F, step * 0x1p-40F}) {
      check(tiny);
      if (is_signed(kMap)) check(-tiny);
    }
  }
  EXPECT_EQ(wrong, 0) << to_string(kFormat);
}

TEST(CudaExact, CodesAreThoseOfTheSpecification) {
  expect_codes_of_the_specification<Map::kLinear, 5>();
  expect_codes_of_the_specification<Map::kLinear, 7>();
  expect_codes_of_the_specification<Map::kLinear, 8>();
  expect_codes_of_the_specification<Map::kLinear, 12>();
  expect_codes_of_the_specification<Map::kSquareRoot, 2>();
  expect_codes_of_the_specification<Map::kSquareRoot, 8>();
  expect_codes_of_the_specification<Map::kSquareRoot, 4, Rounding::kAverage>();
  expect_codes_of_the_specification<Map::kSquareRoot, 8, Rounding::kAverage>();
  expect_codes_of_the_specification<Map::kSoftsign, 3>();
  expect_codes_of_the_specification<Map::kSoftsign, 4>();
}

// Every magnitude that a step of 1 holds, in strides; the draws matter less than the position.
TEST(CudaExact, SoftsignPositionsAreThoseOfTheSpecification) {
  RowEncoder<Coding::kSoftsign, 4, Rounding::kStochastic> encoder(1.0F);
  std::int64_t wrong = 0;
  for (std::uint32_t bits = 0; bits <= 0x3F800000U; bits += 257) {
    const std::uint32_t draw = bits * 0x9E3779B9U;
    const float x = bits_float(bits | (draw & 0x80000000U));
    const std::int32_t expected = encode_softsign(x, 1.0F, 7, draw >> 16);
    wrong += encoder.code(x, draw) != (static_cast<std::uint32_t>(expected) & 15U) ? 1 : 0;
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace lpmm::kernels::cuda_exact_test
