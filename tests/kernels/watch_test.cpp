// Tests what the watch reads of an update, against a plain loop over decoded values, on every device.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <list>
#include <new>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/cpu.h"
#include "kernels/formats/compensation.h"
#include "tests/kernels/device_array.h"
#include "tests/kernels/every_rule.h"
#include "tests/kernels/support.h"
#include "tests/sanitized.h"

namespace lpmm::kernels {
namespace {

using Codecs = RoleArray<Codec>;

const Codecs kPackedCodecs = {{codec_of({Map::kLinear, 12}, 256, Rounding::kStochastic, StepMode::kSticky),
                               codec_of({Map::kLinear, 8}), codec_of({Map::kLinear, 8}, 64),
                               codec_of({Map::kSquareRoot, 8})}};
const Codecs kUnlikeBlocks = {{codec_of({Map::kLinear, 8}, 64), codec_of({Map::kSoftsign, 4}, 4096),
                               codec_of({Map::kSoftsign, 4}), codec_of({Map::kLinearNoZero, 4}, 1024)}};
const Codecs kTwoTerms = {{codec_of({Map::kBf16, 16}, 0, Rounding::kNearest), codec_of({Map::kLinear, 8}),
                           codec_of({Map::kSoftsign, 8}, 64), codec_of({Map::kSquareRoot, 8}),
                           codec_of({Map::kFp32, 32}), codec_of({Map::kUlp, 8}, 0, Rounding::kNearest)}};
const Codecs kTwoTermsInBlocks = {{codec_of({Map::kLinear, 8}), codec_of({Map::kLinear, 8}),
                                   codec_of({Map::kSoftsign, 4}), codec_of({Map::kSquareRoot, 8}),
                                   codec_of({Map::kFp32, 32}), codec_of({Map::kLinear, 4}, 256)}};
const Codecs kPlainCodecs = {{codec_of({Map::kFp32, 32}), codec_of({Map::kFp32, 32}),
                              codec_of({Map::kFp32, 32}), codec_of({Map::kFp32, 32})}};

// A tensor with values in all roles that the rule reads.
struct Tensor {
  Tensor(const Rule& rule, const Codecs& codecs, std::int64_t elements, unsigned seed) {
    CpuDevice device(1);
    for (const Role r : kEveryRole) {
      if (!has_role(rule, codecs, r) || fused::is_none(codecs[r])) continue;
      const std::int64_t n = values_of(r, elements);
      Packed& role = roles.emplace_back(codecs[r], n);
      const std::vector<float> x =
          normal_values(n, seed + static_cast<unsigned>(r), 0.1F, !kRoleRows[r].is_signed);
      EXPECT_TRUE(encode(device, role.view(), 0, n, x.data(), {}));
      views[r] = role.view();
    }
  }
  std::list<Packed> roles;
  RoleArray<RoleView> views = {};
};

// The peaks of a tensor; empty: none.
struct Peaks {
  std::vector<std::uint8_t> update, ratio;
  bool fall = false;
  friend bool operator==(const Peaks&, const Peaks&) = default;
};
// Returns peaks with some of all codes.
Peaks held_peaks(std::int64_t elements, bool has_variance) {
  Peaks held;
  held.fall = elements % 2 == 0;
  held.update.resize(static_cast<std::size_t>(code_bytes(kPeakFormat, elements)));
  for (std::size_t i = 0; i < held.update.size(); ++i) {
    held.update[i] = static_cast<std::uint8_t>(37 * i + i / 7);
  }
  if (has_variance) held.ratio.assign(held.update.rbegin(), held.update.rend());
  return held;
}

// A copy in a device's memory.
class There {
 public:
  There(Device& device, const RoleArray<RoleView>& host) : views(host) {
    for (RoleView& v : views) {
      if (v.codes == nullptr) continue;
      const std::vector codes(v.codes, v.codes + code_bytes(v.codec.format, v.elements));
      v.codes = codes_.emplace_back(device, codes).data();
      if (v.steps == nullptr) continue;
      const std::vector steps(v.steps, v.steps + blocks_of(v.elements, v.codec.block));
      v.steps = steps_.emplace_back(device, steps).data();
    }
  }
  // The stored contents: the codes of each role, and the steps.
  using Stored = std::pair<std::vector<std::vector<std::uint8_t>>, std::vector<std::vector<std::uint16_t>>>;
  Stored stored() {
    Stored all;
    for (auto& codes : codes_) all.first.push_back(codes.values());
    for (auto& steps : steps_) all.second.push_back(steps.values());
    return all;
  }
  RoleArray<RoleView> views;

