// Quantiles against sorting: what is exact to the bit, the estimate by tiles to the bit of its definition.
#include "kernels/formats/quantiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "kernels/cpu.h"
#include "tests/kernels/device_array.h"
#include "tests/kernels/support.h"

namespace lpmm::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();
const std::vector<double> kShares = {0.5, 0, 1.0 / 512, 0.01, 0.25, 0.25001, 0.9, 511.0 / 512, 1, 0.5};

// ---- by sorting ------------------------------------------------------------------------------------------
bool comes_before(float a, float b) {
  return a < b || (a == b && std::signbit(a) && !std::signbit(b));
}
std::vector<float> sorted_numbers(std::vector<float> values) {
  std::erase_if(values, [](float v) { return std::isnan(v); });
  std::sort(values.begin(), values.end(), comes_before);
  return values;
}
// The quantile of sorted numbers, as the header defines it.
double quantile_of(const std::vector<float>& sorted, double share) {
  const auto m = static_cast<double>(sorted.size());
  const double rank = std::clamp(share * (m + 1.0 / 3) - 2.0 / 3, 0.0, m - 1);
  const auto lower = static_cast<std::size_t>(rank);
  const double fraction = rank - std::floor(rank);
  const double a = sorted[lower], b = fraction > 0 ? sorted[lower + 1] : sorted[lower];
  if (std::isinf(a) || std::isinf(b)) return fraction > 0.5 ? b : a;
  return a == b ? a : a + fraction * (b - a);  // a sum of -0 and 0 would be 0
}
std::vector<float> by_sorting(const std::vector<float>& values) {
  const std::vector<float> sorted = sorted_numbers(values);
  std::vector<float> all;
  for (const double share : kShares) {
    all.push_back(sorted.empty() ? kNan : static_cast<float>(quantile_of(sorted, share)));
  }
  return all;
}
std::vector<float> cut_to_bf16(std::vector<float> values) {
  for (float& v : values) {
    if (!std::isnan(v)) v = bits_float(float_bits(v) & 0xFFFF0000U);
  }
  return values;
}
// The tree of kernels/sums.h: the left part is the largest power of 2 that leaves something.
double tree(const std::vector<double>& leaves, std::size_t first, std::size_t count) {
  if (count == 1) return leaves[first];
  std::size_t left = 1;
  while (2 * left < count) left *= 2;
  return tree(leaves, first, left) + tree(leaves, first + left, count - left);
}
std::vector<float> by_sorted_tiles(const std::vector<float>& values) {
  std::vector<float> all;
  for (const double share : kShares) {
    std::vector<double> sums, numbers;
    for (std::size_t at = 0; at < values.size(); at += kSortedTile) {
      const std::size_t end = std::min(values.size(), at + kSortedTile);
      const auto begin = values.begin();
      const std::vector<float> tile =
          sorted_numbers({begin + static_cast<std::ptrdiff_t>(at), begin + static_cast<std::ptrdiff_t>(end)});
      numbers.push_back(static_cast<double>(tile.size()));
      sums.push_back(tile.empty() ? 0 : quantile_of(tile, share) * numbers.back());
    }
    all.push_back(static_cast<float>(tree(sums, 0, sums.size()) / tree(numbers, 0, numbers.size())));
  }
  return all;
}

