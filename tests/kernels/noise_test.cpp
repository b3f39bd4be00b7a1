#include "kernels/noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

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
