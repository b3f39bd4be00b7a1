#include "kernels/cpu_packed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/formats/element.h"
#include "tests/kernels/support.h"
#include "tests/sanitized.h"

namespace lpmm::kernels {
namespace {

Format linear(int bits) {
  return {Map::kLinear, static_cast<std::uint8_t>(bits)};
}

std::int64_t size_of(const std::vector<float>& x) {
  return static_cast<std::int64_t>(x.size());
}

void write(PackedDevice& device, const Packed& to, const std::vector<float>& x, const Noise& noise = {}) {
  EXPECT_TRUE(encode(device, to.view(), 0, size_of(x), x.data(), noise));
}

// ---- encode and decode -----------------------------------------------------------------------------------

TEST(Encode, UsesTheDrawOfTheElementInTheTensor) {
  CpuPackedDevice device(1);
  const Noise noise = {5, 6, 7, 8};
  const std::int64_t n = 9000;
  const std::vector<float> x = normal_values(n, 1);
  const Codec codec = codec_of(linear(6));
  Packed whole(codec, n);
  write(device, whole, x, noise);
  for (std::int64_t i = 0; i < n; ++i) {
    const float step = bf16_to_float(whole.view().steps[i / 128]);
    EXPECT_EQ(whole.code(i), encode_value(codec.format, {}, codec.rounding, x[static_cast<std::size_t>(i)],
                                          step, rounding_draw(noise, i)));
  }
  // Ranges give the same bytes.
  Packed parts(codec, n);
  for (const auto& [first, end] : {std::pair<std::int64_t, std::int64_t>{0, 4096}, {4096, 8192}, {8192, n}}) {
    encode(device, parts.view(), first, end - first, x.data() + first, noise);
  }
  EXPECT_TRUE(parts == whole);
  // A tensor of its own that knows where it comes from has the same codes.
  Packed last(codec, n - 4096);
  Noise noise_from = noise;
  noise_from.first_group = 4096 / kGroup;
  write(device, last, {x.begin() + 4096, x.end()}, noise_from);
  for (std::int64_t i = 4096; i < n; ++i) EXPECT_EQ(last.code(i - 4096), whole.code(i));
  std::vector<float> some(256);
  device.decode(whole.view(), 4096, 256, some.data());
  const std::vector<float> all = decoded(device, whole);
  EXPECT_TRUE(same_bits(some, {all.begin() + 4096, all.begin() + 4352}));
}

TEST(Encode, ReencodingWithTheSameStepsChangesNothing) {
  CpuPackedDevice device(2);
  for (const Format f : packed_formats()) {
    if (!has_sticky_steps(f)) continue;
    for (const Rounding rounding : {Rounding::kNearest, Rounding::kStochastic}) {
      Packed t(codec_of(f, 128, rounding, StepMode::kSticky), 5000);
      write(device, t, normal_values(5000, 1, 1.0F, !is_signed(f.map)));
      const auto codes = t.codes();
      const auto steps = t.steps();
      for (std::uint32_t step = 1; step <= 20; ++step) {
        write(device, t, decoded(device, t), {1, 2, step, 3});
      }
      EXPECT_EQ(t.codes(), codes) << to_string(f);
      EXPECT_EQ(t.steps(), steps) << to_string(f);
    }
  }
}

TEST(Encode, AllZeroBlocksAreExact) {
  CpuPackedDevice device(1);
  for (const Format f : stored_formats()) {
    Packed t(codec_of(f), 300);
    write(device, t, normal_values(300, 1, 1.0F, true));
    write(device, t, std::vector<float>(300, 0.0F));
    for (const float x : decoded(device, t)) EXPECT_EQ(x, 0.0F) << to_string(f);
    for (const std::uint16_t step : t.steps()) EXPECT_EQ(step, 0);
  }
}

TEST(Encode, StoresWhatItCanOfValuesThatAreNotStorable) {
  CpuPackedDevice device(1);
  const float inf = std::numeric_limits<float>::infinity();
  for (const Format f : stored_formats()) {
    for (const float bad : {std::nanf(""), inf, -inf, 3e37F}) {
      Packed t(codec_of(f), 300);
      std::vector<float> x(300, 1.0F);
      x[130] = bad;
      EXPECT_FALSE(encode(device, t.view(), 0, 300, x.data(), {})) << to_string(f) << " " << bad;
      for (const float y : decoded(device, t)) EXPECT_TRUE(std::isfinite(y)) << to_string(f);
      x[130] = 1e36F;
      EXPECT_TRUE(encode(device, t.view(), 0, 300, x.data(), {}));
    }
  }
}

// Rows that begin and end inside blocks, span tiles, come twice, or are the last.
TEST(Decode, RowsAreThoseOfTheWhole) {
  CpuPackedDevice device(2);
  for (const Format f : stored_formats()) {
    for (const int block : {64, 128, 4096}) {
      for (const std::int64_t width : {1, 7, 128, 200, 5000}) {
        const std::int64_t rows = 13;
        Packed t(codec_of(f, block), rows * width);
        write(device, t, normal_values(rows * width, 3, 1.0F, !is_signed(f.map)));
        const std::vector<float> all = decoded(device, t);
        const std::vector<std::int32_t> wanted = {12, 0, 5, 5, 11, 1};
        std::vector<float> got(wanted.size() * static_cast<std::size_t>(width));
        device.decode_rows({t.view(), width, wanted.data(), size_of(got) / width, got.data()});
        for (std::size_t i = 0; i < wanted.size(); ++i) {
          const auto at = got.begin() + static_cast<std::int64_t>(i) * width;
          const auto row = all.begin() + wanted[i] * width;
          EXPECT_TRUE(same_bits({at, at + width}, {row, row + width}))
              << to_string(f) << " row " << wanted[i];
        }
      }
    }
  }
}

TEST(Decode, Bf16IsTheNearest) {
  CpuPackedDevice device(1);
  Packed t(codec_of(linear(12)), 1000);
  write(device, t, normal_values(1000, 4));
  const std::vector<float> x = decoded(device, t);
  std::vector<std::uint16_t> b(1000);
  device.decode_bf16(t.view(), 0, 1000, b.data());
  for (std::size_t i = 0; i < 1000; ++i) EXPECT_EQ(b[i], float_to_bf16(x[i]));
}

// The mean of sr over many draws is the value (torchao's bf16 and int8 tests).
TEST(Encode, StochasticMeansAreTheValues) {
  CpuPackedDevice device(2);
  const std::vector<float> x = normal_values(128, 8);
  Packed t(codec_of(linear(8)), 128);
  Packed half(codec_of({Map::kBf16, 16}), 128);
  std::vector<double> mean(128), half_mean(128);
  const int repeats = kSanitized ? 10000 : 100000;
  std::vector<float> y(128);
  for (std::uint32_t step = 0; step < repeats; ++step) {
    write(device, t, x, {3, 0, step, 0});
    device.decode(t.view(), 0, 128, y.data());
    for (std::size_t i = 0; i < 128; ++i) mean[i] += y[i];
    write(device, half, x, {3, 0, step, 0});
    device.decode(half.view(), 0, 128, y.data());
    for (std::size_t i = 0; i < 128; ++i) half_mean[i] += y[i];
  }
  const double step = bf16_to_float(t.steps()[0]);
  for (std::size_t i = 0; i < 128; ++i) {
    EXPECT_NEAR(mean[i] / repeats, x[i], 4.5 * 0.5 * step / std::sqrt(repeats));
    EXPECT_NEAR(half_mean[i] / repeats, x[i], 4.5 * 0.5 * std::abs(x[i]) / 128 / std::sqrt(repeats));
  }
}

// ---- gates of bitsandbytes (BQ1, BQ2, BQ3, BQ9) ----------------------------------------------------------

struct Errors {
  double absolute = 0, relative = 0;
};
Errors errors_of(const std::vector<float>& x, const std::vector<float>& y) {
  Errors e;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = std::abs(static_cast<double>(y[i]) - x[i]);
    e.absolute += d / static_cast<double>(x.size());
    e.relative += d / (std::abs(x[i]) + 1e-8) / static_cast<double>(x.size());
  }
  return e;
}

TEST(Gates, DynamicQuantizationErrors) {
  if (kSanitized) GTEST_SKIP() << kReleaseOnly;
  CpuPackedDevice device(2);
  const std::int64_t n = 1024 * 1024;
  const std::vector<float> normal = normal_values(n, 5);
  std::vector<float> uniform(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    uniform[static_cast<std::size_t>(i)] = noise_uniform(noise_draw({1, 1, 1, 15}, i));
  }
  for (const int block : {64, 128, 256, 512, 1024, 2048, 4096}) {
    Packed de8(codec_of({Map::kDynamic, 8}, block, Rounding::kNearest), n);
    Packed ude8(codec_of({Map::kDynamicUnsigned, 8}, block, Rounding::kNearest), n);
    write(device, de8, normal);
    Errors e = errors_of(normal, decoded(device, de8));
    EXPECT_LT(e.absolute, 0.011) << block;
    EXPECT_LT(e.relative, 0.018) << block;
    write(device, de8, uniform);
    e = errors_of(uniform, decoded(device, de8));
    EXPECT_LT(e.absolute, 0.0036) << block;
    EXPECT_LT(e.relative, 0.015) << block;
    write(device, ude8, uniform);
    e = errors_of(uniform, decoded(device, ude8));
    EXPECT_LT(e.absolute, 0.0023) << block;
    EXPECT_LT(e.relative, 0.012) << block;
  }
}

TEST(Gates, AMisalignedSliceGivesTheCodesOfItsCopy) {
  if (kSanitized) GTEST_SKIP() << kReleaseOnly;
  CpuPackedDevice device(1);
  const std::vector<float> x = normal_values(3000, 6);
  for (std::size_t shift = 1; shift < 16; ++shift) {
    const std::vector<float> copy(x.begin() + static_cast<std::ptrdiff_t>(shift), x.end());
    Packed a(codec_of({Map::kDynamic, 8}, 256), size_of(copy));
    Packed b(codec_of({Map::kDynamic, 8}, 256), size_of(copy));
    write(device, a, copy);
    EXPECT_TRUE(encode(device, b.view(), 0, size_of(copy), x.data() + shift, {}));
    EXPECT_TRUE(a == b);
  }
}

// ---- fold ------------------------------------------------------------------------------------------------

// Relative error of K folds against their fp64 sum. low_precision 5.5 simulates 8 bits, scale refreshed: sr
// .0128 at one fold to .0724 at 64; steps that double on demand stay below these bounds.
TEST(Fold, ManyContributionsAgainstFp64) {
  CpuPackedDevice device(2);
  const std::int64_t n = 32768;
  struct Bound {
    int bits;
    double one, sixty_four;
  };
  for (const Bound& b : {Bound{4, 0.35, 2.6}, {8, 0.02, 0.1}, {12, 0.0012, 0.006}, {16, 1e-4, 4e-4}}) {
    for (const int folds : {1, 4, 16, 64}) {
      Packed a(codec_of(linear(b.bits)), n);
      std::vector<double> exact(static_cast<std::size_t>(n));
      FoldResult last;
      for (int k = 0; k < folds; ++k) {
        const std::vector<float> g = normal_values(n, 100U + static_cast<std::uint32_t>(k));
        FoldArgs args;
        args.scale = 1.0F / static_cast<float>(folds);
        args.noise = {1, 0, 1, noise_stream(Role::kAccumulator, static_cast<std::uint32_t>(k))};
        args.want_square_sum = k + 1 == folds;
        last = fold(device, a.view(), 0, n, g.data(), args);
        EXPECT_TRUE(last.finite);
        for (std::size_t i = 0; i < exact.size(); ++i) exact[i] += static_cast<double>(g[i]) * args.scale;
      }
      const std::vector<float> y = decoded(device, a);
      double error = 0, norm = 0, bias = 0;
      for (std::size_t i = 0; i < exact.size(); ++i) {
        error += std::pow(y[i] - exact[i], 2);
        norm += exact[i] * exact[i];
        bias += y[i] - exact[i];
      }
      const double relative = std::sqrt(error / norm);
      const double bound = b.one + (b.sixty_four - b.one) * std::sqrt((folds - 1) / 63.0);
      EXPECT_LT(relative, bound) << b.bits << " bits, " << folds << " folds";
      EXPECT_LT(std::abs(bias), 4.5 * std::sqrt(error)) << b.bits << " bits, " << folds << " folds";
      EXPECT_NEAR(last.square_sum, norm, norm * (2.5 * relative * relative + 2e-2 * relative + 1e-6));
    }
  }
}

TEST(Fold, SquareSumIsTakenBeforeEncoding) {
  CpuPackedDevice device(2);
  const std::vector<float> g = normal_values(70000, 3);
  Packed a(codec_of(linear(2)), size_of(g));
  FoldArgs args;
  args.want_square_sum = true;
  double exact = 0;
  for (const float x : g) exact += static_cast<double>(x) * x;
  EXPECT_NEAR(fold(device, a.view(), 0, size_of(g), g.data(), args).square_sum, exact, 1e-9 * exact);
  const std::vector<float> stored = decoded(device, a);
  double sum = 0;
  for (const float x : stored) sum += static_cast<double>(x) * x;
  EXPECT_NEAR(square_sum(device, a.view(), 0, size_of(g)), sum, 1e-9 * sum);
}

TEST(Fold, StepsOnlyGrowZerosChangeNothingAndClearEmpties) {
  CpuPackedDevice device(1);
  for (const Format f : {linear(8), Format{Map::kBf16, 16}, Format{Map::kFp32, 32}}) {
    Packed a(codec_of(f), 1000);
    std::vector<std::uint16_t> previous;
    for (std::uint32_t k = 0; k < 30; ++k) {
      const std::vector<float> g = normal_values(1000, k, std::ldexp(1.0F, static_cast<int>(k / 3)));
      FoldArgs args;
      args.noise.step = k;
      EXPECT_TRUE(fold(device, a.view(), 0, 1000, g.data(), args).finite);
      const auto steps = a.steps();
      for (std::size_t b = 0; b < previous.size(); ++b) EXPECT_GE(steps[b], previous[b]);
      previous = steps;
      const std::vector<float> before = decoded(device, a), zeros(1000);
      args.noise.step = 100 + k;
      EXPECT_TRUE(fold(device, a.view(), 0, 1000, zeros.data(), args).finite);
      EXPECT_EQ(a.steps(), steps);
      EXPECT_EQ(decoded(device, a), before);
    }
    device.clear(a.view());
    for (const float x : decoded(device, a)) EXPECT_EQ(x, 0.0F);
    EXPECT_EQ(square_sum(device, a.view(), 0, 1000), 0.0);
  }
}

TEST(Fold, ReportsWhatIsNotStorable) {
  CpuPackedDevice device(2);
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(), -1e38F}) {
    for (const std::size_t at : {0U, 4095U, 9999U}) {
      Packed a(codec_of(linear(8)), 10000);
      std::vector<float> g = normal_values(10000, 1);
      g[at] = bad;
      EXPECT_FALSE(fold(device, a.view(), 0, 10000, g.data(), {}).finite) << bad << " at " << at;
    }
  }
}

