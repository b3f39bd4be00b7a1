// The scalar codec is the specification; here are its own laws.
#include "kernels/formats/element.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/kernels/support.h"

namespace lpmm::kernels {
namespace {

constexpr Rounding kBoth[] = {Rounding::kNearest, Rounding::kStochastic};

// A format with the table of its blocks; of log0, of blocks with a narrow, a middle and the widest range.
struct Mapped {
  Format format;
  MapTable table;
};
std::vector<Format> log_formats() {
  std::vector<Format> formats;
  for (const Format f : packed_formats()) {
    if (has_range(f.map)) formats.push_back(f);
  }
  return formats;
}
std::vector<Mapped> packed_maps() {
  std::vector<Mapped> maps;
  for (const Format f : packed_formats()) {
    if (!has_range(f.map)) {
      maps.push_back({f, map_table(f)});
    } else {
      for (const std::uint32_t range : {0U, 17U, 31U}) maps.push_back({f, map_table(f, range)});
    }
  }
  return maps;
}

TEST(Maps, DynamicMapsHaveThePublishedValues) {
  const MapTable de8 = map_table({Map::kDynamic, 8});
  ASSERT_EQ(de8.entries, 256);
  EXPECT_EQ(de8.values[127], 0.0F);
  EXPECT_EQ(de8.values[255], 1.0F);
  EXPECT_FLOAT_EQ(de8.values[128], 5.5e-7F);
  EXPECT_FLOAT_EQ(de8.values[254], 0.1F + 0.9F * 63.5F / 64.0F);
  EXPECT_FLOAT_EQ(de8.values[0], -de8.values[254]);
  const MapTable ude8 = map_table({Map::kDynamicUnsigned, 8});
  EXPECT_EQ(ude8.values[0], 0.0F);
  EXPECT_FLOAT_EQ(ude8.values[1], 3.25e-7F);
  EXPECT_FLOAT_EQ(ude8.values[254], 0.1F + 0.9F * 127.5F / 128.0F);
  EXPECT_EQ(ude8.values[255], 1.0F);
  const MapTable de08 = map_table({Map::kDynamicNoZero, 8});
  EXPECT_EQ(de08.values[0], de08.values[1] / 2.0F);
  const float de4[] = {-0.8875F, -0.6625F, -0.4375F, -0.2125F, -0.0775F, -0.0325F, -0.0055F, 0.0F,
                       0.0055F,  0.0325F,  0.0775F,  0.2125F,  0.4375F,  0.6625F,  0.8875F,  1.0F};
  const MapTable table = map_table({Map::kDynamic, 4});
  for (int i = 0; i < 16; ++i) EXPECT_FLOAT_EQ(table.values[i], de4[i]);
  // With b bits the decades end at 10^-(b-2), each with twice the cells of the one below.
  const float de5[] = {0.00055F, 0.00325F, 0.00775F, 0.02125F, 0.04375F, 0.06625F, 0.08875F, 0.15625F};
  for (int i = 0; i < 8; ++i) {
    EXPECT_FLOAT_EQ(map_table({Map::kDynamic, 5}).values[16 + i], de5[i]);
    EXPECT_FLOAT_EQ(map_table({Map::kDynamic, 5}).values[14 - i], -de5[i]);
  }
  EXPECT_FLOAT_EQ(map_table({Map::kDynamicUnsigned, 6}).values[1], 3.25e-5F);
  EXPECT_FLOAT_EQ(map_table({Map::kDynamicNoZero, 6}).values[0], 1.625e-5F);
  EXPECT_FLOAT_EQ(map_table({Map::kDynamicUnsigned, 6}).values[62], 0.1F + 0.9F * 31.5F / 32.0F);
}

TEST(Maps, ClosedFormMaps) {
  for (int k = 0; k < 16; ++k) {
    EXPECT_EQ(map_table({Map::kLinearNoZero, 4}).values[k], static_cast<float>(k + 1) / 16.0F);
    EXPECT_EQ(map_table({Map::kSquareRoot, 4}).values[k], static_cast<float>((k + 1) * (k + 1)) / 256.0F);
  }
  const float sqrt03[] = {1, 4, 9, 16, 25, 36, 49, 64};
  for (int k = 0; k < 8; ++k) EXPECT_EQ(map_table({Map::kSquareRoot, 3}).values[k], sqrt03[k] / 64.0F);
  const float sqrt02[] = {1, 4, 9, 16};
  for (int k = 0; k < 4; ++k) {
    EXPECT_EQ(map_table({Map::kSquareRoot, 2}).values[k], sqrt02[k] / 16.0F);
    EXPECT_EQ(map_table({Map::kLinearNoZero, 2}).values[k], static_cast<float>(k + 1) / 4.0F);
  }
  for (int k = 0; k < 256; ++k) {
    const double root = k / 255.0;
    EXPECT_EQ(map_table({Map::kSquareRootWithZero, 8}).values[k], static_cast<float>(root * root));
    if (k < 16) {
      EXPECT_FLOAT_EQ(map_table({Map::kSquareRootWithZero, 4}).values[k], static_cast<float>(k * k) / 225.0F);
    }
  }
  EXPECT_EQ(map_table({Map::kSquareRootWithZero, 3}).values, nullptr);
  EXPECT_EQ(map_table({Map::kSoftsign, 2}).values, nullptr);
  const float soft3[] = {-1.0F, -0.5F, -0.2F, 0.0F, 0.2F, 0.5F, 1.0F};
  for (int k = 0; k < 7; ++k) EXPECT_FLOAT_EQ(map_table({Map::kSoftsign, 3}).values[k], soft3[k]);
  EXPECT_EQ(map_table({Map::kDynamic, 3}).values, nullptr);
  for (int k = 0; k < 32; ++k) {
    EXPECT_EQ(map_table({Map::kSquareRoot, 5}).values[k], static_cast<float>((k + 1) * (k + 1)) / 1024.0F);
    EXPECT_EQ(map_table({Map::kLinearNoZero, 6}).values[k], static_cast<float>(k + 1) / 64.0F);
  }
  const MapTable soft = map_table({Map::kSoftsign, 4});
  for (int k = -7; k <= 7; ++k) {
    const double z = k / 7.0;
    EXPECT_FLOAT_EQ(soft.values[k + 7], static_cast<float>(z / (2.0 - std::abs(z))));
  }
}

// Ranges grow from one octave by equal factors, and each is cut into equal ratios.
TEST(Maps, LogMapsAreEvenInTheLogarithm) {
  for (const Format f : log_formats()) {
    const int codes = 1 << f.bits;
    for (std::uint32_t range = 0; range < kRanges; ++range) {
      const double octaves = std::pow(std::min(codes, 40), range / 31.0);
      const MapTable table = map_table(f, range);
      for (int k = 0; k < codes; ++k) {
        const double share = static_cast<double>(codes - 1 - k) / (codes - 1);
        EXPECT_FLOAT_EQ(table.values[k], static_cast<float>(std::exp2(-octaves * share)));
      }
      EXPECT_FLOAT_EQ(table.codes_per_octave, static_cast<float>((codes - 1) / octaves));
    }
    EXPECT_FLOAT_EQ(map_table(f, 31).values[0], std::ldexp(1.0F, -std::min(codes, 40)));
  }
}

// The definition: quantiles at probabilities spaced evenly from the offset to 1/2, on each side, over the
// largest of them.
TEST(Maps, NormalFloatHasThePublishedLevels) {
  const auto quantile = [](double p) {
    double low = 0, high = 8;
    for (int i = 0; i < 100; ++i) {
      const double middle = (low + high) / 2;
      (std::erfc(-middle / std::sqrt(2.0)) / 2 < p ? low : high) = middle;
    }
    return low;
  };
  const double offset = 0.9677083, most = quantile(offset);
  const MapTable table = map_table({Map::kNormalFloat, 4});
  ASSERT_EQ(table.entries, 16);
  for (int k = 0; k <= 8; ++k) {
    EXPECT_NEAR(table.values[7 + k], quantile(0.5 + (offset - 0.5) * k / 8) / most, 2e-7);
  }
  for (int k = 0; k <= 7; ++k) {
    EXPECT_NEAR(table.values[7 - k], -quantile(0.5 + (offset - 0.5) * k / 7) / most, 2e-7);
  }
}

TEST(Maps, E4m3HasTheValuesOfTheStandard) {
  const MapTable table = map_table({Map::kE4m3, 8});
  ASSERT_EQ(table.entries, 253);
  EXPECT_EQ(table.zero, 126);
  const auto at = [&](int number) { return table.values[126 + number] * 448.0; };
  EXPECT_EQ(table.values[252], 1.0F);
  EXPECT_NEAR(at(1), std::ldexp(1.0, -9), 1e-9);  // the smallest subnormal
  EXPECT_NEAR(at(7), 7 * std::ldexp(1.0, -9), 1e-9);
  EXPECT_NEAR(at(8), std::ldexp(1.0, -6), 1e-8);  // the smallest normal
  EXPECT_NEAR(at(56), 1.0, 1e-6);
  EXPECT_NEAR(at(57), 1.125, 1e-6);
  EXPECT_NEAR(at(125), 416.0, 1e-4);
  for (int i = 0; i <= 126; ++i) EXPECT_EQ(table.values[126 + i], -table.values[126 - i]);
  for (int i = 253; i < 256; ++i) EXPECT_EQ(table.values[i], 1.0F);  // patterns that a hostile file may hold
}

// BQ5 of bitsandbytes, for every format: 2^b distinct values, or one fewer where signs are symmetric.
TEST(Maps, EveryCodeHasItsOwnValueInAscendingOrder) {
  for (const auto& [f, table] : packed_maps()) {
    float previous = -2e9F;
    for (const std::uint32_t code : codes_of(f)) {
      const float value = decode_code(f, table, code, 1.0F);
      EXPECT_GT(value, previous) << to_string(f) << " code " << code;
      previous = value;
    }
    EXPECT_EQ(previous, map_limit(f)) << to_string(f);
    if (is_zero_free(f.map)) {
      EXPECT_GT(decode_code(f, table, 0, 1.0F), 0.0F);
    }
  }
}

TEST(Codec, DecodedValuesReturnTheirCodesWhateverTheDrawAndStep) {
  for (const auto& [f, table] : packed_maps()) {
    std::int64_t wrong = 0;
    for (std::uint32_t mantissa = 0; mantissa < 128; ++mantissa) {
      for (const std::uint32_t exponent : {has_range(f.map) ? 47U : 30U, 121U, 220U}) {
        if (f.bits > 12 && mantissa % 8 != exponent % 8) continue;
        const float step = bf16_to_float(static_cast<std::uint16_t>(exponent << 7 | mantissa));
        for (const std::uint32_t code : codes_of(f)) {
          const float x = decode_code(f, table, code, step);
          wrong += encode_value(f, table, Rounding::kNearest, x, step, 0) != code;
          for (const std::uint32_t draw : {0U, 0x8000U, 0xFFFFU}) {
            wrong += encode_value(f, table, Rounding::kStochastic, x, step, draw) != code;
          }
        }
      }
    }
    EXPECT_EQ(wrong, 0) << to_string(f);
  }
}

// The value of a code's place in ascending order.
std::int64_t place(Format f, std::uint32_t code) {
  return has_signed_codes(f.map) ? sign_extend(code, f.bits) : static_cast<std::int64_t>(code);
}

TEST(Codec, RoundingIsMonotoneAndNeverSkipsANeighbour) {
  for (const auto& [f, table] : packed_maps()) {
    const float limit = map_limit(f);
    const float lowest = is_signed(f.map) ? -limit : 0.0F;
    const float step = 0.0123F;
    const float bf16_step = bf16_to_float(float_to_bf16(step));
    std::array<std::int64_t, 4> previous = {-70000, -70000, -70000, -70000};
    const int points = 20011;
    for (int i = 0; i <= points; ++i) {
      const float y = lowest + (limit - lowest) * static_cast<float>(i) / static_cast<float>(points);
      const float x = std::min(y * bf16_step, limit * bf16_step);
      const std::array<std::int64_t, 4> now = {
          place(f, encode_value(f, table, Rounding::kNearest, x, bf16_step, 0)),
          place(f, encode_value(f, table, Rounding::kStochastic, x, bf16_step, 0)),
          place(f, encode_value(f, table, Rounding::kStochastic, x, bf16_step, 0x8000)),
          place(f, encode_value(f, table, Rounding::kStochastic, x, bf16_step, 0xFFFF))};
      for (std::size_t k = 0; k < 4; ++k) {
        EXPECT_GE(now[k], previous[k]) << to_string(f) << " at " << y;
        EXPECT_LE(std::abs(now[k] - now[0]), 1) << to_string(f) << " at " << y;
      }
      previous = now;
    }
  }
}

// Nearest in value, of squares in the root, against the plain search over all entries.
TEST(Codec, NearestIsNearest) {
  for (const auto& [f, table] : packed_maps()) {
    if (f.bits > 8) continue;
    const std::vector<std::uint32_t> codes = codes_of(f);
    const float limit = map_limit(f);
    for (const float value : normal_values(2000, 3, 0.3F, !is_signed(f.map))) {
      const float x = std::clamp(value * limit, -limit, limit);
      const std::uint32_t code = encode_value(f, table, Rounding::kNearest, x, 1.0F, 0);
      const auto distance = [&](std::uint32_t c) {
        const float of_code = decode_code(f, table, c, 1.0F);
        if (coding_of(f.map) == Coding::kSquares) return std::abs(std::sqrt(of_code) - std::sqrt(x));
        return std::abs(of_code - x);
      };
      float best = 1e9F;
      for (const std::uint32_t c : codes) best = std::min(best, distance(c));
      // Positions of curved maps have 2^-13 of a gap.
      EXPECT_LE(distance(code), best + limit * 2e-5F) << to_string(f) << " " << x;
    }
  }
}

// All 65,536 draws: the mean is the value up to the resolution, the variance p(1-p) gap^2.
TEST(Codec, StochasticRoundingIsUnbiasedOverAllDraws) {
  for (const auto& [f, table] : packed_maps()) {
    const Coding coding = coding_of(f.map);
    const bool curved = coding == Coding::kDynamic || coding == Coding::kZones || coding == Coding::kSoftsign;
    const float step = bf16_to_float(float_to_bf16(0.37F));
    for (const float share : {-0.731F, -0.113F, 0.0719F, 0.351F, 0.613F, 0.9217F}) {
      if (!is_signed(f.map) && share < 0) continue;
      if (is_zero_free(f.map) && share < table.values[0])
        continue;  // below the smallest entry, which it takes
      const float x = share * map_limit(f) * step;
      double sum = 0, square = 0, low = 1e30, high = -1e30;
      for (std::uint32_t draw = 0; draw < 65536; ++draw) {
        const double v =
            decode_code(f, table, encode_value(f, table, Rounding::kStochastic, x, step, draw), step);
        low = std::min(low, v);
        high = std::max(high, v);
        sum += v - x;
        square += (v - x) * (v - x);
      }
      const double gap = high - low;
      const double resolution = curved ? 0x1p-14 : 0x1p-17;
      EXPECT_LE(std::abs(sum / 65536), gap * (resolution + 0x1p-17) + 1e-6 * std::abs(x))
          << to_string(f) << share;
      if (gap > 0) {
        const double p = (x - low) / gap;
        EXPECT_NEAR(square / 65536, p * (1 - p) * gap * gap,
                    (2e-4 + std::ldexp(1.0, f.bits - 24)) * gap * gap)
            << to_string(f) << " " << share;
      }
    }
  }
}

// All 65,536 draws of `ur` and `ar`: the mean of 1 / sqrt(v), or of v^(1/4), is that of the value; nearly,
// where square roots take a line that is bent nearly right.
class OfVariance : public testing::TestWithParam<Rounding> {};
INSTANTIATE_TEST_SUITE_P(, OfVariance, testing::Values(Rounding::kUpdate, Rounding::kAverage),
                         [](const auto& of) {
                           return std::string(of.param == Rounding::kUpdate ? "ur" : "ar");
                         });
TEST_P(OfVariance, RoundingKeepsTheMeanOfAPower) {
  const Rounding rounding = GetParam();
  const double power = rounding == Rounding::kUpdate ? -0.5 : 0.25;
  for (const auto& [f, table] : packed_maps()) {
    if (!is_zero_free(f.map)) continue;
    const float step = bf16_to_float(float_to_bf16(0.37F));
    for (const float share : {0.0719F, 0.351F, 0.613F, 0.9217F}) {
      if (share < table.values[0]) continue;
      const float x = share * step;
      double sum = 0, low = 1e30, high = 0;
      for (std::uint32_t draw = 0; draw < 65536; ++draw) {
        const double stored = decode_code(f, table, encode_value(f, table, rounding, x, step, draw), step);
        sum += std::pow(stored, power) / 65536;
        low = std::min(low, stored);
        high = std::max(high, stored);
      }
      const double gap = std::abs(std::pow(low, power) - std::pow(high, power));
      const bool is_near = rounding == Rounding::kAverage && coding_of(f.map) == Coding::kSquareRoot;
      EXPECT_NEAR(sum, std::pow(double{x}, power), gap * (is_near ? 0x1p-10 : 0x1p-16))
          << to_string(f) << " " << share;
      EXPECT_GT(gap, 0) << to_string(f) << " " << share;
    }
    for (int code = 0; code < table.entries; ++code) {
      const float x = decode_code(f, table, static_cast<std::uint32_t>(code), step);
      for (const std::uint32_t draw : {0U, 0x8000U, 0xFFFFU}) {
        EXPECT_EQ(encode_value(f, table, rounding, x, step, draw), code) << to_string(f);
      }
    }
    EXPECT_EQ(encode_value(f, table, rounding, 0.0F, step, 0xFFFF), 0U) << to_string(f);
  }
}

// Below half a draw's share of a gap an increment is never seen; above it, it moves the code at its own rate.
TEST(Codec, TheDeadZoneIsHalfADraw) {
  for (const auto& [f, table] : packed_maps()) {
    if (f.map != Map::kLinear) continue;
    const auto zero = static_cast<std::uint32_t>(table.zero);
    const auto moved = [&f = f, &table = table, zero](float x) {
      std::uint32_t count = 0;
      for (std::uint32_t draw = 0; draw < 65536; ++draw) {
        count += encode_value(f, table, Rounding::kStochastic, x, 1.0F, draw) != zero ? 1 : 0;
      }
      return count;
    };
    for (const float sign : {1.0F, -1.0F}) {
      EXPECT_EQ(moved(sign * 0x1p-18F), 0U) << to_string(f);
      EXPECT_EQ(moved(sign * 0x1p-15F), 2U) << to_string(f);
      EXPECT_EQ(moved(sign * 0x1p-10F), 64U) << to_string(f);
    }
  }
}

TEST(Codec, ZeroStaysZeroWhereThereIsOne) {
  for (const auto& [f, table] : packed_maps()) {
    for (const Rounding rounding : kBoth) {
      for (const float zero : {0.0F, -0.0F}) {
        const std::uint32_t code = encode_value(f, table, rounding, zero, 0.5F, 0xFFFF);
        EXPECT_EQ(code, static_cast<std::uint32_t>(table.zero)) << to_string(f);
        if (!is_zero_free(f.map)) {
          EXPECT_EQ(decode_code(f, table, code, 0.5F), 0.0F) << to_string(f);
        }
      }
    }
  }
}

TEST(Codec, Bf16) {
  EXPECT_EQ(float_to_bf16(1.0F), 0x3F80);
  EXPECT_EQ(float_to_bf16(1.00390625F), 0x3F80);  // a tie goes to even
  EXPECT_EQ(float_to_bf16(1.01171875F), 0x3F82);
  EXPECT_NE(float_to_bf16(std::nanf("")) & 0x7F, 0);
  double sum = 0;
  const float x = 1.0123F;
  for (std::uint32_t draw = 0; draw < 65536; ++draw) sum += bf16_to_float(float_to_bf16_stochastic(x, draw));
  EXPECT_NEAR(sum / 65536, x, 1e-7);
  EXPECT_EQ(float_to_bf16_stochastic(3.3895314e38F, 0xFFFF), 0x7F7F);
}

TEST(Steps, CoverTheLargestAndAreTheSmallestThatDo) {
  std::mt19937 generator(1);
  for (const Format f : packed_formats()) {
    const float limit = map_limit(f);
    for (int i = 0; i < 2000; ++i) {
      const float largest = std::ldexp(1.0F + static_cast<float>(generator() % 8388608) / 8388608.0F,
                                       static_cast<int>(generator() % 180) - 80);
      const std::uint16_t step = covering_step(largest, limit);
      EXPECT_GE(static_cast<double>(bf16_to_float(step)) * limit, largest);
      const auto below = static_cast<std::uint16_t>(step - 1);
      EXPECT_LT(static_cast<double>(bf16_to_float(below)) * limit, largest * (1 + 1e-6));
    }
    EXPECT_GE(bf16_to_float(covering_step(1e-44F, limit)), kMinStep);
  }
}

TEST(Steps, StickyOnesStayUntilOverflowOrSlack) {
  const Codec c = codec_of({Map::kLinear, 8}, 128, Rounding::kStochastic, StepMode::kSticky);
  const std::uint16_t step = next_step(c, 1.0F, 0);
  const float range = 127.0F * bf16_to_float(step);
  EXPECT_GE(range, kStickyRoom);
  EXPECT_EQ(next_step(c, range, step), step);
  EXPECT_EQ(next_step(c, (kStickySlack + 0.01F) * range, step), step);
  EXPECT_NE(next_step(c, 1.01F * range, step), step);
  EXPECT_NE(next_step(c, (kStickySlack - 0.01F) * range, step), step);
  EXPECT_EQ(next_step(c, 0.0F, step), 0);
}

TEST(Steps, AccumulatorsOnlyGrow) {
  const Codec c = codec_of({Map::kLinear, 8});
  const std::uint16_t first = next_accumulator_step(c, 1.0F, 0);
  EXPECT_GE(127.0F * bf16_to_float(first), 1.0F);
  EXPECT_EQ(next_accumulator_step(c, 0.001F, first), first);
  EXPECT_EQ(next_accumulator_step(c, 0.0F, 0), 0);
  EXPECT_EQ(next_accumulator_step(c, 127.0F * bf16_to_float(first), first), first);
  // It grows until it covers the block, and no further.
  const std::uint16_t grown = next_accumulator_step(c, 17.0F, first);
  EXPECT_GE(127.0F * bf16_to_float(grown), 17.0F);
  EXPECT_LT(127.0F * bf16_to_float(static_cast<std::uint16_t>(grown - 1)), 17.0F);
}

// Blocks of all spreads: a word covers both ends, is the tightest that does, and, where it is sticky, stays
// when what it stored is written again.
TEST(Steps, RangesCoverTheBlockAndStickyOnesStay) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const Format f : log_formats()) {
    for (int i = 0; i < 400; ++i) {
      const MapTable whole = map_table(f);
      const StepMode mode = i % 2 == 0 ? StepMode::kSticky : StepMode::kMoving;
      const Codec c = codec_of(f, 128, i % 3 == 0 ? Rounding::kUpdate : Rounding::kStochastic, mode);
      std::vector<float> x(128);
      for (float& v : x) {
        v = random() % 16 == 0 ? 0.0F : std::exp(0.01F * static_cast<float>(i) * normal(random) - 9.0F);
      }
      const auto ends = [&] {
        float largest = 0, smallest = 1;
        for (const float v : x) {
          largest = std::max(largest, v);
          if (v > 0) smallest = std::min(smallest, v);
        }
        return std::pair(largest, smallest);
      };
      const auto [largest, smallest] = ends();
      const std::uint16_t word = next_range(c, whole, largest, smallest, 0);
      EXPECT_TRUE(is_step(f, word));
      const Scale scale = scale_of(f, whole, word);
      const int range = range_of(word);
      EXPECT_GE(scale.step, largest);
      EXPECT_LE(scale.step, largest * 1.125F * kStickyRoom);
      if (range < kRanges - 1) {
        EXPECT_LE(scale.table.values[0] * scale.step, smallest);
      }
      if (range > 0) {
        const float narrower = map_table(f, static_cast<std::uint32_t>(range - 1)).values[0];
        EXPECT_GT(narrower * scale.step * kStickyRoom, smallest);
      }
      if (mode == StepMode::kMoving) continue;
      for (float& v : x) {
        const std::uint32_t code =
            encode_value(f, scale.table, c.rounding, v, scale.step, random() & 0xFFFFU);
        v = decode_code(f, scale.table, code, scale.step);
      }
      const auto [stored_largest, stored_smallest] = ends();
      EXPECT_EQ(next_range(c, whole, stored_largest, stored_smallest, word), word)
          << to_string(f) << " range " << range;
      EXPECT_NE(next_range(c, whole, 1.01F * scale.step, stored_smallest, word), word);
      EXPECT_EQ(next_range(c, whole, 0.0F, 0.0F, word), 0);
    }
  }
}