 private:
  std::list<DeviceArray<std::uint8_t>> codes_;
  std::list<DeviceArray<std::uint16_t>> steps_;
};

// An update that is watched, or not, and what is stored then.
struct Updated {
  WatchStats stats;
  There::Stored stored;
  bool storable = false;
};
Updated update(Device& device, const Rule& rule, const RoleArray<RoleView>& host, bool watched,
               Peaks* peaks = nullptr) {
  There there(device, host);
  const DeviceMemory memory = device.allocate_shared(sizeof(Updated));
  auto* const result = new (memory.get()) Updated;
  TensorUpdate tensor{rule, {there.views, {3, 1, 7, 0}}, &result->storable};
  if (watched) tensor.watched = &result->stats;
  std::optional<DeviceArray<std::uint8_t>> update_peaks, ratio_peaks;
  if (peaks != nullptr) {
    tensor.peaks = {update_peaks.emplace(device, peaks->update).data(), nullptr, peaks->fall};
    if (!peaks->ratio.empty()) tensor.peaks.ratio = ratio_peaks.emplace(device, peaks->ratio).data();
  }
  device.update({&tensor, 1});
  device.synchronize();
  if (peaks != nullptr) peaks->update = update_peaks->values();
  if (ratio_peaks) peaks->ratio = ratio_peaks->values();
  result->stored = there.stored();
  const Updated found = std::move(*result);
  result->~Updated();
  return found;
}

WatchStats watch(Device& device, const Rule& rule, const RoleArray<RoleView>& host, Peaks* peaks = nullptr) {
  return update(device, rule, host, true, peaks).stats;
}

void expect_same(const WatchStats& a, const WatchStats& b, const std::string& what) {
  for (int k = 0; k < kWatched; ++k) EXPECT_EQ(a.squares[k], b.squares[k]) << what << ", term " << k;
  for (const auto& [x, y] : {std::pair(a.update, b.update), std::pair(a.ratio, b.ratio)}) {
    EXPECT_EQ(x.bits, y.bits) << what;
    EXPECT_EQ(x.element, y.element) << what;
  }
}

using WatchedElements = std::vector<std::array<double, kWatched>>;

// True if an element's update depends on others: norms, variances of rows.
bool is_of_whole_tensors(const Rule& rule) {
  return std::visit([]<class R>(const R&) { return HasNorms<R> || HasRows<R>; }, rule);
}

// The rule on decoded values, one element after another.
WatchedElements measure_plainly(const Rule& rule, const Tensor& t) {
  CpuDevice device(1);
  const std::int64_t n = t.views[Role::kParameter].elements;
  RoleArray<std::vector<float>> x;
  for (const Role r : kEveryRole) {
    x[r].assign(static_cast<std::size_t>(n), 0.0F);
    if (t.views[r].codes != nullptr) device.decode(t.views[r], 0, n, x[r].data());
  }
  const RoleView &parameter = t.views[Role::kParameter], &compensation = t.views[Role::kCompensation];
  for (std::size_t i = 0; i < static_cast<std::size_t>(n) && compensation.codes != nullptr; ++i) {
    float& p = x[Role::kParameter][i];
    p = TwoTerms{parameter.codec, compensation.codec}.sum(p, x[Role::kCompensation][i]);
  }
  WatchedElements elements;
  std::visit(
      [&](auto r) {
        for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
          Elements<float> e{};
          for (const Role role : kEveryRole) e[role] = x[role][i];
          const float before = e[Role::kParameter], g = e[Role::kAccumulator] * 0.75F;
          r(e);
          const float u = e[Role::kParameter] - before;
          double ratio = 0;
          if (t.views[Role::kVariance].codes != nullptr) {
            float root = std::sqrt(e[Role::kVariance]);
            if constexpr (requires { r.variance_scale; }) root *= r.variance_scale;
            if constexpr (requires { r.epsilon; }) ratio = g / std::max(root, r.epsilon);
          }
          elements.push_back({before, u, g, ratio});
        }
      },
      rule);
  return elements;
}

WatchStats plain_loop(const Rule& rule, const Tensor& t) {
  WatchStats stats;
  const WatchedElements elements = measure_plainly(rule, t);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    for (std::size_t k = 0; k < kWatched; ++k) stats.squares[k] += elements[i][k] * elements[i][k];
    stats.update.raise(abs_bits(static_cast<float>(elements[i][1])), static_cast<std::int64_t>(i));
    stats.ratio.raise(abs_bits(static_cast<float>(elements[i][3])), static_cast<std::int64_t>(i));
  }
  return stats;
}