TEST(Fold, CountsUnderflow) {
  CpuPackedDevice device(1);
  Packed a(codec_of(linear(8), 128, Rounding::kNearest), 128);
  std::vector<float> g(128, 1.0F);
  FoldArgs args;
  fold(device, a.view(), 0, 128, g.data(), args);
  std::fill(g.begin(), g.end(), 0.0F);
  for (std::size_t i = 0; i < 10; ++i) g[i] = 1e-4F;
  ChangeStats stats;
  args.stats = &stats;
  fold(device, a.view(), 0, 128, g.data(), args);
  EXPECT_EQ(stats.elements, 128);
  EXPECT_EQ(stats.increments, 10);
  EXPECT_EQ(stats.underflows, 10);
  EXPECT_NEAR(stats.true_change_squared, 10e-8, 1e-10);
  EXPECT_EQ(stats.packed_increments, 10);
  EXPECT_NEAR(stats.change_in_gaps, 10 * 1e-4 / (1.0 / 127), 1e-3);  // the step is the 1.0 of before / 127
}

// Against counts made code by code, in every format and with a last group that is not full.
TEST(Fold, CountsEveryElement) {
  CpuPackedDevice device(1);
  const std::int64_t n = 1500;
  for (const Format format : stored_formats()) {
    const bool packed = is_packed(format);
    const bool has_sign = is_signed(format.map);
    const MapTable table = packed ? map_table(format) : MapTable{};
    Packed before(codec_of(format, 64), n), a(codec_of(format, 64), n);
    std::vector<float> g = normal_values(n, 3);
    for (std::size_t i = 0; i < g.size(); ++i) {
      if (!has_sign) g[i] = std::abs(g[i]);
      if (i < 64) g[i] = 0.0F;  // a block of step 0
    }
    FoldArgs args;
    args.noise = {1, 0, 1, noise_stream(Role::kAccumulator)};
    fold(device, before.view(), 0, n, g.data(), args);
    fold(device, a.view(), 0, n, g.data(), args);
    const std::vector<float> old = decoded(device, a);
    for (std::size_t i = 0; i < g.size(); ++i) g[i] = i % 3 == 0 ? 0.0F : g[i] * 0.01F;
    ChangeStats stats;
    args.noise.step = 2;
    args.stats = &stats;
    fold(device, a.view(), 0, n, g.data(), args);
    const std::vector<float> stored = decoded(device, a);
    std::int64_t increments = 0, underflows = 0, saturated = 0, in_gaps = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const auto e = static_cast<std::size_t>(i);
      const bool is_changed = old[e] + g[e] != old[e];
      bool same = stored[e] == old[e];
      if (packed) {
        const std::uint32_t code = load_code(a.view().codes, format, i);
        const std::uint16_t step = a.view().steps[i / 64];
        same = code == load_code(before.view().codes, format, i) && step == before.view().steps[i / 64];
        const std::int32_t number = sign_extend(code, format.bits);
        const auto index = static_cast<std::int32_t>(code);
        saturated += step != 0 && (has_signed_codes(format.map) ? std::abs(number) >= code_limit(format.bits)
                                                                : index == 0 || index == table.entries - 1);
        in_gaps += is_changed && step != 0;
      }
      increments += is_changed;
      underflows += is_changed && same;
    }
    EXPECT_EQ(stats.increments, increments) << to_string(format);
    EXPECT_EQ(stats.underflows, underflows) << to_string(format);
    EXPECT_EQ(stats.saturated, saturated) << to_string(format);
    EXPECT_EQ(stats.packed_increments, in_gaps) << to_string(format);
    EXPECT_GT(increments, 0) << to_string(format);
  }
}

