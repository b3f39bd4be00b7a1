#include "kernels/noise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <vector>

namespace lpmm {
namespace {

// Known answers of Random123 (kat_vectors, philox4x32 10 rounds).
TEST(Noise, PhiloxKnownAnswers) {
  struct Answer {
    PhiloxWords counter;
    std::uint32_t k0, k1;
    PhiloxWords words;
  };
  const Answer answers[] = {
      {{{0, 0, 0, 0}}, 0, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
      {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
       0xffffffff,
       0xffffffff,
       {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
      {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
       0xa4093822,
       0x299f31d0,
       {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
  };
  for (const Answer& a : answers) {
    const PhiloxWords w = philox4x32_10(a.counter, a.k0, a.k1);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(w.x[i], a.words.x[i]);
  }
}

TEST(Noise, StreamsOfRolesMicrobatchesAndContributionsDiffer) {
  std::set<std::uint32_t> streams;
  for (const Role role : {Role::kParameter, Role::kAccumulator, Role::kMomentum, Role::kVariance}) {
    for (const std::uint32_t m : {0U, 1U, 16383U}) {
      for (const std::uint32_t c : {0U, 1U, 16383U}) streams.insert(noise_stream(role, m, c));
    }
  }
  EXPECT_EQ(streams.size(), 36U);
  for (const std::uint32_t s : streams) EXPECT_LT(s & 15U, 4U);
}

constexpr std::int64_t kDraws = 1 << 16;

double uniform(const Noise& n, std::int64_t e) {
  return noise_uniform(noise_draw(n, e));
}

// Moments of U(0,1) and no correlation with anything a draw could be mistaken for.
TEST(Noise, IsUniform) {
  const Noise n = {11, 2, 3, 4};
  double mean = 0, square = 0;
  for (std::int64_t e = 0; e < kDraws; ++e) {
    mean += uniform(n, e) - 0.5;
    square += std::pow(uniform(n, e) - 0.5, 2) - 1.0 / 12.0;
  }
  const double root = std::sqrt(static_cast<double>(kDraws));
  EXPECT_LT(std::abs(mean / kDraws), 4 * std::sqrt(1.0 / 12.0) / root);
  EXPECT_LT(std::abs(square / kDraws), 4 * std::sqrt(1.0 / 180.0) / root);
}

// Of the draws that an element takes in T steps, the share in an interval is its length to within O(log T) /
// T; of independent ones, to within a root.
TEST(Noise, QuasiDrawsOfAnElementFillTheIntervalEvenly) {
  constexpr std::uint32_t kSteps = 1000;
  for (const Role role : {Role::kParameter, Role::kMomentum, Role::kVariance}) {
    for (std::int64_t e = 0; e < 40; ++e) {
      for (const double share : {0.01, 0.1, 0.3, 0.5, 0.9}) {
        double high = 0, low = 0;
        for (std::uint32_t t = 0; t < kSteps; ++t) {
          const double u = uniform(quasi_noise({11, 2, t, noise_stream(role)}), 97 * e);
          high += u >= 1 - share ? 1 : 0;
          low += u < share ? 1 : 0;
        }
        EXPECT_NEAR(high, share * kSteps, 3) << "element " << e << " share " << share;
        EXPECT_NEAR(low, share * kSteps, 3) << "element " << e << " share " << share;
      }
    }
  }
}

// The discrepancy D(T) of theory/README.md 1.6: T times the largest difference between the share of draws in
// an interval, wherever it starts, and its length. 48,220 is where it is largest of all T up to the period.
TEST(Noise, WeylStepLeavesNoStretchUneven) {
  for (const std::uint32_t steps :
       {3U, 10U, 31U, 100U, 317U, 1000U, 3001U, 10000U, 20138U, 30000U, 48220U, 65535U}) {
    std::vector<double> draws;
    for (std::uint32_t t = 0; t < steps; ++t) draws.push_back(t * kWeylStep % 65536 / 65536.0);
    std::sort(draws.begin(), draws.end());
    double most = 0, fewest = 0;  // draws below a bound, above and below their share
    for (std::size_t i = 0; i < draws.size(); ++i) {
      const double expected = steps * draws[i], below = static_cast<double>(i);
      most = std::max(most, below + 1 - expected);
      fewest = std::max(fewest, expected - below);
    }
    EXPECT_LT(most + fewest, 6.3) << steps;
  }
}

// Microbatches of a step are a sequence, steps are independent: the accumulator starts afresh.
TEST(Noise, QuasiDrawsOfTheAccumulatorCountMicrobatches) {
  for (std::uint32_t m = 0; m < 70; ++m) {
    const Noise n = quasi_noise({11, 2, 5, noise_stream(Role::kAccumulator, m, 3)});
    const Noise first = {11, 2, 5, noise_stream(Role::kAccumulator, 0, 3)};
    for (std::int64_t e = 0; e < 300; ++e) {
      EXPECT_EQ(noise_draw(n, e), (noise_draw(first, e) + m * kWeylStep) % 65536);
    }
  }
  const Noise next = quasi_noise({11, 2, 6, noise_stream(Role::kAccumulator, 0, 3)});
  EXPECT_EQ(next.step, 6U);
  EXPECT_EQ(next.shift, 0U);
}

// Over elements every step's draws are as uniform as those of sr.
TEST(Noise, QuasiDrawsOfAStepAreUniformOverElements) {
  for (const std::uint32_t t : {0U, 1U, 2U, 1000U}) {
    const Noise n = quasi_noise({11, 2, t, noise_stream(Role::kParameter)});
    double mean = 0;
    for (std::int64_t e = 0; e < kDraws; ++e) mean += uniform(n, e) - 0.5;
    EXPECT_LT(std::abs(mean / kDraws), 4 * std::sqrt(1.0 / 12.0 / kDraws)) << t;
  }
}

TEST(Noise, IsUncorrelatedAcrossEverythingItIsKeyedBy) {
  const Noise base = {11, 2, 3, noise_stream(Role::kParameter, 1, 1)};
  const auto with = [&](auto change) {
    Noise n = base;
    change(n);
    return n;
  };
  const std::pair<const char*, Noise> others[] = {
      {"seed", with([](Noise& n) { n.seed += 1; })},
      {"high half of the seed", with([](Noise& n) { n.seed += std::uint64_t{1} << 32; })},
      {"tensor", with([](Noise& n) { n.tensor += 1; })},
      {"step", with([](Noise& n) { n.step += 1; })},
      {"role", with([](Noise& n) { n.stream = noise_stream(Role::kMomentum, 1, 1); })},
      {"microbatch", with([](Noise& n) { n.stream = noise_stream(Role::kParameter, 2, 1); })},
      {"contribution", with([](Noise& n) { n.stream = noise_stream(Role::kParameter, 1, 2); })},
  };
  const auto correlation = [&](const Noise& b, std::int64_t shift) {
    double sum = 0;
    for (std::int64_t e = 0; e < kDraws; ++e) sum += (uniform(base, e) - 0.5) * (uniform(b, e + shift) - 0.5);
    return 12.0 * sum / kDraws;
  };
  const double bound = 4 / std::sqrt(static_cast<double>(kDraws));
  for (const auto& [what, n] : others) EXPECT_LT(std::abs(correlation(n, 0)), bound) << what;
  for (const std::int64_t shift : {1, 2, 15, 16, 17, 32, 64, 127, 128, 4096}) {
    EXPECT_LT(std::abs(correlation(base, shift)), bound) << "elements " << shift << " apart";
  }
  EXPECT_GT(correlation(base, 0), 0.9);
}

}  // namespace
}  // namespace lpmm