// The widest that a range can be for its block: the smallest value lies just below the end of the range
// before, and is rounded up.
TEST(Steps, ARangeStaysWhereItsSmallestValueIsRoundedUp) {
  for (const Format f : log_formats()) {
    const Codec c = codec_of(f, 128, Rounding::kStochastic, StepMode::kSticky);
    const MapTable whole = map_table(f);
    const float largest = 0.9F;
    const float step = scale_of(f, whole, next_range(c, whole, largest, largest, 0)).step;
    for (std::uint32_t range = 1; range < kRanges; ++range) {
      const float narrower = map_table(f, range - 1).values[0] * (step * kStickyRoom);
      const float smallest = std::nextafter(narrower, 0.0F);
      const std::uint16_t word = next_range(c, whole, largest, smallest, 0);
      EXPECT_EQ(range_of(word), static_cast<int>(range)) << to_string(f);
      const Scale scale = scale_of(f, whole, word);
      const auto stored = [&](float x, std::uint32_t draw) {
        const std::uint32_t code = encode_value(f, scale.table, c.rounding, x, scale.step, draw);
        return decode_code(f, scale.table, code, scale.step);
      };
      for (const std::uint32_t draw : {0U, 0xFFFFU}) {
        EXPECT_EQ(next_range(c, whole, stored(largest, 0xFFFFU - draw), stored(smallest, draw), word), word)
            << to_string(f) << " range " << range;
      }
    }
  }
}

