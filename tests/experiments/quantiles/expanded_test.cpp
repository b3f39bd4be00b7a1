// COAT's dynamic range expansion: its published steps one by one, and what they are for.
#include "experiments/quantiles/expanded.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "experiments/quantiles/code_book.h"
#include "tests/normal_values.h"

namespace lpmm {
namespace {

// The group's values over the geometric mean of largest and smallest, raised, over a scale, as E4M3; and
// back.
std::vector<double> as_published(const std::vector<float>& x) {
  const Levels levels = levels_of({Map::kE4m3, 8});
  double most = 0, least = HUGE_VAL;
  for (const float v : x) {
    most = std::max(most, std::abs(double{v}));
    if (v != 0) least = std::min(least, std::abs(double{v}));
  }
  const double middle = std::sqrt(most * least);
  const double power = std::floor(16 * std::log2(448.0 * 448 / 2) / std::log2(most / least)) / 16;
  const double scale = std::pow(most / middle, power) / 448;
  std::vector<double> read;
  for (const float v : x) {
    const double raised = std::pow(std::abs(double{v}) / middle, power) / scale;
    const double code = 448.0 * levels[nearest_level(levels, static_cast<float>(raised / 448))];
    read.push_back(std::copysign(std::pow(code * scale, 1 / power) * middle, v));
  }
  return read;
}

TEST(Expanded, IsThePublishedFormula) {
  for (const float spread : {0.5F, 2.0F, 5.0F}) {
    std::vector<float> x = normal_values(128, 3, spread);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = (i % 2 == 0 ? 1e-6F : -1e-6F) * std::exp(x[i]);
    x[7] = 0;
    const std::vector<float> read = stored_expanded(x, 128);
    const std::vector<double> published = as_published(x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(read[i], published[i], 1e-6 * std::abs(published[i])) << spread << " " << x[i];
      EXPECT_EQ(read[i] == 0, x[i] == 0) << "the smallest is not lost";
    }
  }
}

// Values of 30 octaves, of which E4M3 has 18: without the power the small ones are 0.
TEST(Expanded, KeepsValuesThatE4m3TakesForZeros) {
  std::vector<float> x;
  for (int i = 0; i < 64; ++i) x.push_back(std::ldexp(1.0F + 0.01F * static_cast<float>(i), -i / 2));
  const std::vector<float> read = stored_expanded(x, 64);
  const Levels levels = levels_of({Map::kE4m3, 8});
  EXPECT_EQ(levels[nearest_level(levels, x.back())], 0);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(read[i] / x[i], 1, 0.5) << i;
}

TEST(Expanded, BlocksOfOneSizeAndOfZerosAreExact) {
  std::vector<float> x(70, -0.3F);
  std::fill(x.begin() + 32, x.begin() + 64, 0.0F);
  EXPECT_EQ(stored_expanded(x, 32), x);
  EXPECT_EQ(expansion_power(0.3, 0.3), 1);
  EXPECT_DOUBLE_EQ(expansion_power(std::exp2(-900.0), 1), 1.0 / 16);
}

}  // namespace
}  // namespace lpmm