// Changes of a third of the gap that they fall into, up and down, from every code but the last, of maps with
// and without sign and 0; and below the smallest entry, where the gap above it counts.
TEST(Fold, MeasuresChangesInGaps) {
  CpuPackedDevice device(1);
  for (const Format format :
       {Format{Map::kLinear, 4}, Format{Map::kSoftsign, 4}, Format{Map::kDynamic, 4},
        Format{Map::kDynamic, 8}, Format{Map::kSoftsign, 8}, Format{Map::kLinear, 2},
        Format{Map::kSoftsign, 3}, Format{Map::kSquareRoot, 2}, Format{Map::kSquareRoot, 3},
        Format{Map::kSquareRoot, 4}, Format{Map::kSquareRootWithZero, 4}, Format{Map::kNormalFloat, 4},
        Format{Map::kE4m3, 8}, Format{Map::kLinearNoZero, 3}, Format{Map::kDynamicNoZero, 4},
        Format{Map::kDynamicUnsigned, 8}}) {
    const Codec codec = codec_of(format, 128, Rounding::kNearest);
    const MapTable table = map_table(format);
    const int limit = code_limit(format.bits);
    std::vector<float> entries;
    if (has_signed_codes(format.map)) {
      for (int i = -limit; i <= limit; ++i) {
        const auto pattern = static_cast<std::uint32_t>(i) & ((1U << format.bits) - 1U);
        entries.push_back(decode_code(format, table, pattern, 1.0F));
      }
    } else {
      entries.assign(table.values, table.values + table.entries);
    }
    const float most = *std::max_element(entries.begin(), entries.end());
    const float least = *std::min_element(entries.begin(), entries.end());
    for (std::size_t i = 0; i + 1 < entries.size(); ++i) {
      for (const bool is_up : {true, false}) {
        const float gap = entries[i + 1] - entries[i];
        Packed a(codec, 128);
        std::vector<float> g(128, 0.0F);
        g[0] = is_up ? entries[i] : entries[i + 1];
        g[1] = most, g[2] = least;
        fold(device, a.view(), 0, 128, g.data(), {});
        ASSERT_EQ(decoded(device, a)[0], g[0]);
        std::fill(g.begin(), g.end(), 0.0F);
        g[0] = (is_up ? gap : -gap) / 3;
        ChangeStats stats;
        FoldArgs args;
        args.stats = &stats;
        fold(device, a.view(), 0, 128, g.data(), args);
        EXPECT_EQ(stats.packed_increments, 1);
        EXPECT_NEAR(stats.change_in_gaps, 1.0 / 3, 1e-3)
            << to_string(format) << " entry " << i << " up " << is_up;
      }
    }
    if (!is_zero_free(format.map)) continue;
    Packed a(codec, 128);
    std::vector<float> g(128, 0.0F);
    g[0] = entries[0], g[1] = most;
    fold(device, a.view(), 0, 128, g.data(), {});
    std::fill(g.begin(), g.end(), 0.0F);
    g[0] = -entries[0] / 2;
    ChangeStats stats;
    FoldArgs args;
    args.stats = &stats;
    fold(device, a.view(), 0, 128, g.data(), args);
    EXPECT_NEAR(stats.change_in_gaps, entries[0] / 2 / (entries[1] - entries[0]), 1e-5) << to_string(format);
  }
}