// The code of a size, from the definition.
int plain_code(double size, int lowest_exponent) {
  if (size == 0) return 0;
  if (std::isinf(size)) return 15;
  return static_cast<int>(std::clamp(std::floor(std::log2(size)) - lowest_exponent + 1, 0.0, 15.0));
}

void expect_close(const WatchStats& stats, const WatchStats& plain, const std::string& what) {
  for (int k = 0; k < kWatched; ++k) {
    // Sums in another order.
    EXPECT_NEAR(stats.squares[k], plain.squares[k], 1e-12 * plain.squares[k]) << what << ", term " << k;
  }
  EXPECT_EQ(stats.update.bits, plain.update.bits) << what;
  EXPECT_EQ(stats.update.element, plain.update.element) << what;
  EXPECT_EQ(stats.ratio.bits, plain.ratio.bits) << what;
  EXPECT_EQ(stats.ratio.element, plain.ratio.element) << what;
}

LPMM_DEVICE_SUITE(WatchOn);

TEST_P(WatchOn, IsAPlainLoopAndTheSameForAnyThreadsSetAndDevice) {
  int number = 0;
  for (const Codecs& codecs : {kPackedCodecs, kUnlikeBlocks, kTwoTerms, kTwoTermsInBlocks, kPlainCodecs}) {
    for (const std::int64_t n : {1, 130, 5000, 3 * 4096 + 77}) {
      for (const Rule& rule : every_rule()) {
        if (kSanitized && ++number % 3 != 0) continue;
        const std::string what = fmt::format("rule {}, {} elements", rule.index(), n);
        const Tensor tensor(rule, codecs, n, static_cast<unsigned>(n));
        CpuDevice one(1);
        const WatchStats expected = watch(one, rule, tensor.views);
        if (!is_of_whole_tensors(rule)) expect_close(expected, plain_loop(rule, tensor), what);
        EXPECT_GT(expected.squares[static_cast<int>(Watched::kUpdate)], 0) << what;
        expect_same(watch(device(), rule, tensor.views), expected, what);
        for (const char* const level : simd_levels()) {
          if (GetParam() != "cpu") break;
          use_simd_level(level);
          expect_same(watch(device(), rule, tensor.views), expected, what + level);
        }
        use_simd_level("");
        if (HasFailure()) return;
      }
    }
  }
}

// Held codes, one less where they fall, or what is seen where that is more.
std::uint32_t plain_peak(std::uint32_t held, bool fall, int seen) {
  return std::max<std::uint32_t>(held - (fall && held > 0 ? 1 : 0), static_cast<std::uint32_t>(seen));
}

TEST_P(WatchOn, RaisesPeaksAsAPlainLoopDoesAndTheSameOnEveryDevice) {
  for (const Codecs& codecs : {kPackedCodecs, kUnlikeBlocks, kPlainCodecs}) {
    for (const std::int64_t n : {1, 65, 130, 5000, 3 * 4096 + 77}) {
      for (const Rule& rule : every_rule()) {
        const std::string what = fmt::format("rule {}, {} elements", rule.index(), n);
        const Tensor tensor(rule, codecs, n, static_cast<unsigned>(n));
        const bool has_variance = tensor.views[Role::kVariance].codes != nullptr;
        const Peaks before = held_peaks(n, has_variance);
        Peaks expected = before;
        CpuDevice one(1);
        const WatchStats stats = watch(one, rule, tensor.views, &expected);
        expect_same(stats, watch(one, rule, tensor.views), what);
        Peaks peaks = before;
        watch(device(), rule, tensor.views, &peaks);
        EXPECT_TRUE(peaks == expected) << what;
        if (is_of_whole_tensors(rule)) continue;
        const WatchedElements elements = measure_plainly(rule, tensor);
        for (std::int64_t i = 0; i < n; ++i) {
          const auto& [p, u, g, ratio] = elements[static_cast<std::size_t>(i)];
          // As fp32 rounds them: a size just below a power of 2 may be one there.
          const double update = u == 0 ? 0.0 : std::abs(static_cast<float>(u) / static_cast<float>(p));
          const double square = static_cast<float>(ratio) * static_cast<float>(ratio);
          ASSERT_EQ(load_code(expected.update.data(), kPeakFormat, i),
                    plain_peak(load_code(before.update.data(), kPeakFormat, i), before.fall,
                               plain_code(update, -11)))
              << what << " " << i;
          if (!has_variance) continue;
          ASSERT_EQ(
              load_code(expected.ratio.data(), kPeakFormat, i),
              plain_peak(load_code(before.ratio.data(), kPeakFormat, i), before.fall, plain_code(square, -1)))
              << what << " " << i;
        }
      }
    }
  }
}