// ---- data ------------------------------------------------------------------------------------------------
struct Kind {
  const char* name;
  float (*value)(std::mt19937& random, std::int64_t i);
};
float normal(std::mt19937& random) {
  return std::normal_distribution<float>()(random);
}
const Kind kKinds[] = {
    {"normal", [](std::mt19937& r, std::int64_t) { return normal(r); }},
    {"constant", [](std::mt19937&, std::int64_t) { return -0.375F; }},
    {"ascending", [](std::mt19937&, std::int64_t i) { return static_cast<float>(i) * 0.001F - 1; }},
    {"descending", [](std::mt19937&, std::int64_t i) { return 1 - static_cast<float>(i) * 0.001F; }},
    {"few values, zeros of both signs",
     [](std::mt19937& r, std::int64_t) { return std::round(normal(r)) * 0.1F; }},
    {"denormal", [](std::mt19937& r, std::int64_t) { return normal(r) * 1e-40F; }},
    {"huge", [](std::mt19937& r, std::int64_t) { return std::clamp(normal(r), -3.F, 3.F) * 1e38F; }},
    {"all magnitudes",
     [](std::mt19937& r, std::int64_t) { return std::ldexp(normal(r), static_cast<int>(r() % 250) - 125); }},
    {"infinities", [](std::mt19937& r, std::int64_t) { return normal(r) > 0.68F ? kInfinity : normal(r); }},
    {"infinities of both signs",
     [](std::mt19937& r, std::int64_t i) {
       return i % 5000 > 4500 ? (i % 2 == 0 ? kInfinity : -kInfinity) : normal(r);
     }},
    {"NaN beside infinities",
     [](std::mt19937& r, std::int64_t) {
       const auto kind = static_cast<std::uint32_t>(r() % 8);  // bits differ in the last only
       return kind < 4 ? normal(r) : bits_float(0x7F800000U + (kind & 1U) + (kind << 30 & 0x80000000U));
     }},
    {"some are NaN",
     [](std::mt19937& r, std::int64_t) {
       return r() % 3 != 0 ? normal(r) : bits_float(0x7F800001U + static_cast<std::uint32_t>(r() % 2 << 31));
     }},
};
std::vector<float> make(const Kind& kind, std::int64_t count) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(kind.value(random, i));
  return values;
}
// Around the sizes of tiles; many of the first kind.
std::vector<std::int64_t> counts_of(const Kind& kind) {
  std::vector<std::int64_t> counts = {1, 2, 3, 7, 100, 257, 4095, 4096, 4097, 5000, 8191, 8193};
  if (&kind == kKinds) counts.insert(counts.end(), {(1 << 17) - 1, 1 << 17, (1 << 17) + 4097});
  return counts;
}

void expect_same(const std::vector<float>& a, const std::vector<float>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    EXPECT_EQ(float_bits(a[i]), float_bits(b[i])) << what << ", share " << i << ": " << a[i] << ", " << b[i];
  }
}

// ---- the definition --------------------------------------------------------------------------------------
TEST(QuantileKeys, AreOrderedAsValuesAreAndNanComesLast) {
  const std::vector<float> ascending = {-kInfinity, -1e38F, -1, -1e-38F, -1e-45F, -0.0F,    0.0F,
                                        1e-45F,     1e-38F, 1,  1.0001F, 3e38F,   kInfinity};
  for (std::size_t i = 0; i < ascending.size(); ++i) {
    if (i > 0) {
      EXPECT_LT(order_key(ascending[i - 1]), order_key(ascending[i])) << ascending[i];
    }
    EXPECT_EQ(float_bits(value_of_key(order_key(ascending[i]))), float_bits(ascending[i]));
  }
  for (const std::uint32_t nan : {0x7F800001U, 0x7FFFFFFFU, 0xFF800001U, 0xFFFFFFFFU}) {
    EXPECT_EQ(order_key(bits_float(nan)), kNanKey);
  }
  EXPECT_LT(order_key(kInfinity) >> 16, kNanKey >> 16);
}

TEST(QuantileRanks, AreThoseOfDefinitionEight) {
  EXPECT_EQ(rank_of_share(0.5, 1).lower, 0);
  EXPECT_EQ(rank_of_share(0, 10).lower, 0);
  EXPECT_EQ(rank_of_share(1, 10).lower, 9);
  EXPECT_EQ(rank_of_share(1, 10).fraction, 0);
  const RankOfShare middle = rank_of_share(0.5, 4);  // between the second and the third
  EXPECT_EQ(middle.lower, 1);
  EXPECT_NEAR(middle.fraction, 0.5, 1e-12);
  const RankOfShare quarter = rank_of_share(0.25, 9);  // 7/3 - 2/3
  EXPECT_EQ(quarter.lower, 1);
  EXPECT_NEAR(quarter.fraction, 2.0 / 3, 1e-12);
  EXPECT_EQ(between(-kInfinity, kInfinity, 0.5), -kInfinity);
  EXPECT_EQ(between(1, kInfinity, 0.51), kInfinity);
  EXPECT_EQ(between(kInfinity, kInfinity, 0.3), kInfinity);
}

// ---- every device ----------------------------------------------------------------------------------------
LPMM_DEVICE_SUITE(QuantilesOfDevice);

TEST_P(QuantilesOfDevice, ExactOnesAreThoseOfSorting) {
  for (const Kind& kind : kKinds) {
    for (const std::int64_t n : counts_of(kind)) {
      const std::vector<float> x = make(kind, n);
      const DeviceArray<float> there = array(x);
      const Quantiles exact = quantiles(device(), there.data(), n, kShares, QuantileMethod::kExact);
      expect_same(exact.values, by_sorting(x), std::string(kind.name) + " " + std::to_string(n));
      EXPECT_EQ(exact.numbers, std::ssize(sorted_numbers(x)));
    }
  }
}