// ---- update ----------------------------------------------------------------------------------------------

struct Roles {
  Packed parameter, accumulator, momentum, variance;
  Roles(const std::array<Codec, kElementRoles>& c, std::int64_t n)
      : parameter(c[0], n), accumulator(c[1], n), momentum(c[2], n), variance(c[3], n) {}
  UpdateArgs args(std::uint32_t step, bool with_variance) const {
    UpdateArgs a;
    a.roles[Role::kParameter] = parameter.view();
    a.roles[Role::kAccumulator] = accumulator.view();
    a.roles[Role::kMomentum] = momentum.view();
    if (with_variance) a.roles[Role::kVariance] = variance.view();
    a.noise = {1, 0, step, 0};
    return a;
  }
};

Sgd momentum_sgd(float mu, float learning_rate) {
  Sgd rule;
  rule.learning_rate = learning_rate;
  rule.momentum = mu;
  return rule;
}

std::array<Codec, kElementRoles> all(const Codec& c) {
  return {c, c, c, c};
}

// The parameter moves by the fresh fp32 state, whatever the state is stored as.
TEST(Update, UsesFreshStates) {
  CpuPackedDevice device(1);
  const Codec fp32 = codec_of({Map::kFp32, 32});
  const std::int64_t n = 1000;
  Roles roles({fp32, fp32, codec_of(linear(2)), codec_of({Map::kSquareRoot, 4})}, n);
  const std::vector<float> p = normal_values(n, 1);
  const std::vector<float> g = normal_values(n, 2, 0.1F);
  write(device, roles.parameter, p);
  write(device, roles.accumulator, g);
  Adam rule;
  rule.step_size = 1e-2F;
  rule.beta1 = 0.9F;
  rule.one_minus_beta1 = 0.1F;
  rule.beta2 = 0.999F;
  rule.one_minus_beta2 = 0.001F;
  EXPECT_TRUE(update(device, rule, roles.args(1, true)));
  const std::vector<float> y = decoded(device, roles.parameter);
  for (std::size_t i = 0; i < p.size(); ++i) {
    Elements<float> x = {p[i], g[i], 0, 0};
    rule(x);
    EXPECT_EQ(y[i], x[Role::kParameter]);
  }
  for (const float x : decoded(device, roles.accumulator)) EXPECT_EQ(x, 0.0F);
}

