// Every instruction set and number of threads gives the bits of the scalar code.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>

#include "kernels/cpu/sets/instruction_sets.h"
#include "kernels/cpu_packed.h"
#include "tests/kernels/every_rule.h"
#include "tests/kernels/support.h"
#include "tests/sanitized.h"

namespace lpmm::kernels {
namespace {

std::vector<std::string> levels() {
  return {simd_levels().begin(), simd_levels().end()};
}

class Simd : public testing::Test {
 protected:
  void TearDown() override { use_simd_level(""); }
};

// Magnitudes over many decades, exact zeros, negative zeros and one all-zero block.
std::vector<float> hard_values(std::int64_t count, std::uint32_t seed, bool positive) {
  std::vector<float> x = normal_values(count, seed, 1.0F, positive);
  std::mt19937 generator(seed);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::uint32_t kind = generator() % 8;
    if (kind == 0) x[i] = 0.0F;
    if (kind == 1) x[i] = -0.0F;
    if (kind == 2) x[i] *= std::ldexp(1.0F, -static_cast<int>(generator() % 40));
    if (kind == 3) x[i] = std::round(x[i] * 8.0F) / 8.0F;
    if (i / 64 % 7 == 5) x[i] = 0.0F;
    if (i / 64 % 7 == 6) x[i] *= 1e-33F;
  }
  return x;
}

struct Outcome {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint16_t> steps;
  std::vector<float> values;
  std::vector<std::uint16_t> halves;
  double squares = 0;
  bool good = true;
  bool operator==(const Outcome&) const = default;
};

Outcome write_twice_and_fold(PackedDevice& device, const Codec& codec, std::int64_t n) {
  const bool positive = !is_signed(codec.format.map);
  const auto size = static_cast<std::size_t>(n);
  Packed tensor(codec, n);
  Outcome out;
  // A misaligned source, and a second write that finds old steps.
  for (std::uint32_t round = 0; round < 2; ++round) {
    std::vector<float> x = hard_values(n + 1, 10 + round, positive);
    out.good = encode(device, tensor.view(), 0, n, x.data() + 1, {7, 3, round, 2}) && out.good;
  }
  std::vector<float> values(size + 1);
  device.decode(tensor.view(), 0, n, values.data() + 1);
  out.values.assign(values.begin() + 1, values.end());
  for (float& v : out.values) v += 0.0F;
  FoldArgs fold_args;
  fold_args.scale = 0.25F;
  fold_args.noise = {9, 3, 4, noise_stream(Role::kAccumulator, 2, 1)};
  fold_args.want_square_sum = true;
  for (int k = 0; k < 3; ++k) {
    const std::vector<float> g = hard_values(n + 1, 20 + static_cast<std::uint32_t>(k), positive);
    const FoldResult r = fold(device, tensor.view(), 0, n, g.data() + 1, fold_args);
    out.good = out.good && r.finite;
    out.squares += r.square_sum;
  }
  out.squares += square_sum(device, tensor.view(), 0, n);
  out.halves.resize(size);
  device.decode_bf16(tensor.view(), 0, n, out.halves.data());
  out.codes = tensor.codes();
  out.steps = tensor.steps();
  EXPECT_TRUE(tensor.intact());
  return out;
}

TEST_F(Simd, CodecsAreBitEqualOnEveryTail) {
  CpuPackedDevice one(1);
  for (const Format f : stored_formats()) {
    for (const Rounding rounding : {Rounding::kNearest, Rounding::kStochastic, Rounding::kQuasiStochastic,
                                    Rounding::kUpdate, Rounding::kAverage}) {
      if (!can_round(f.map, rounding)) continue;
      for (const StepMode mode : {StepMode::kMoving, StepMode::kSticky}) {
        for (const std::int64_t n : {1, 7, 63, 64, 65, 127, 128, 129, 259, 1025, 2200}) {
          const int block = n % 3 == 0 ? 64 : n % 3 == 1 ? 128 : 512;
          const Codec codec = codec_of(f, block, rounding, mode);
          use_simd_level("scalar");
          const Outcome expected = write_twice_and_fold(one, codec, n);
          for (const std::string& level : levels()) {
            use_simd_level(level.c_str());
            EXPECT_TRUE(write_twice_and_fold(one, codec, n) == expected)
                << to_string(f) << " block " << block << " n " << n << " at " << level;
          }
        }
      }
    }
  }
}

// Any codes of packed formats, with any steps of which every second one is 0; numbers are hard values.
void fill(PackedDevice& device, Packed& tensor, std::uint32_t seed) {
  const RoleView& view = tensor.view();
  const Format f = view.codec.format;
  if (!is_packed(f)) {
    const std::vector<float> x = hard_values(view.elements, seed, !is_signed(f.map));
    EXPECT_TRUE(encode(device, view, 0, view.elements, x.data(), {7, 3, seed, 2}));
    return;
  }
  std::mt19937 random(seed);
  std::generate_n(view.codes, code_bytes(f, view.elements),
                  [&] { return static_cast<std::uint8_t>(random()); });
  std::generate_n(view.steps, steps_of(view.codec, view.elements), [&]() -> std::uint16_t {
    const auto drawn = static_cast<std::uint32_t>(random());
    if (drawn >> 31 == 0) return 0;
    const std::uint32_t step = 0x3B00 + drawn % 0x800;  // 2^-9 to 2^7, near enough for sums to round
    if (!has_range(f.map)) return static_cast<std::uint16_t>(step);
    return static_cast<std::uint16_t>((step & kRangedStep) | range_bits(drawn >> 16 & 31));
  });
}

// Of one term, and of as many as are decoded at once with and without others before and after them.
TEST_F(Simd, SumsAreBitEqualToTermsAddedAsATree) {
  CpuPackedDevice one(1);
  for (const Format f : stored_formats()) {
    for (const int block : {64, 128, 512}) {
      for (const std::int64_t n : {1, 65, 1025, 9002}) {
        std::deque<Packed> terms;
        std::vector<RoleView> views;
        std::vector<std::vector<float>> x;
        use_simd_level("scalar");
        for (std::uint32_t k = 0; k < 12; ++k) {
          fill(one, terms.emplace_back(codec_of(f, block), n), 30 + k);
          views.push_back(terms.back().view());
          x.push_back(decoded(one, terms.back()));
        }
        const DeviceMemory room = one.allocate(4 * groups_of(n) * kGroup);
        auto* const sum = reinterpret_cast<float*>(room.get());
        for (const std::size_t count : {1U, 2U, 3U, 4U, 5U, 7U, 8U, 12U}) {
          const std::vector<float> wanted =
              added_as_tree({x.begin(), x.begin() + static_cast<std::ptrdiff_t>(count)});
          for (const std::string& level : levels()) {
            use_simd_level(level.c_str());
            one.decode_sum({views.data(), count}, sum, nullptr);
            EXPECT_TRUE(same_bits({sum, sum + n}, wanted))
                << to_string(f) << " block " << block << " n " << n << " of " << count << " at " << level;
          }
        }
      }
    }
  }
}

// A tensor's roles; states that the rule does not keep are not there.
struct StoredRoles {
  RoleArray<std::unique_ptr<Packed>> of;
  RoleArray<RoleView> views;
  StoredRoles(const RoleArray<Codec>& codecs, const Rule& rule, std::int64_t n) {
    for (const Role role : kEveryRole) {
      if (!has_role(rule, codecs, role)) continue;
      of[role] = std::make_unique<Packed>(is_per_element(role) ? codecs[role] : Codec(), values_of(role, n));
      views[role] = of[role]->view();
    }
  }
};

// Two folds and an update, three times over, with the ledger's counts in the last.
void train(PackedDevice& device, StoredRoles& roles, const Rule& rule, std::int64_t n,
           RoleArray<ChangeStats>& stats) {
  const std::vector<float>& start = kept_normal_values(n, 1, 0.1F);
  EXPECT_TRUE(encode(device, roles.views[Role::kParameter], 0, n, start.data(), {5, 1, 0, 0}));
  for (std::uint32_t step = 1; step <= 3; ++step) {
    for (std::uint32_t k = 0; k < 2; ++k) {
      const std::vector<float>& g = kept_normal_values(n, 10 * step + k, 0.01F);
      FoldArgs args;
      args.scale = 0.5F;
      args.noise = {5, 1, step, noise_stream(Role::kAccumulator, k)};
      EXPECT_TRUE(fold(device, roles.views[Role::kAccumulator], 0, n, g.data(), args).finite);
    }
    UpdateArgs args;
    args.roles = roles.views;
    args.noise = {5, 1, step, 0};
    if (step == 3) args.stats = &stats;
    EXPECT_TRUE(update(device, rule, args));
  }
}

TEST_F(Simd, UpdatesAreBitEqualForAnyThreadsAndSet) {
  const auto i = [](int bits, StepMode mode = StepMode::kMoving) {
    return codec_of({Map::kLinear, static_cast<std::uint8_t>(bits)}, 128, Rounding::kStochastic, mode);
  };
  const auto t = [](Map map, int bits, StepMode mode = StepMode::kMoving) {
    return codec_of({map, static_cast<std::uint8_t>(bits)}, 128, Rounding::kStochastic, mode);
  };
  const Codec bf16 = codec_of({Map::kBf16, 16});
  const Codec fp32 = codec_of({Map::kFp32, 32});
  const StepMode sticky = StepMode::kSticky;
  const auto apart = [](Codec codec, int block, Scaling scaling, std::uint8_t step_bits) {
    codec.block = block;
    codec.scaling = scaling;
    codec.step_bits = step_bits;
    return codec;
  };
  std::vector<RoleArray<Codec>> policies = {
      {{i(12, sticky), i(8), i(8), t(Map::kSquareRoot, 8, sticky)}},
      {{i(8, sticky), i(4), t(Map::kSoftsign, 4), t(Map::kSquareRoot, 4, sticky)}},
      {{i(6, sticky), i(3), t(Map::kSoftsign, 3), t(Map::kSquareRoot, 3, sticky)}},
      {{i(10, sticky), i(7), t(Map::kSoftsign, 8), t(Map::kLinearNoZero, 8, sticky)}},
      {{i(16, sticky), i(2), t(Map::kDynamic, 8), t(Map::kDynamicNoZero, 8)}},
      {{i(5), i(16), t(Map::kDynamic, 4), t(Map::kDynamicUnsigned, 4)}},
      {{bf16, bf16, bf16, t(Map::kDynamicUnsigned, 8)}},
      {{i(5), i(16), t(Map::kDynamic, 6), t(Map::kLog, 4)}},
      {{i(6), i(4), t(Map::kSoftsign, 5), t(Map::kLog, 8, sticky)}},
      {{i(6), i(4), t(Map::kDynamic, 5), t(Map::kLog, 2, sticky)}},
      {{i(8), i(8), apart(t(Map::kDynamic, 8), 128, Scaling::kBlocks, 32),
        apart(t(Map::kDynamicUnsigned, 8), 256, Scaling::kBlocks, 32)}},
      {{i(6), i(4), apart(t(Map::kDynamic, 4), 61, Scaling::kRank1, 16),
        apart(t(Map::kLinearNoZero, 4), 500, Scaling::kRank1, 32)}},
      {{i(6), i(4), apart(i(8), 3000, Scaling::kRows, 32),
        apart(t(Map::kSquareRootWithZero, 8), 1, Scaling::kRows, 16)}},
      {{i(8, sticky), i(4), t(Map::kSoftsign, 4), t(Map::kSquareRoot, 4, sticky), i(12), i(4)}},
      {{bf16, bf16, t(Map::kSoftsign, 8), t(Map::kSquareRoot, 8), i(12), codec_of({Map::kUlp, 8})}},
      {{fp32, fp32, fp32, fp32}},
  };
  for (auto& policy : policies) policy[Role::kSlowMomentum] = policy[Role::kParameter];
  // The same with qr: other bytes, but for any set and threads the same ones.
  for (std::size_t p = 0, n = policies.size() - 1; p < n; ++p) {
    policies.push_back(policies[p]);
    for (Codec& codec : policies.back()) codec.rounding = Rounding::kQuasiStochastic;
  }
  Sgd sgd;
  sgd.learning_rate = 0.05F;
  sgd.momentum = 0.9F;
  sgd.coupled_decay = 1e-4F;
  sgd.gradient_scale = 0.7F;
  Adam adam;
  adam.step_size = 1e-3F;
  adam.beta1 = 0.9F;
  adam.one_minus_beta1 = 0.1F;
  adam.beta2 = 0.999F;
  adam.one_minus_beta2 = 0.001F;
  adam.variance_scale = 3.0F;
  adam.decay_factor = 0.999F;
  // The first two with every policy, the rest with every seventh, each with others. Sanitizers see every
  // policy with some rules, and not one thread where there are three.
  std::vector<Rule> rules = {sgd, adam};
  for (const Rule& rule : every_rule()) rules.push_back(rule);
  for (const Rule& rule : every_fed_rule()) rules.push_back(rule);
  for (std::size_t r = 0; r < rules.size(); ++r) {
    const Rule& rule = rules[r];
    const std::size_t every = (r >= 2 ? 7 : 1) * (kSanitized ? (r >= 2 ? 2 : 4) : 1);
    for (std::size_t p = r % every; p < policies.size(); p += every) {
      const RoleArray<Codec>& policy = policies[p];
      if (!has_blocks(policy[Role::kMomentum]) && feeds_back(rule)) continue;
      for (const std::int64_t n : {1, 70, 2000, 9002}) {
        CpuPackedDevice one(1);
        RoleArray<ChangeStats> expected_stats;
        StoredRoles expected(policy, rule, n);
        use_simd_level("scalar");
        train(one, expected, rule, n, expected_stats);
        for (const std::string& level : levels()) {
          const int most = n == 9002 ? 3 : 1;
          for (int threads = kSanitized ? most : 1; threads <= most; ++threads) {
            CpuPackedDevice device(threads);
            use_simd_level(level.c_str());
            RoleArray<ChangeStats> stats;
            StoredRoles roles(policy, rule, n);
            train(device, roles, rule, n, stats);
            const std::string where = level + " " + std::to_string(threads) + " threads, p " +
                                      to_string(policy[Role::kParameter].format) + " n " + std::to_string(n);
            for (const Role r : kEveryRole) {
              if (roles.of[r] == nullptr) continue;
              const Packed &is = *roles.of[r], &wanted = *expected.of[r];
              EXPECT_TRUE(r == Role::kAccumulator ? is.steps() == wanted.steps() : is == wanted)
                  << where << ", " << kRoleRows[r].name;
              EXPECT_EQ(stats[r].underflows, expected_stats[r].underflows) << where;
              EXPECT_EQ(stats[r].change_error_squared, expected_stats[r].change_error_squared) << where;
              EXPECT_EQ(stats[r].change_in_gaps, expected_stats[r].change_in_gaps) << where;
            }
          }
        }
      }
    }
  }
}

// The quotient of the vector code: the product with the rounded reciprocal, mended by its residual.
float mended_quotient(float x, float step) {
  const float inverse = 1.0F / step;
  const float q = x * inverse;
  return std::fma(std::fma(-q, step, x), inverse, q);
}

// Every mantissa of a step and values spread over the mantissas: it is x / step.
TEST_F(Simd, MendedProductsAreQuotients) {
  std::int64_t wrong = 0;
  for (int s = 128; s < 256; ++s) {
    for (std::uint32_t mantissa = static_cast<std::uint32_t>(s); mantissa < 1U << 23; mantissa += 1021) {
      const float x = bits_float(0x3F800000U | mantissa);
      wrong += mended_quotient(x, static_cast<float>(s)) != x / static_cast<float>(s);
    }
  }
  EXPECT_EQ(wrong, 0);
}

// Every bf16 step there is, and the 2^-16 of it that stochastic rounding divides by, with random values and
// with the hardest ones: beside codes and beside the middle of two.
TEST_F(Simd, EveryStepDividesRandomAndHardValues) {
  std::mt19937 random(7);
  std::int64_t compared = 0, wrong = 0;
  const auto compare = [&](float x, float step) {
    if (!(std::abs(x) <= kMaxMagnitude) || std::abs(x) < step * 0.125F) return;
    ++compared;
    wrong += mended_quotient(x, step) != x / step;
  };
  for (std::uint32_t bits = float_to_bf16(kMinStep); bits <= float_to_bf16(kMaxMagnitude); ++bits) {
    const float of_block = bf16_to_float(static_cast<std::uint16_t>(bits));
    for (const float step : {of_block, of_block * 0x1p-16F}) {
      for (int i = 0; i < 4; ++i) {
        const auto code = static_cast<float>(1 + random() % 32767);
        for (const float middle : {code * step, (code + 0.5F) * step}) {
          compare(middle, step);
          compare(std::nextafter(middle, 0.0F), step);
          compare(std::nextafter(middle, kMaxMagnitude), step);
        }
        compare(bits_float(float_bits(step) + (random() & 0x7FFFFFU)) * code, step);
      }
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(compared, 1000000);
}

// Beside every held pair of codes: each power of 2 that a code stands for and what lies just below it, signed
// zeros, infinities and NaN, divided by each other.
TEST_F(Simd, RaisesPeaksOfSpecialValuesToo) {
  std::vector<float> special = {0.0F, -0.0F, 1e-45F, -3e38F, HUGE_VALF, -HUGE_VALF, NAN};
  for (int exponent = -14; exponent <= 18; ++exponent) {
    const float power = std::ldexp(1.0F, exponent);
    special.insert(special.end(), {power, -std::nextafter(power, 0.0F), 1.4F * power});
  }
  const auto count =
      static_cast<std::int64_t>(special.size() * special.size() + kGroup - 1) / kGroup * kGroup;
  CpuPackedDevice device(1);
  const DeviceMemory room = device.allocate(8 * count);  // aligned
  auto* const values = reinterpret_cast<float*>(room.get());
  float* const beside = values + count;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    values[i] = special[i % special.size()];
    beside[i] = special[i / special.size() % special.size()];
  }
  for (int held = 0; held < 256; ++held) {
    const auto raised = [&](const TileKernels& kernels) {
      std::vector<std::uint8_t> codes(static_cast<std::size_t>(count), static_cast<std::uint8_t>(held));
      kernels.raise_peaks(Peak::kUpdate, values, beside, count, codes.data());
      kernels.raise_peaks(Peak::kRatio, values, values, count, codes.data() + count / 2);
      return codes;
    };
    const std::vector<std::uint8_t> expected = raised(scalar_tile_kernels());
    for (const InstructionSet& set : instruction_sets()) {
      ASSERT_EQ(raised(*set.tile), expected) << set.tile->name << ", held " << held;
    }
  }
}

TEST_F(Simd, UnknownSetIsRefused) {
  EXPECT_THROW(use_simd_level("mmx"), std::invalid_argument);
  EXPECT_EQ(levels().back(), "scalar");
}

}  // namespace
}  // namespace lpmm::kernels