TEST(Peaks, CodesArePowersOfTwo) {
  EXPECT_EQ(ratio_peak(0.0F), 0U);
  EXPECT_EQ(ratio_peak(0.7F), 0U);   // 0.49
  EXPECT_EQ(ratio_peak(-0.8F), 1U);  // 0.64
  EXPECT_EQ(ratio_peak(1.0F), 2U);
  EXPECT_EQ(ratio_peak(1.5F), 3U);  // 2.25
  EXPECT_EQ(ratio_peak(90.0F), 14U);
  EXPECT_EQ(ratio_peak(91.0F), 15U);
  EXPECT_EQ(ratio_peak(1e30F), 15U);  // the square is infinite
  EXPECT_EQ(update_peak(0.0F, 0.0F), 0U);
  EXPECT_EQ(update_peak(1e-9F, 0.0F), 15U);
  EXPECT_EQ(update_peak(-1.0F, 2048.0F), 1U);
  EXPECT_EQ(update_peak(1.0F, -2049.0F), 0U);
  EXPECT_EQ(update_peak(8.0F, 1.0F), 15U);
  EXPECT_EQ(update_peak(7.9F, 1.0F), 14U);
}

// The codecs of each preset, for which fused loops are compiled, where they suit the rule.
std::vector<Codecs> preset_codecs(const Rule& rule) {
  std::vector<Codecs> all;
  std::visit(
      [&]<class R>(const R&) {
        for (int set = 0; set < fused::kAllSets; ++set) {
          const Codecs codecs = fused::codecs_of<R>(fused::kCodecs[static_cast<std::size_t>(set)]);
          if (fused::takes<R>(codecs) && fused::is_compiled<R>(set)) all.push_back(codecs);
        }
      },
      rule);
  return all;
}