TEST(Steps, WordsThatNoBlockHasAreNone) {
  const Format log = {Map::kLog, 4}, plain = {Map::kLinear, 8};
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto word = static_cast<std::uint16_t>(bits);
    const std::uint32_t exponent = bits >> 7 & 0xFFU;
    EXPECT_EQ(is_step(plain, word), word == 0 || (bits < 0x8000U && exponent >= 27 && exponent < 255))
        << bits;
    EXPECT_EQ(is_step(log, word), word == 0 || (exponent >= 47 && exponent < 255)) << bits;
  }
  // The ends of what can be written.
  const Codec c = codec_of(log, 128, Rounding::kStochastic, StepMode::kMoving);
  const std::uint16_t least = next_range(c, map_table(log), 1e-44F, 1e-44F, 0);
  const std::uint16_t most = next_range(c, map_table(log), kMaxMagnitude, 1e-44F, 0);
  EXPECT_TRUE(is_step(log, least) && is_step(log, most));
  EXPECT_EQ(scale_of(log, map_table(log), least).step, kMinRangedStep);
  EXPECT_EQ(scale_of(log, map_table(log), most).step, kMaxMagnitude);
  EXPECT_EQ(range_of(least), kRanges - 1);
}

TEST(Planes, RoundTripAndKeepNeighbours) {
  for (int bits = 2; bits <= 16; ++bits) {
    const Format f = {Map::kLinear, static_cast<std::uint8_t>(bits)};
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(code_bytes(f, 256)));
    std::vector<std::uint32_t> codes(256);
    std::mt19937 generator(static_cast<unsigned>(bits));
    for (std::uint32_t pass = 0; pass < 2; ++pass) {
      for (std::size_t i = 0; i < 256; ++i) {
        codes[i] = static_cast<std::uint32_t>(generator()) & ((1U << bits) - 1U);
        store_code(bytes.data(), f, static_cast<std::int64_t>(i), codes[i]);
      }
    }
    for (std::size_t i = 0; i < 256; ++i) {
      EXPECT_EQ(load_code(bytes.data(), f, static_cast<std::int64_t>(i)), codes[i]) << bits;
    }
  }
}

}  // namespace
}  // namespace lpmm::kernels