TEST(Update, EveryRoleHasItsOwnNoise) {
  CpuPackedDevice device(1);
  const std::int64_t n = 65536;
  Codec c = codec_of(linear(4));
  Roles roles(all(c), n);
  const std::vector<float> x = normal_values(n, 1);
  write(device, roles.momentum, x);
  write(device, roles.parameter, x);
  const std::vector<float> g = normal_values(n, 3);
  write(device, roles.accumulator, g);
  EXPECT_TRUE(update(device, momentum_sgd(0.9F, 0.1F), roles.args(4, false)));
  // Recompute both writes from the draws of their streams: equality shows which noise was used.
  Roles again(all(c), n);
  write(device, again.momentum, x);
  write(device, again.parameter, x);
  write(device, again.accumulator, g);
  std::vector<float> p = decoded(device, again.parameter);
  std::vector<float> m = decoded(device, again.momentum);
  const std::vector<float> a = decoded(device, again.accumulator);
  for (std::size_t i = 0; i < p.size(); ++i) {
    Elements<float> x = {p[i], a[i], m[i], 0};
    momentum_sgd(0.9F, 0.1F)(x);
    p[i] = x[Role::kParameter], m[i] = x[Role::kMomentum];
  }
  write(device, again.parameter, p, {1, 0, 4, noise_stream(Role::kParameter)});
  write(device, again.momentum, m, {1, 0, 4, noise_stream(Role::kMomentum)});
  EXPECT_TRUE(again.parameter == roles.parameter);
  EXPECT_TRUE(again.momentum == roles.momentum);
}

