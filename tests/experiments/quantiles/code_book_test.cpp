// Code books of quantiles: their levels, their errors against the gates of the first public ones, and what is
// wrong with those.
#include "experiments/quantiles/code_book.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "experiments/quantiles/error_sums.h"
#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/spec.h"
#include "tests/normal_values.h"

namespace lpmm {
namespace {

constexpr std::int64_t kCount = 1 << 20;

std::vector<float> uniform_values() {
  std::mt19937 random(5);
  std::vector<float> values(kCount);
  for (float& v : values) v = std::uniform_real_distribution<float>()(random);
  return values;
}
PanelSource panel(const std::vector<float>& values) {
  return [&values](const PanelVisitor& visit) { visit(values.data(), std::ssize(values)); };
}

// Errors of what levels store, as they are or over each block's step.
ErrorSums errors(const std::vector<float>& x, const Levels& levels, std::int64_t block = 0) {
  std::vector<float> relative = x;
  std::vector<std::uint16_t> steps;
  if (block > 0) steps = relative_to_steps(x, block, relative);
  ErrorSums sums{.tail = 3};
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float step = block > 0 ? bf16_to_float(steps[i / static_cast<std::size_t>(block)]) : 1.0F;
    sums.add(x[i], levels[nearest_level(levels, relative[i])] * step);
  }
  return sums;
}
Levels book_of(const std::vector<float>& x, std::int64_t block, int bits, bool is_signed) {
  CpuDevice device(1);
  std::vector<float> relative(x.size());
  (void)relative_to_steps(x, block, relative);
  return quantile_levels(device, panel(relative), bits, is_signed);
}

TEST(CodeBook, TheNearestLevelIsFoundAndTiesGoAwayFromZero) {
  const Levels levels = {-1, -0.5, 0, 0.25, 1};
  for (const auto& [value, place] : std::vector<std::pair<float, std::size_t>>{
           {-9, 0}, {-0.75, 0}, {-0.74, 1}, {0, 2}, {0.125, 3}, {0.124, 2}, {0.625, 4}, {1, 4}, {7, 4}}) {
    EXPECT_EQ(nearest_level(levels, value), place) << value;
  }
}

TEST(CodeBook, FormatsHaveTheirLevels) {
  EXPECT_EQ(levels_of({Map::kLinear, 3}), (Levels{-1, -2.0F / 3, -1.0F / 3, 0, 1.0F / 3, 2.0F / 3, 1}));
  EXPECT_EQ(levels_of({Map::kLinearNoZero, 2}), (Levels{0.25, 0.5, 0.75, 1}));
  for (const Format f : all_formats()) {
    if (!is_packed(f)) continue;
    const Levels levels = levels_of(f);
    EXPECT_TRUE(std::is_sorted(levels.begin(), levels.end())) << to_string(f);
    EXPECT_EQ(levels.back(), 1.0F);
  }
}

TEST(CodeBook, CodesOfUniformValuesAreUsedEquallyOften) {
  const std::vector<float> x = uniform_values();
  for (const int bits : {2, 4, 8}) {
    const Levels levels = book_of(x, 4096, bits, false);
    const double codes = std::ldexp(1, bits) - 1;
    ASSERT_EQ(levels.size(), std::size_t{1} << bits);
    EXPECT_TRUE(std::is_sorted(levels.begin(), levels.end()));
    std::vector<double> used(levels.size());
    for (const float v : x) ++used[nearest_level(levels, v)];
    for (std::size_t i = 0; i + 2 < levels.size(); ++i) {  // the last is 1, beside a level of values
      EXPECT_NEAR(levels[i], (static_cast<double>(i) + 0.5) / codes, 2e-3) << bits;
      EXPECT_NEAR(used[i] * codes / kCount, 1, 0.1) << bits << " bits, code " << i;
    }
    EXPECT_EQ(levels.back(), 1.0F);
  }
}

TEST(CodeBook, EndsAreForcedAndWithoutSignThereIsNoZero) {
  const std::vector<float> x = normal_values(kCount, 3);
  const Levels levels = book_of(x, 2048, 4, true);
  EXPECT_EQ(levels.front(), -1.0F);
  EXPECT_EQ(levels.back(), 1.0F);
  EXPECT_EQ(levels.size(), 16);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(levels[i], -levels[15 - i], 2e-3) << i;
  std::vector<float> half_zeros = normal_values(8192, 3, 1, true);
  for (std::size_t i = 0; i < half_zeros.size(); i += 2) half_zeros[i] = 0;
  for (const float level : book_of(half_zeros, 64, 8, false)) EXPECT_GT(level, 0.0F);
  EXPECT_EQ(book_of(std::vector<float>(100, 0.0F), 64, 2, true), Levels(4, 1.0F));
}

TEST(CodeBook, ValuesAreTakenRelativeToTheirBlocks) {
  const std::vector<float> x = {0.5F, -2, 1, 0, 0, 0, 3};
  std::vector<float> relative(x.size());
  const std::vector<std::uint16_t> steps = relative_to_steps(x, 3, relative);
  EXPECT_EQ(steps, (std::vector<std::uint16_t>{float_to_bf16(2), 0, float_to_bf16(3)}));
  EXPECT_EQ(relative[0], 0.25F);
  EXPECT_EQ(relative[1], -1.0F);
  EXPECT_TRUE(std::isnan(relative[4]));
  EXPECT_EQ(relative[6], 1.0F);
}

// The gates of the tests that the first public implementation had (2021), with raw quantiles as it took them.
TEST(CodeBook, ErrorsPassTheHistoricGates) {
  CpuDevice device(1);
  const std::vector<float> bell = normal_values(kCount, 1), uniform = uniform_values();
  const Levels of_bell = raw_quantile_levels(device, panel(bell), kRawOffset);
  const Levels of_uniform = raw_quantile_levels(device, panel(uniform), kRawOffset);
  EXPECT_LT(errors(bell, of_bell).mean(), 0.0075);
  EXPECT_LT(errors(uniform, of_uniform).mean(), 0.001);
  EXPECT_LT(errors(uniform, of_uniform).largest, 5e-3);
  EXPECT_LT(errors(bell, book_of(bell, 2048, 8, true), 2048).mean(), 0.0075);
  EXPECT_LT(errors(uniform, book_of(uniform, 2048, 8, false), 2048).mean(), 0.001);
  EXPECT_LT(errors(uniform, book_of(uniform, 2048, 8, false), 2048).largest, 5e-3);
  const Levels dynamic = levels_of({Map::kDynamic, 8});
  EXPECT_LT(errors(bell, dynamic, kCount).mean(), 0.0135);
  EXPECT_LT(errors(uniform, dynamic, kCount).mean(), 0.004);
  EXPECT_LT(errors(uniform, dynamic, kCount).largest, 1e-2);
}

// Lower mean error than the dynamic map, and bad tails; soft8 beats it in both.
TEST(CodeBook, TheAuthorsVerdictHolds) {
  CpuDevice device(1);
  const std::vector<float> x = normal_values(kCount, 2);
  const ErrorSums raw = errors(x, raw_quantile_levels(device, panel(x), kRawOffset));
  const ErrorSums ours = errors(x, book_of(x, 2048, 8, true), 2048);
  const ErrorSums dynamic = errors(x, levels_of({Map::kDynamic, 8}), kCount);
  const ErrorSums soft = errors(x, levels_of({Map::kSoftsign, 8}), 2048);
  EXPECT_LT(raw.mean(), 0.6 * dynamic.mean());
  EXPECT_GT(raw.tail_mean(), 15 * dynamic.tail_mean());
  EXPECT_LT(ours.mean(), raw.mean());
  EXPECT_LT(ours.tail_mean(), 0.5 * raw.tail_mean());
  EXPECT_LT(soft.mean(), ours.mean());
  EXPECT_LT(soft.tail_mean(), 0.2 * ours.tail_mean());
}

TEST(CodeBook, BitsandbytesMapHasItsFaults) {
  CpuDevice device(1);
  std::vector<float> x = normal_values(kCount, 2);
  const Levels raw = raw_quantile_levels(device, panel(x), 1.0 / 510);
  const Levels map = bitsandbytes_levels(device, panel(x));
  const float outermost = std::max(-raw.front(), raw.back());
  EXPECT_EQ(map.size(), 256);
  EXPECT_EQ(std::count(map.begin(), map.end(), 0.0F), 1);
  EXPECT_EQ(map[254], raw[253] / outermost);  // nothing is left of raw's 254, and a 0 came in below
  EXPECT_EQ(map[255], raw[255] / outermost);
  EXPECT_EQ(std::max(-map.front(), map.back()), 1.0F);
  x[17] = 100;  // the map does not see the tensor's largest magnitude
  EXPECT_NEAR(bitsandbytes_levels(device, panel(x))[200], map[200], 1e-4);
}

TEST(CodeBook, NamesAreReadAndWrongOnesAreExplained) {
  EXPECT_EQ(to_string(parse_code_book("quantile8")), "quantile8:block128:rn");
  EXPECT_EQ(to_string(parse_code_book("uquantile4:rn:block2048")), "uquantile4:block2048:rn");
  EXPECT_FALSE(names_code_book("int8"));
  EXPECT_DOUBLE_EQ(bits_per_element(parse_code_book("quantile4:block64"), 6400),
                   4 + 16.0 / 64 + 512.0 / 6400);
  for (const char* bad :
       {"quantile", "quantile1", "quantile9", "quantile8x", "quantile8:block100", "quantile8:block",
        "quantile8:sr", "quantile8:block64:sticky", "quantile8:", "uquantile", "quantile8::rn"}) {
    try {
      (void)parse_code_book(bad);
      FAIL() << bad;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find("uquantileN"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace lpmm
