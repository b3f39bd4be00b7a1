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
  for (const Role role : kEveryRole) {
    for (const std::uint32_t m : {0U, 1U, 16383U}) {
      for (const std::uint32_t c : {0U, 1U, 16383U}) streams.insert(noise_stream(role, m, c));
    }
  }
  EXPECT_EQ(streams.size(), 9U * kRoles);
  for (const std::uint32_t s : streams) EXPECT_LT(s & 15U, kRoles);
}

constexpr std::int64_t kDraws = 1 << 16;

double uniform(const Noise& n, std::int64_t e) {
  return noise_uniform(rounding_draw(n, e));
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

// The draws of a line with fewer bits: words of `word` bits, 2^`lane` lanes, draws of `draw` bits.
int small_draw(int word, int draw, int slope, int start, int lane) {
  return ((slope * lane + start) & ((1 << word) - 1)) >> (word - draw);
}

// Over all lines of a small generator, how often the commonest and the rarest pair of draws comes up.
std::pair<int, int> extreme_pairs(int word, int lane_bits, int draw_bits) {
  int least = 1 << 30, most = 0;
  for (int i = 0; i < 1 << lane_bits; ++i) {
    for (int j = i + 1; j < 1 << lane_bits; ++j) {
      std::vector<int> counts(std::size_t{1} << (2 * draw_bits));
      for (int slope = 0; slope < 1 << word; ++slope) {
        for (int start = 0; start < 1 << word; ++start) {
          const int a = small_draw(word, draw_bits, slope, start, i);
          const int b = small_draw(word, draw_bits, slope, start, j);
          ++counts[static_cast<std::size_t>(a << draw_bits | b)];
        }
      }
      const auto [low, high] = std::minmax_element(counts.begin(), counts.end());
      least = std::min(least, *low);
      most = std::max(most, *high);
    }
  }
  return {least, most};
}

// Exactly, and with no bit to spare: two draws are independent where a word has the bits of a lane and of a
// draw, less one (theory/README.md 1.7). Rounding has 32 >= 7 + 16 - 1.
TEST(Noise, PairsOfALineAreIndependent) {
  for (const auto& [lane_bits, draw_bits] : {std::pair{2, 4}, {3, 3}, {3, 2}, {4, 1}}) {
    for (const int spare : {0, 1}) {
      const int word = lane_bits + draw_bits - 1 + spare;
      const int each = 1 << (2 * word - 2 * draw_bits);
      EXPECT_EQ(extreme_pairs(word, lane_bits, draw_bits), (std::pair{each, each})) << lane_bits << draw_bits;
    }
    const auto [least, most] = extreme_pairs(lane_bits + draw_bits - 2, lane_bits, draw_bits);
    EXPECT_LT(least, most) << "one bit too few";
  }
}

// Chi-square of counts that should be equal, in standard deviations from its mean.
double unevenness(const std::vector<int>& counts, double expected) {
  double chi_square = 0;
  for (const int count : counts) chi_square += (count - expected) * (count - expected) / expected;
  const double freedom = static_cast<double>(counts.size()) - 1;
  return (chi_square - freedom) / std::sqrt(2 * freedom);
}

TEST(Noise, EveryLaneIsUniform) {
  constexpr std::uint32_t kGroups = 1 << 15;
  std::vector<std::vector<int>> counts(kGroup, std::vector<int>(256));
  for (std::uint32_t g = 0; g < kGroups; ++g) {
    const NoiseLine line = noise_line({11, 2, 3, noise_stream(Role::kParameter)}, g);
    for (std::uint32_t lane = 0; lane < kGroup; ++lane) ++counts[lane][line.draw(lane) >> 8];
  }
  for (std::size_t lane = 0; lane < kGroup; ++lane) {
    EXPECT_LT(std::abs(unevenness(counts[lane], kGroups / 256.0)), 5) << lane;
  }
}

// All 8,128 pairs of lanes, over lines that differ in what `line` makes of their number.
template <class Line>
double worst_pair(const Line& line) {
  constexpr std::uint32_t kLines = 1 << 13;
  std::vector<std::uint8_t> draws(kLines * kGroup);  // lane by lane, the top 4 bits
  for (std::uint32_t k = 0; k < kLines; ++k) {
    const NoiseLine of = line(k);
    for (std::uint32_t lane = 0; lane < kGroup; ++lane) {
      draws[lane * kLines + k] = static_cast<std::uint8_t>(of.draw(lane) >> 12);
    }
  }
  double worst = 0;
  for (std::uint32_t a = 0; a < kGroup; ++a) {
    for (std::uint32_t b = a + 1; b < kGroup; ++b) {
      std::vector<int> counts(256);
      for (std::uint32_t k = 0; k < kLines; ++k) {
        ++counts[static_cast<std::size_t>(draws[a * kLines + k] << 4 | draws[b * kLines + k])];
      }
      worst = std::max(worst, unevenness(counts, kLines / 256.0));
    }
  }
  return worst;
}

TEST(Noise, EveryPairOfLanesIsUniform) {
  const std::uint32_t stream = noise_stream(Role::kMomentum);
  EXPECT_LT(worst_pair([&](std::uint32_t k) { return noise_line({11, 2, 3, stream}, k); }), 6) << "groups";
  EXPECT_LT(worst_pair([&](std::uint32_t k) { return noise_line({11, k, 3, stream}, 5); }), 6) << "tensors";
  EXPECT_LT(worst_pair([&](std::uint32_t k) { return noise_line({11, 2, k, stream}, 5); }), 6) << "steps";
  EXPECT_LT(worst_pair([&](std::uint32_t k) {
              return noise_line({11, 2, 3, noise_stream(Role::kAccumulator, k, k / 64)}, 5);
            }),
            6)
      << "streams";
  // A slope of too few bits is found out.
  EXPECT_GT(worst_pair([&](std::uint32_t k) {
              NoiseLine line = noise_line({11, 2, 3, stream}, k);
              line.slope &= 0xFFFFFU;
              return line;
            }),
            100);
}

// A property that a line lacks: two draws leave the third, as far from the second as that from the first, at
// most two values of 2^16. The sum of a group's errors has the variance of independent ones, and other tails.
TEST(Noise, ThreeDrawsOfALineAreNotIndependent) {
  std::set<std::uint32_t> thirds;
  for (std::uint32_t g = 0; g < 4096; ++g) {
    const NoiseLine line = noise_line({11, 2, 3, 4}, g);
    for (std::uint32_t lane = 0; lane + 2 < kGroup; ++lane) {
      thirds.insert((line.draw(lane + 2) - 2 * line.draw(lane + 1) + line.draw(lane)) & 0xFFFFU);
    }
  }
  EXPECT_EQ(thirds, (std::set<std::uint32_t>{0, 1, 0xFFFF}));

  double square = 0, fourth = 0;
  constexpr std::uint32_t kGroups = 1 << 14;
  for (std::uint32_t g = 0; g < kGroups; ++g) {
    const NoiseLine line = noise_line({11, 2, 3, 4}, g);
    double sum = 0;
    for (std::uint32_t lane = 0; lane < kGroup; ++lane) sum += noise_uniform(line.draw(lane)) - 0.5;
    square += sum * sum / kGroups;
    fourth += std::pow(sum, 4) / kGroups;
  }
  EXPECT_NEAR(square / (kGroup / 12.0), 1, 0.2);
  EXPECT_GT(fourth / (square * square), 6) << "3 for a normal sum";
}

// The share of an element's draws in T steps that fall in an interval is its length to within O(log T) / T;
// for independent draws, to within O(1 / sqrt(T)).
TEST(Noise, QuasiDrawsOfAnElementFillTheIntervalEvenly) {
  constexpr std::uint32_t kSteps = 1000;
  for (const Role role : kEveryRole) {
    if (role == Role::kAccumulator) continue;  // its draws count microbatches
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
      EXPECT_EQ(rounding_draw(n, e), (rounding_draw(first, e) + m * kWeylStep) % 65536);
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
  for (const std::int64_t shift : {128, 256, 4096}) {
    EXPECT_LT(std::abs(correlation(base, shift)), bound) << "elements " << shift << " apart";
  }
  // Within a line all products share its slope: as many independent means as there are lines.
  const double line_bound = 4 * std::sqrt(0.2 * kGroup / kDraws);
  for (const std::int64_t shift : {1, 2, 15, 16, 17, 32, 64, 127}) {
    EXPECT_LT(std::abs(correlation(base, shift)), line_bound) << "elements " << shift << " apart";
  }
  EXPECT_GT(correlation(base, 0), 0.9);
}

}  // namespace
}  // namespace lpmm