TEST(Update, ZeroGradientsChangeNothing) {
  CpuPackedDevice device(1);
  const std::int64_t n = 3000;
  for (const Format state : {linear(8), linear(4), Format{Map::kSoftsign, 4}, Format{Map::kDynamic, 8}}) {
    Roles roles({codec_of(linear(8), 128, Rounding::kStochastic, StepMode::kSticky), codec_of(linear(8)),
                 codec_of(state), codec_of(state)},
                n);
    write(device, roles.parameter, normal_values(n, 1));
    const auto codes = roles.parameter.codes();
    for (std::uint32_t step = 1; step <= 20; ++step) {
      EXPECT_TRUE(update(device, momentum_sgd(0.9F, 0.1F), roles.args(step, false)));
    }
    EXPECT_EQ(roles.parameter.codes(), codes) << to_string(state);
    for (const float m : decoded(device, roles.momentum)) EXPECT_EQ(m, 0.0F);
  }
}

// low_precision 6.5: with g = 0 a nearest-rounded state on a fixed grid sticks at |code| <= 1 / (2 (1 -
// beta)), stochastic rounding decays to zero. One element holds the block's step.
TEST(Update, MomentumDeadBand) {
  CpuPackedDevice device(1);
  struct Anchor {
    float beta;
    int stuck;
    std::uint32_t steps;
  };
  for (const Anchor& anchor : {Anchor{0.9F, 5, 400}, {0.99F, 50, 3000}}) {
    for (const Rounding rounding : {Rounding::kNearest, Rounding::kStochastic}) {
      const std::int64_t n = 128;
      Packed m(codec_of(linear(8), 128, rounding, StepMode::kSticky), n);
      std::vector<float> x(static_cast<std::size_t>(n), 100.0F);
      x[0] = 127.0F;
      const auto decay = [&] {
        for (std::size_t i = 1; i < x.size(); ++i) x[i] *= anchor.beta;
      };
      std::uint32_t step = 0;
      for (; step < anchor.steps; ++step) {
        write(device, m, x, {1, 0, step, 2});
        x = decoded(device, m);
        x[0] = 127.0F;
        decay();
      }
      const float delta = bf16_to_float(m.steps()[0]);
      int most = 0, least = 1000;
      for (std::int64_t i = 1; i < n; ++i) {
        most = std::max(most, sign_extend(m.code(i), 8));
        least = std::min(least, sign_extend(m.code(i), 8));
      }
      EXPECT_GT(delta, 0.5F);
      if (rounding == Rounding::kNearest) {
        EXPECT_LE(most, anchor.stuck);
        EXPECT_GE(least, anchor.stuck - 1);
      } else {
        EXPECT_EQ(most, 0);
      }
    }
  }
}