TEST_P(QuantilesOfDevice, OnePassIsExactForValuesCutToBf16) {
  for (const Kind& kind : kKinds) {
    for (const std::int64_t n : {1, 4097, 70000}) {
      const std::vector<float> x = make(kind, n);
      const DeviceArray<float> there = array(x);
      const Quantiles cut = quantiles(device(), there.data(), n, kShares, QuantileMethod::kHistogram);
      expect_same(cut.values, by_sorting(cut_to_bf16(x)), std::string(kind.name) + " " + std::to_string(n));
    }
  }
}

TEST_P(QuantilesOfDevice, TilesAreAddedUpAsDefined) {
  for (const Kind& kind : kKinds) {
    for (const std::int64_t n : counts_of(kind)) {
      const std::vector<float> x = make(kind, n);
      const DeviceArray<float> there = array(x);
      const std::string what = std::string(kind.name) + " " + std::to_string(n);
      const Quantiles tiles = quantiles(device(), there.data(), n, kShares, QuantileMethod::kTiles);
      expect_same(tiles.values, by_sorted_tiles(x), what);
      EXPECT_EQ(tiles.numbers, std::ssize(sorted_numbers(x)));
      if (n <= kSortedTile) {  // up to two roundings, times the numbers and over them
        const std::vector<float> exact = by_sorting(x);
        for (std::size_t i = 0; i < exact.size(); ++i) {
          if (!std::isnan(exact[i])) {
            EXPECT_FLOAT_EQ(tiles.values[i], exact[i]) << what;
          }
        }
      }
    }
  }
}

TEST_P(QuantilesOfDevice, PanelsDoNotMatterAndNothingMayFollowAPartialOne) {
  const std::int64_t n = kQuantilePanel + 4099;
  std::vector<float> x = make(kKinds[0], n);
  for (std::size_t i = 0; i < x.size(); i += 3) x[i] = std::abs(x[i]);  // tiles of one panel are not alike
  const DeviceArray<float> there = array(x);
  const auto by = [&](std::int64_t panel) {
    return [&, panel](const PanelVisitor& visit) {
      for (std::int64_t at = 0; at < n; at += panel) visit(there.data() + at, std::min(panel, n - at));
    };
  };
  for (const auto method : {QuantileMethod::kTiles, QuantileMethod::kExact}) {
    const Quantiles whole = quantiles(device(), by(n), kShares, method);
    expect_same(quantiles(device(), by(kQuantilePanel), kShares, method).values, whole.values, "panels");
    EXPECT_EQ(whole.numbers, n);
    EXPECT_THROW((void)quantiles(device(), by(kQuantilePanel / 2 + 4096), kShares, method),
                 std::invalid_argument);
  }
  expect_same(quantiles(device(), by(n), kShares, QuantileMethod::kExact).values, by_sorting(x), "exact");
}

TEST_P(QuantilesOfDevice, WhereThereIsNoNumberThereIsNoQuantile) {
  const DeviceArray<float> there = array(std::vector<float>(5000, kNan));
  for (const auto method : {QuantileMethod::kTiles, QuantileMethod::kHistogram, QuantileMethod::kExact}) {
    for (const std::int64_t n : {0, 5000}) {
      const Quantiles none = quantiles(device(), there.data(), n, kShares, method);
      EXPECT_EQ(none.numbers, 0);
      ASSERT_EQ(none.values.size(), kShares.size());
      for (const float v : none.values) EXPECT_TRUE(std::isnan(v));
    }
    const std::vector<double> no_shares;
    EXPECT_TRUE(quantiles(device(), there.data(), 5, no_shares, method).values.empty());
    for (const double bad : {-0.01, 1.01, std::nan("")}) {
      EXPECT_THROW((void)quantiles(device(), there.data(), 5, std::vector<double>{bad}, method),
                   std::invalid_argument);
    }
    const std::vector<double> many(kMostShares + 1, 0.5);
    EXPECT_THROW((void)quantiles(device(), there.data(), 5, many, method), std::invalid_argument);
  }
}

