#include "lpmm/program/generate/sampling.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lpmm/base/error.h"
#include "lpmm/program/generate/stop_strings.h"

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

TEST(Sampling, CandidatesAreThoseOfTransformers) {
  std::ifstream file(LPMM_SOURCE_DIR "/tests/golden/sampling.json");
  const auto golden = nlohmann::json::parse(file);
  ASSERT_EQ(golden["cases"].size(), 39U);
  for (const auto& c : golden["cases"]) {
    const SamplingOptions options{.temperature = c.value("temperature", 1.0),
                                  .top_k = c.value("top_k", std::int64_t{0}),
                                  .top_p = c.value("top_p", 1.0),
                                  .seed = 1,
                                  .min_p = c.value("min_p", 0.0),
                                  .repetition_penalty = c.value("repetition_penalty", 1.0)};
    const auto drawn = candidates(c["logits"].get<std::vector<float>>(), options,
                                  c["before"].get<std::vector<std::int32_t>>());
    const auto probabilities = c["probabilities"].get<std::vector<double>>();
    ASSERT_EQ(drawn.size(), probabilities.size()) << c;
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      EXPECT_EQ(drawn[i].id, c["ids"][i]) << c;
      EXPECT_NEAR(drawn[i].probability, probabilities[i], 2e-6) << c;  // theirs are computed in fp32
    }
  }
}

TEST(Sampling, ThePenaltyHoldsForTheMostLikelyTokenToo) {
  EXPECT_EQ(sample_token(kLogits, {.temperature = 0, .repetition_penalty = 3}, 0, std::vector{1, 1}), 3);
  EXPECT_EQ(sample_token(kLogits, {.temperature = 0, .repetition_penalty = 3}, 0, std::vector{1, 3, 99}), 4);
}

TEST(Sampling, ImpossibleValuesAreNamed) {
  const auto why = [](const SamplingOptions& options) {
    try {
      check_sampling(options);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(why({}), "");
  EXPECT_EQ(why({.temperature = std::nan("")}), "temperature is nan; it is a number from 0 to 1000000");
  EXPECT_EQ(why({.top_k = -1}), "top_k is -1; it is a number of tokens, or 0 for all");
  EXPECT_EQ(why({.top_p = 1.5}), "top_p is 1.5; it is a number from 0 to 1");
  EXPECT_EQ(why({.min_p = -0.5}), "min_p is -0.5; it is a number from 0 to 1");
  EXPECT_EQ(why({.repetition_penalty = 0}), "repetition_penalty is 0; it is a number from 0.001 to 1000");
}

TEST(StopStrings, EndATextInWhateverPiecesItComes) {
  const std::string text = "one\nUse: two\nUser: three";
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    StopStrings stops({"\nUser:", "", "never"});
    std::string out;
    for (std::size_t at = 0; at < text.size(); at += piece) out += stops.push(text.substr(at, piece));
    EXPECT_TRUE(stops.found());
    EXPECT_EQ(out + stops.finish(), "one\nUse: two") << piece;
  }
}

TEST(StopStrings, WhatOnlyBeginsOneComesOutAtTheEnd) {
  StopStrings stops({"abc", "bd"});
  EXPECT_EQ(stops.push("xab"), "x");
  EXPECT_EQ(stops.push("x"), "abx");
  EXPECT_EQ(stops.push("ab"), "");
  EXPECT_EQ(stops.finish(), "ab");
  EXPECT_FALSE(stops.found());
}

}  // namespace
}  // namespace lpmm