// A fused loop, of which the scalar code has none, tells the same of itself, and stores what it would.
TEST_P(WatchOn, IsTheSameInFusedLoops) {
  bool has_failed = false;
  for (const Rule& rule : every_rule()) {
    std::vector<Codecs> sets = preset_codecs(rule);
    sets.push_back(kUnlikeBlocks);
    for (const Codecs& codecs : sets) {
      for (const std::int64_t n : {130, 1024, 3 * 4096 + 77}) {
        const std::string what =
            fmt::format("rule {}, set {}, {} elements ", rule.index(), &codecs - sets.data(), n);
        Tensor tensor(rule, codecs, n, static_cast<unsigned>(n));
        // The fused loop stops at what is not storable.
        const bool is_usual = std::holds_alternative<Sgd>(rule) || std::holds_alternative<Adam>(rule);
        const RoleView& gradient = tensor.views[Role::kAccumulator];
        if (n > 9000 && is_usual && gradient.codes != nullptr && !is_packed(gradient.codec.format)) {
          reinterpret_cast<float*>(gradient.codes)[5000] = 1e38F;
        }
        CpuDevice one(1);
        const Peaks held = held_peaks(n, tensor.views[Role::kVariance].codes != nullptr);
        Peaks expected_peaks = held;
        use_simd_level("scalar");
        const WatchStats expected = watch(one, rule, tensor.views, &expected_peaks);
        use_simd_level("");
        const Updated plain = update(one, rule, tensor.views, false);
        const auto expect = [&](const char* level) {
          Peaks peaks = held;
          const Updated watched = update(device(), rule, tensor.views, true, &peaks);
          expect_same(watched.stats, expected, what + level);
          EXPECT_TRUE(peaks == expected_peaks) << what << level;
          EXPECT_TRUE(watched.stored == plain.stored) << what << level;
          EXPECT_EQ(watched.storable, plain.storable) << what << level;
          has_failed = has_failed || !watched.storable;
        };
        expect("");
        for (const char* const level : simd_levels()) {
          if (GetParam() != "cpu") break;
          use_simd_level(level);
          expect(level);
        }
        use_simd_level("");
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_TRUE(has_failed);
}

// The update reported is the one that is made, norms and all.
TEST_P(WatchOn, TellsTheUpdate) {
  for (const Rule& rule : every_rule()) {
    const Tensor tensor(rule, kPlainCodecs, 3000, 5);
    CpuDevice cpu(1);
    const WatchStats stats = watch(device(), rule, tensor.views);
    std::vector<float> before(3000), after(3000);
    cpu.decode(tensor.views[Role::kParameter], 0, 3000, before.data());
    EXPECT_TRUE(update(cpu, rule, {tensor.views, {}}));
    cpu.decode(tensor.views[Role::kParameter], 0, 3000, after.data());
    double squares = 0;
    LargestElement largest;
    for (std::size_t i = 0; i < 3000; ++i) {
      const float u = after[i] - before[i];
      squares += static_cast<double>(u) * u;
      if (abs_bits(u) > largest.bits) largest = {abs_bits(u), static_cast<std::int64_t>(i)};
    }
    EXPECT_NEAR(stats.squares[static_cast<int>(Watched::kUpdate)], squares, 1e-12 * squares) << rule.index();
    EXPECT_EQ(stats.update.bits, largest.bits) << rule.index();
    EXPECT_EQ(stats.update.element, largest.element) << rule.index();
  }
}

// Among equal magnitudes the first is named, wherever tiles, runs and thread blocks are cut.
TEST_P(WatchOn, NamesTheFirstOfEqualElements) {
  const std::int64_t n = 70 * 4096;
  const Sgd sgd{.learning_rate = 1};
  for (const auto& [first, second] :
       {std::pair<std::size_t, std::size_t>{5, 6}, {1023, 1024}, {100, 69 * 4096}, {4097, 20 * 4096}}) {
    Tensor tensor(sgd, kPlainCodecs, n, 1);
    auto* const p = reinterpret_cast<float*>(tensor.views[Role::kParameter].codes);
    auto* const g = reinterpret_cast<float*>(tensor.views[Role::kAccumulator].codes);
    std::fill_n(p, n, 0.0F);
    std::fill_n(g, n, 0.25F);
    g[first] = -2;
    g[second] = 2;
    const WatchStats stats = watch(device(), sgd, tensor.views);
    EXPECT_EQ(stats.update.size(), 2.0F);
    EXPECT_EQ(stats.update.element, static_cast<std::int64_t>(first));
    EXPECT_EQ(stats.ratio.size(), 0.0F);
    g[first] = g[second] = 0.25F;
    EXPECT_EQ(watch(device(), sgd, tensor.views).update.element, 0);
  }
}

// Checks how much longer or shorter rounding makes what is stored, against a plain loop.
TEST(ChangeStats, TellTheRadialBias) {
  CpuDevice device(2);
  const std::int64_t n = 5000;
  const std::vector<float> g = normal_values(n, 3);
  for (const Format format : {Format{Map::kLinear, 4}, Format{Map::kSoftsign, 3}, Format{Map::kFp32, 32}}) {
    Packed a(codec_of(format, 128, Rounding::kNearest), n);
    ChangeStats stats;
    FoldArgs args;
    args.stats = &stats;
    fold(device, a.view(), 0, n, g.data(), args);
    const std::vector<float> stored = decoded(device, a);
    double along = 0, squares = 0;
    for (std::size_t i = 0; i < g.size(); ++i) {
      along += (static_cast<double>(stored[i]) - g[i]) * g[i];
      squares += static_cast<double>(g[i]) * g[i];
    }
    EXPECT_NEAR(stats.wanted_squared, squares, 1e-10 * squares) << to_string(format);
    EXPECT_NEAR(stats.error_along_wanted, along, 1e-10 * squares) << to_string(format);
    EXPECT_EQ(along != 0, is_packed(format)) << to_string(format);
  }
}

}  // namespace
}  // namespace lpmm::kernels
