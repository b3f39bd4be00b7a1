#include "experiments/sweep/statistics.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace lpmm {
namespace {

// Published tables; 1 and 2 degrees of freedom also have closed forms.
TEST(Statistics, QuantilesAreTheTables) {
  EXPECT_NEAR(student_t_quantile(0.95, 1), std::tan(0.45 * M_PI), 1e-10);
  EXPECT_NEAR(student_t_quantile(0.975, 1), std::tan(0.475 * M_PI), 1e-10);
  EXPECT_NEAR(student_t_quantile(0.95, 2), 0.9 / std::sqrt(2 * 0.95 * 0.05), 1e-11);
  EXPECT_NEAR(student_t_quantile(0.95, 4), 2.1318467863, 1e-9);
  EXPECT_NEAR(student_t_quantile(0.975, 4), 2.7764451052, 1e-9);
  EXPECT_NEAR(student_t_quantile(0.975, 9), 2.2621571628, 1e-9);
  EXPECT_NEAR(student_t_quantile(0.95, 30), 1.6972608866, 1e-9);
  EXPECT_NEAR(student_t_quantile(0.975, 10'000'000), 1.9599642, 1e-6);
  EXPECT_NEAR(student_t_quantile(0.5, 3), 0, 1e-12);
  EXPECT_DOUBLE_EQ(student_t_quantile(0.05, 7), -student_t_quantile(0.95, 7));
}

TEST(Statistics, BoundsOfAMean) {
  const std::array<double, 5> values = {0.1, 0.3, 0.2, 0.5, 0.4};
  const Mean mean = mean_of(values);
  EXPECT_EQ(mean.count, 5);
  EXPECT_NEAR(mean.mean, 0.3, 1e-15);
  EXPECT_NEAR(mean.deviation, std::sqrt(0.025), 1e-15);
  const MeanBounds bounds = bounds_95(mean);
  const double error = std::sqrt(0.025 / 5);
  EXPECT_NEAR(bounds.upper, 0.3 + 2.1318467863 * error, 1e-9);
  EXPECT_NEAR(bounds.low, 0.3 - 2.7764451052 * error, 1e-9);
  EXPECT_NEAR(bounds.high, 0.3 + 2.7764451052 * error, 1e-9);
}

TEST(Statistics, OneValueHasNoDeviation) {
  const std::array<double, 1> one = {7};
  EXPECT_EQ(mean_of(one).mean, 7);
  EXPECT_EQ(mean_of(one).deviation, 0);
  EXPECT_EQ(mean_of({}).count, 0);
}

}  // namespace
}  // namespace lpmm
