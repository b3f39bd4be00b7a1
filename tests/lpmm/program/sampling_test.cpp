#include "lpmm/program/generate/sampling.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "lpmm/base/error.h"

namespace lpmm {
namespace {

const std::vector<float> kLogits = {0.0F, 2.0F, -1.0F, 2.0F, 1.0F};

std::array<int, 5> counts(const SamplingOptions& options, int draws) {
  std::array<int, 5> seen = {};
  for (int i = 0; i < draws; ++i) ++seen[static_cast<std::size_t>(sample_token(kLogits, options, i))];
  return seen;
}

TEST(Sampling, SharesAreTheSoftmax) {
  for (const double temperature : {0.5, 1.0, 3.0}) {
    double sum = 0;
    for (const float x : kLogits) sum += std::exp(x / temperature);
    const auto seen = counts({temperature, 0, 1, 7}, 40000);
    for (std::size_t i = 0; i < 5; ++i) {
      const double p = std::exp(kLogits[i] / temperature) / sum;
      EXPECT_NEAR(seen[i] / 40000.0, p, 5 * std::sqrt(p / 40000)) << temperature << " " << i;
    }
  }
}

TEST(Sampling, TemperatureZeroTakesTheFirstOfTheMostLikely) {
  for (int i = 0; i < 20; ++i) EXPECT_EQ(sample_token(kLogits, {0, 0, 1, 1}, i), 1);
}

TEST(Sampling, TopKAndTopPLeaveTheRestOut) {
  const auto three = counts({1, 3, 1, 2}, 4000);
  EXPECT_EQ(three[0] + three[2], 0);
  EXPECT_GT(std::min({three[1], three[3], three[4]}), 300);
  // The two most likely reach 0.7 of the probability together, not one alone.
  const auto two = counts({1, 0, 0.7, 2}, 4000);
  EXPECT_EQ(two[0] + two[2] + two[4], 0);
  EXPECT_GT(std::min(two[1], two[3]), 1500);
  EXPECT_EQ(counts({1, 0, 0, 2}, 100)[1], 100);
}

TEST(Sampling, SeedAndPositionKeyTheDraw) {
  std::vector<int> a, b, c;
  for (int i = 0; i < 50; ++i) {
    a.push_back(sample_token(kLogits, {1, 0, 1, 3}, i));
    b.push_back(sample_token(kLogits, {1, 0, 1, 3}, i));
    c.push_back(sample_token(kLogits, {1, 0, 1, 4}, i));
  }
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
}

TEST(Sampling, NanIsAnError) {
  EXPECT_THROW(sample_token(std::vector<float>{1, std::nanf("")}, {}, 0), RunError);
}

}  // namespace
}  // namespace lpmm