class WithoutQuantiles final : public CpuDevice {
 public:
  WithoutQuantiles() : CpuDevice(1) {}
  void count_keys(std::int64_t count, const float* x, const KeyTree& tree, std::uint64_t* counts) override {
    QuantileKernels::count_keys(count, x, tree, counts);
  }
  void sum_tile_quantiles(const TileQuantiles& args) override { QuantileKernels::sum_tile_quantiles(args); }
};
TEST(Quantiles, MayBeLeftOutByADevice) {
  WithoutQuantiles device;
  const std::vector<float> x = make(kKinds[0], 100);
  for (const auto method : {QuantileMethod::kTiles, QuantileMethod::kHistogram, QuantileMethod::kExact}) {
    EXPECT_THROW((void)quantiles(device, x.data(), 100, kShares, method), std::invalid_argument);
  }
}

TEST_P(QuantilesOfDevice, CountsAddUpOverCalls) {
  const std::vector<float> x = make(kKinds[0], 70001);
  const DeviceArray<float> there = array(x);
  const DeviceArray<std::uint64_t> counts = array(std::vector<std::uint64_t>(KeyTree::kTops, 3));
  device().count_keys(70000, there.data(), {}, counts.data());
  device().count_keys(1, there.data() + 70000, {}, counts.data());
  std::vector<std::uint64_t> expected(KeyTree::kTops, 3);
  for (const float v : x) ++expected[order_key(v) >> 16];
  EXPECT_EQ(counts.values(), expected);
}

// The greatest number of shares has more nodes than one byte numbers.
TEST_P(QuantilesOfDevice, ManySharesAreExactToo) {
  std::vector<double> shares;
  for (std::size_t i = 0; i < kMostShares; ++i) shares.push_back(static_cast<double>(i) / (kMostShares - 1));
  const std::vector<float> x = make(kKinds[7], 20000), sorted = sorted_numbers(x);
  const DeviceArray<float> there = array(x);
  const Quantiles exact = quantiles(device(), there.data(), 20000, shares, QuantileMethod::kExact);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    ASSERT_EQ(exact.values[i], static_cast<float>(quantile_of(sorted, shares[i]))) << i;
  }
}

// ---- the CPU ---------------------------------------------------------------------------------------------
TEST(Quantiles, AreTheSameForAnyThreadsAndInstructionSets) {
  const std::vector<float> x = make(kKinds[0], kQuantilePanel + 70001);
  const std::span<const char* const> levels = simd_levels();
  for (const auto method : {QuantileMethod::kTiles, QuantileMethod::kHistogram, QuantileMethod::kExact}) {
    std::vector<float> first;
    for (const int threads : {1, 2, 3, 7}) {
      for (const char* const level : levels.first(threads == 1 ? levels.size() : 1)) {
        use_simd_level(level);
        CpuDevice device(threads);
        const Quantiles q = quantiles(device, x.data(), std::ssize(x), kShares, method);
        if (first.empty()) first = q.values;
        expect_same(q.values, first, level);
      }
    }
  }
  use_simd_level("");
}

// The gates of the first public estimator: 256 shares of 2^20 values, those of uniform ones within 1e-3 + 1
// %, those of normal ones within 0.05. Ours is closer.
TEST(Quantiles, EstimatesPassTheHistoricGates) {
  std::vector<double> shares;
  for (int i = 0; i < 256; ++i) shares.push_back((1 + 2.0 * i) / 512);
  std::mt19937 random(1);
  std::vector<float> uniform(1 << 20), bell(1 << 20);
  for (float& v : uniform) v = std::uniform_real_distribution<float>()(random);
  for (float& v : bell) v = std::normal_distribution<float>()(random);
  CpuDevice device(2);
  for (const auto method : {QuantileMethod::kTiles, QuantileMethod::kHistogram, QuantileMethod::kExact}) {
    const std::vector<float> u = quantiles(device, uniform.data(), 1 << 20, shares, method).values;
    const std::vector<float> b = quantiles(device, bell.data(), 1 << 20, shares, method).values;
    const std::vector<float> sorted = sorted_numbers(bell);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      EXPECT_NEAR(u[i], shares[i], 1e-3 + 0.01 * shares[i]) << i;
      EXPECT_NEAR(b[i], quantile_of(sorted, shares[i]), method == QuantileMethod::kTiles ? 0.013 : 0.016)
          << i;
      EXPECT_NEAR(0.5 * std::erfc(-b[i] / std::sqrt(2.0)), shares[i], 2e-3) << i;
    }
  }
}

}  // namespace
}  // namespace lpmm::kernels