TEST(Update, ReportsWhatIsNotStorable) {
  CpuPackedDevice device(2);
  const Codec c = codec_of(linear(8));
  Roles roles(all(c), 5000);
  write(device, roles.parameter, normal_values(5000, 1));
  write(device, roles.accumulator, std::vector<float>(5000, 1e36F));
  EXPECT_FALSE(update(device, momentum_sgd(0.9F, 1e6F), roles.args(1, false)));
}

TEST(Update, CountsWhatStochasticRoundingKeeps) {
  CpuPackedDevice device(2);
  const std::int64_t n = 200000;
  for (const Rounding rounding : {Rounding::kNearest, Rounding::kStochastic}) {
    const Codec fp32 = codec_of({Map::kFp32, 32});
    Roles roles({codec_of(linear(8), 128, rounding, StepMode::kSticky), fp32, fp32, fp32}, n);
    const std::vector<float> p = normal_values(n, 1);
    write(device, roles.parameter, p);
    const std::vector<float> before = decoded(device, roles.parameter);
    write(device, roles.accumulator, std::vector<float>(static_cast<std::size_t>(n), 1e-3F));
    RoleArray<ChangeStats> stats;
    UpdateArgs args = roles.args(1, false);
    args.stats = &stats;
    EXPECT_TRUE(update(device, momentum_sgd(0.9F, 1.0F), args));
    const ChangeStats& s = stats[Role::kParameter];
    EXPECT_EQ(s.elements, n);
    EXPECT_EQ(s.increments, n);
    EXPECT_NEAR(s.true_change_squared, 1e-6 * n, 1e-3 * 1e-6 * n);
    const std::vector<float> after = decoded(device, roles.parameter);
    double moved = 0;
    for (std::size_t i = 0; i < after.size(); ++i) moved += after[i] - before[i];
    if (rounding == Rounding::kNearest) {
      EXPECT_EQ(s.underflows, n);
      EXPECT_EQ(moved, 0.0);
    } else {
      EXPECT_LT(s.underflows, n);
      EXPECT_GT(s.underflows, n * 9 / 10);
      EXPECT_NEAR(moved / static_cast<double>(n), -1e-3, 1e-4);
    }
    EXPECT_EQ(s.packed_increments, n);
    // Far below a gap, what is kept with sr is the ratio.
    if (rounding == Rounding::kStochastic) {
      const double kept = 1 - static_cast<double>(s.underflows) / static_cast<double>(n);
      EXPECT_NEAR(s.change_in_gaps / static_cast<double>(n), kept, 2e-3);
    }
    EXPECT_EQ(stats[Role::kAccumulator].elements, 0);
  }
}

// Small steady updates: with sr the stored value walks away from the true one as the root of their number,
// with qr it stays beside it, as if the rounding error had been kept.
TEST(Update, QuasiStochasticRoundingFollowsASteadyChange) {
  CpuPackedDevice device(1);
  constexpr std::int64_t kElements = 6400;
  constexpr int kUpdates = 400;
  for (const Rounding rounding : {Rounding::kStochastic, Rounding::kQuasiStochastic}) {
    const Codec fp32 = codec_of({Map::kFp32, 32});
    Roles roles({codec_of(linear(8), 128, rounding, StepMode::kSticky), fp32, fp32, fp32}, kElements);
    std::vector<float> start(static_cast<std::size_t>(kElements), 0.0F);
    for (std::size_t i = 0; i < start.size(); i += 128) start[i] = 1.0F;  // the block's largest
    write(device, roles.parameter, start);
    const std::vector<float> before = decoded(device, roles.parameter);
    const double gap = bf16_to_float(roles.parameter.view().steps[0]);
    const std::vector<float> change = normal_values(kElements, 3, static_cast<float>(gap / 20));
    for (std::uint32_t step = 1; step <= kUpdates; ++step) {
      write(device, roles.accumulator, change);
      EXPECT_TRUE(update(device, momentum_sgd(0.0F, 1.0F), roles.args(step, false)));
    }
    const std::vector<float> after = decoded(device, roles.parameter);
    double square = 0, largest = 0;
    for (std::size_t i = 0; i < after.size(); ++i) {
      if (i % 128 == 0) continue;
      const double error = (after[i] - (before[i] - kUpdates * double{change[i]})) / gap;
      square += error * error;
      largest = std::max(largest, std::abs(error));
    }
    const double deviation = std::sqrt(square / kElements);
    if (rounding == Rounding::kStochastic) {
      EXPECT_GT(deviation, 3);
    } else {
      EXPECT_LT(deviation, 1);
      EXPECT_LT(largest, 5);
    }
  }
}

TEST(Fold, QuasiStochasticRoundingFollowsEqualContributions) {
  CpuPackedDevice device(1);
  constexpr std::int64_t kElements = 6400;
  const auto deviation = [&](Rounding rounding) {
    Packed a(codec_of(linear(8), 128, rounding), kElements);
    std::vector<float> g = normal_values(kElements, 1, 1e-3F);
    for (std::size_t i = 0; i < g.size(); i += 128) g[i] = 1.0F;
    for (std::uint32_t m = 0; m < 64; ++m) {
      FoldArgs args;
      args.noise = {5, 1, 7, noise_stream(Role::kAccumulator, m)};
      fold(device, a.view(), 0, kElements, g.data(), args);
      for (std::size_t i = 0; i < g.size(); i += 128) g[i] = 0.0F;  // the steps stay
    }
    const std::vector<float> sum = decoded(device, a);
    const double gap = bf16_to_float(a.view().steps[0]);
    double square = 0;
    for (std::size_t i = 0; i < sum.size(); ++i) {
      if (i % 128 != 0) square += std::pow((sum[i] - 64 * double{g[i]}) / gap, 2);
    }
    return std::sqrt(square / kElements);
  };
  const double sr = deviation(Rounding::kStochastic), qr = deviation(Rounding::kQuasiStochastic);
  EXPECT_GT(sr, 2.0);
  EXPECT_LT(qr, 0.7);
}

}  // namespace
}  // namespace lpmm::kernels
