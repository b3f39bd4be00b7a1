// RMSProp, LARS and Adagrad where norms are 0 or states packed; every rule, packed, on the CPU and the
// emulated device.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "kernels/cpu.h"
#include "kernels/cuda/emulated.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/roles.h"
#include "tests/kernels/device_array.h"
#include "tests/lpmm/memory/given.h"
#include "tests/lpmm/memory/one_tensor.h"
#include "tests/normal_values.h"
#include "tests/sanitized.h"

namespace lpmm {
namespace {

constexpr double kNone = 1e-30;  // an epsilon that no root feels

OptimizerConfig decaying(std::string_view rule, double decay, const GivenSettings& settings = {}) {
  OptimizerConfig c = of_rule(rule, settings);
  c.weight_decay = decay;
  return c;
}

TEST(RmsProp, NoCentredStepIsAboveFourUncentredOnes) {
  Fp32 w(of_rule("rmsprop", {{"alpha", 0.5}, {"epsilon", kNone}, {"centered", 1}}), {2, 2}, 0.0F);
  const float before = w.run(100, 3.0F, 0.125);
  EXPECT_NEAR(w.run(1, 3.0F, 0.125), before - 0.125 * 4, 1e-5);
}

// The mean length of the last of these steps, and the longest of all, of centred RMSProp, rate 1. Gradients
// are `signal` plus `noise` times normal values, times a size of each element.
struct Lengths {
  double mean = 0, longest = 0;
};
Lengths centred_steps(const Policy& policy, float signal, float noise) {
  constexpr int kSteps = 100, kElements = 1024;
  CpuDevice device(2);
  ModelMemory memory({{"w", {32, kElements / 32}}}, policy, of_rule("rmsprop", {{"centered", 1}}), 3, 1,
                     device);
  const std::vector<float> sizes = normal_values(kElements, 1, 0.01F);
  std::vector<float> p(kElements), before(kElements);
  Lengths lengths;
  for (int s = 1; s <= kSteps; ++s) {
    std::vector<float> gradient = normal_values(kElements, 10 + static_cast<std::uint64_t>(s), noise);
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = sizes[i] * (gradient[i] + signal);
    Step this_step = memory.begin_step({static_cast<std::uint32_t>(s), 1});
    this_step.fold(0, 0, gradient, 0);
    EXPECT_TRUE(std::move(this_step).commit().applied);
    memory.decode(0, 0, p);
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double length = std::abs(p[i] - before[i]);
      lengths.longest = std::max(lengths.longest, length);
      if (s == kSteps) lengths.mean += length / kElements;
    }
    before = p;
  }
  return lengths;
}

// Rounded apart, v and mean^2 would meet in up to a third of all elements, and steps be 10^6 long.
TEST(RmsProp, PackedCentredStepsStayNearUnpackedOnes) {
  if (kSanitized) GTEST_SKIP() << kReleaseOnly;
  for (const auto& [signal, noise] : {std::pair{1.0F, 0.0F}, {0.0F, 1.0F}, {0.5F, 1.0F}, {3.0F, 1.0F}}) {
    const Lengths exact = centred_steps(make_policy("fp32"), signal, noise);
    std::set<std::string> seen;
    for (const std::string_view preset : preset_names()) {
      Policy policy = make_policy("fp32");
      std::string specs;
      for (const Role role : {Role::kVariance, Role::kSlowMomentum}) {
        policy.specs[role] = make_policy(preset).specs[role];
        specs += to_string(policy.specs[role]) + " ";
      }
      if (!seen.insert(specs).second) continue;
      const Lengths packed = centred_steps(policy, signal, noise);
      const std::string what = fmt::format("{} signal {} noise {}", preset, signal, noise);
      EXPECT_LT(packed.longest, 40.01) << what << ": 4 / sqrt(1 - alpha)";
      EXPECT_LT(packed.mean, 3 * exact.mean) << what;
      EXPECT_GT(packed.mean, exact.mean / 3) << what;
    }
  }
}

// Rounding does not change where the parameter is after the momentum has run out, p - lr * mu / (1 - mu) * m:
// the gradients, and what is made of them, are those of fp32.
TEST(RmsProp, ErrorFeedbackKeepsWhereTheParameterEnds) {
  CpuDevice device(1);
  std::vector<float> start(2000), p(2000), m(2000), ends;
  for (const char* parameter : {"int6:block64:sr:sticky", "fp32"}) {
    Policy policy = make_policy("fp32");
    policy.specs[Role::kParameter] = parse_spec(parameter);
    policy.error_feedback = ends.empty();
    ModelMemory memory({{"w", {40, 50}}}, policy, of_rule("rmsprop", {{"momentum", 0.5}}), 1, 1, device);
    memory.initialize(0, 0, ends.empty() ? normal_values(2000, 1, 0.1F) : start);
    memory.decode(0, 0, start);
    for (std::uint32_t step = 1; step <= 5; ++step) {
      Step this_step = memory.begin_step({step, 0.01});
      this_step.fold(0, 0, normal_values(2000, 10 + step, 0.1F), 0);
      EXPECT_TRUE(std::move(this_step).commit().applied);
    }
    memory.decode(0, 0, p);
    device.decode(memory.view(0, Role::kMomentum), 0, 2000, m.data());
    for (std::size_t i = 0; i < p.size(); ++i) {
      const float end = p[i] - 0.01F * m[i];
      if (policy.error_feedback) {
        ends.push_back(end);
      } else {
        EXPECT_NEAR(ends[i], end, 2e-6) << i;
      }
    }
  }
}

// The momentum moves the parameter as SGD's does: the rate of the layer is in it.
TEST(Lars, ErrorFeedbackIsSgds) {
  for (const double nesterov : {0.0, 1.0}) {
    const auto rule = [&](std::string_view name) {
      const GivenSettings settings = {{"momentum", 0.9}, {"nesterov", nesterov}};
      return make_rule(of_rule(name, settings), {"w", {2, 2}}, 0.2, 2, 1, true, 0.1);
    };
    const Lars lars = std::get<Lars>(rule("lars"));
    const Sgd sgd = std::get<Sgd>(rule("sgd"));
    EXPECT_GT(lars.feedback, 0);
    EXPECT_EQ(lars.feedback, sgd.feedback);
    EXPECT_EQ(lars.momentum, sgd.momentum) << "it shrinks where the rate rises";
  }
}

TEST(Lars, TheRateIsSgdsWhereANormIsZero) {
  Fp32 zero(of_rule("lars", {{"momentum", 0}}), {4, 4}, 0.0F);
  EXPECT_EQ(zero.run(1, 1.0F, 0.125), -0.125F) << "a tensor that begins at 0 can leave it";
  Fp32 decays(decaying("lars", 0.5, {{"momentum", 0}}), {4, 4}, 2.0F);
  EXPECT_EQ(decays.run(1, 0.0F, 0.25), 1.75F) << "the decay is not lost";
  // A gradient that is nothing against epsilon, and a square that no fp32 number is.
  Fp32 tiny(of_rule("lars", {{"norm_epsilon", kNone}, {"trust_coefficient", 0.5}, {"momentum", 0}}), {4, 4},
            2.0F);
  EXPECT_NEAR(tiny.run(1, 1e-28F, 0.25), 1.75, 0.01);
  Fp32 none(of_rule("lars"), {4, 4}, 2.0F);
  EXPECT_EQ(none.run(2, 1e-38F, 1), 2.0F);
}

TEST(Lars, VectorsTakeSgdsStepsUnlessTheyAreAskedFor) {
  Fp32 bias(of_rule("lars", {{"trust_coefficient", 0.5}}), {16}, 2.0F);
  EXPECT_EQ(bias.run(1, 4.0F, 0.125), 1.5F);
  Fp32 asked(of_rule("lars", {{"trust_coefficient", 0.5}, {"adapt_vectors", 1}}), {16}, 2.0F);
  EXPECT_NEAR(asked.run(1, 4.0F, 0.125), 1.875, 1e-6);
}

TEST(RuleSteps, IllegalSettingsAreRefused) {
  const auto message = [](const GivenSettings& settings) { return refusal_of(of_rule("lars", settings)); };
  EXPECT_NE(message({{"nesterov", 1}, {"momentum", 0}}).find("nesterov is on"), std::string::npos);
  EXPECT_NE(message({{"trust_coefficient", 0}}).find("trust_coefficient is 0, but must be 1e-30 to 1e30"),
            std::string::npos);
  EXPECT_NE(message({{"momentum", 1}}).find("momentum is 1, but must be 0, or 1e-30 to below 1"),
            std::string::npos);
  EXPECT_EQ(message({{"nesterov", 1}, {"momentum", 0.5}}), "");
  EXPECT_THROW(check_optimizer(of_rule("rmsprop", {{"alpha", 1}})), UsageError);
  EXPECT_THROW(check_optimizer(of_rule("rmsprop", {{"epsilon", 0}})), UsageError);
  EXPECT_THROW(check_optimizer(of_rule("adagrad", {{"learning_rate_decay", -1}})), UsageError);
  EXPECT_THROW(check_optimizer(of_rule("adagrad", {{"epsilon", 0}})), UsageError);
}

TEST(LarsClip, NothingIsCutOfATensorOfZerosOrAVector) {
  Fp32 zero(of_rule("lars_clip"), {4, 4}, 0.0F);
  EXPECT_EQ(zero.run(1, 1.0F, 0.125), -0.125F);
  Fp32 bias(of_rule("lars_clip"), {16}, 2.0F);
  EXPECT_EQ(bias.run(1, 4.0F, 0.125), 1.5F);
  Fp32 asked(of_rule("lars_clip", {{"max_share", 0.5}, {"adapt_vectors", 1}}), {16}, 2.0F);
  EXPECT_EQ(asked.run(1, 4.0F, 0.125), 1.875F);
}

// Sums that are stored after many steps, per size of gradient, relative to the sum of the squares.
struct Sums {
  std::vector<double> mean, noise;  // over the elements; the standard error of that mean
  double least = 0;                 // the smallest value of a block, of a gradient of 1; the mean over blocks
};
// Elements of a block have gradients of these sizes in turn, so that each block is the same experiment.
Sums packed_sums(const Spec& spec, int steps, const std::vector<float>& sizes) {
  constexpr int kBlocks = 64, kWidth = 128;
  Policy policy = make_policy("fp32");
  policy.specs[Role::kVariance] = spec;
  CpuDevice device(2);
  ModelMemory memory({{"w", {kBlocks, kWidth}}}, policy, of_rule("adagrad"), 3, 1, device);
  std::vector<float> gradient(kBlocks * kWidth);
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = sizes[i % kWidth % sizes.size()];
  for (int s = 1; s <= steps; ++s) {
    Step this_step = memory.begin_step({static_cast<std::uint32_t>(s), 0.01});
    this_step.fold(0, 0, gradient, 0);
    EXPECT_TRUE(std::move(this_step).commit().applied);
  }
  std::vector<float> v(gradient.size());
  const kernels::RoleView view = memory.view(0, Role::kVariance);
  device.decode(view, 0, view.elements, v.data());
  Sums sums;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    double sum = 0, squares = 0, count = 0;
    for (std::size_t i = 0; i < v.size(); ++i) {
      if (i % kWidth % sizes.size() != k) continue;
      const double x = v[i] / (steps * static_cast<double>(sizes[k]) * sizes[k]);
      sum += x, squares += x * x, ++count;
    }
    sums.mean.push_back(sum / count);
    sums.noise.push_back(std::sqrt(std::max(0.0, squares / count - sum * sum / count / count) / count));
  }
  for (int b = 0; view.steps != nullptr && b < kBlocks; ++b) {
    sums.least += bf16_to_float(view.steps[b]) * std::pow(0.25, spec.format.bits) / steps / kBlocks;
  }
  return sums;
}

// A sum below the smallest value of its block, a 4^-bits th of the step, is stored as that, and lifted again
// where the step rises: in all that adds no more than this value. The rest is unbiased. The step may be above
// the largest sum, as chance lifts the largest element of a block: to twice that, at 4 bits.
TEST(Adagrad, ASumOfManySmallStepsIsUnbiasedWhereStepsAreSticky) {
  if (kSanitized) GTEST_SKIP() << kReleaseOnly;
  const std::vector<float> sizes = {1.0F, 0.7F, 0.3F, 0.1F, 0.01F};
  for (const char* preset : {"lpmm", "lpmm-compact", "lpmm-min", "lpmm-nano"}) {
    const Spec spec = make_policy(preset, of_rule("adagrad")).specs[Role::kVariance];
    for (const int steps : {50, 1000}) {
      const Sums s = packed_sums(spec, steps, sizes);
      EXPECT_LT(s.least, 3 * std::pow(0.25, spec.format.bits)) << preset;
      for (std::size_t k = 0; k < sizes.size(); ++k) {
        const double floor = s.least / (static_cast<double>(sizes[k]) * sizes[k]);
        const std::string what = fmt::format("{} {} steps of {}", to_string(spec), steps, sizes[k]);
        EXPECT_GT(s.mean[k], 1 - 5 * s.noise[k] - 1e-5) << what;
        EXPECT_LT(s.mean[k], 1 + 5 * s.noise[k] + 1e-5 + floor) << what;
      }
    }
  }
}

// So states8 is not for Adagrad in long runs, and a run says so when it begins; lpmm-nano has another
// variance.
TEST(Adagrad, NearestRoundingAndMovingStepsOfFewBitsLoseTheSum) {
  if (kSanitized) GTEST_SKIP() << kReleaseOnly;
  const Sums nearest = packed_sums(make_policy("states8").specs[Role::kVariance], 3000, {1.0F, 0.7F});
  EXPECT_TRUE(nearest.mean[1] < 0.8 || nearest.mean[1] > 1.25) << nearest.mean[1];
  const Sums moving = packed_sums(parse_spec("sqrt02:block128:sr"), 3000, {1.0F, 0.7F});
  EXPECT_GT(moving.mean[1], 1.5);
}

// A sum only grows, and so does a sticky step: it would fall where all values of its block fell below 0.66 of
// it, and none does. A stored sum falls by chance alone, from one level to the next of the same ones.
TEST(Adagrad, StickyStepsOfBlocksOnlyRise) {
  CpuDevice device(2);
  const OptimizerConfig adagrad = of_rule("adagrad");
  for (const char* preset : {"lpmm", "lpmm-compact", "lpmm-min"}) {
    ModelMemory memory({{"w", {64, 128}}}, make_policy(preset, adagrad), adagrad, 3, 1, device);
    const kernels::RoleView view = memory.view(0, Role::kVariance);
    const std::int64_t blocks = view.elements / view.codec.block;
    std::vector<std::uint16_t> before(static_cast<std::size_t>(blocks));
    int rises = 0;
    for (std::uint32_t s = 1; s <= 300; ++s) {
      Step this_step = memory.begin_step({s, 0.01});
      this_step.fold(0, 0, normal_values(64 * 128, s, 0.1F), 0);
      EXPECT_TRUE(std::move(this_step).commit().applied);
      for (std::size_t b = 0; b < before.size(); ++b) {
        ASSERT_GE(bf16_to_float(view.steps[b]), bf16_to_float(before[b])) << preset << " update " << s;
        rises += view.steps[b] != before[b] ? 1 : 0;
        before[b] = view.steps[b];
      }
    }
    EXPECT_GT(rises, 5 * blocks) << preset;
  }
}

// Bytes of every role after steps of drawn gradients.
std::vector<std::vector<std::uint8_t>> bytes_after(Device& device, const OptimizerConfig& config,
                                                   const Policy& policy, int steps) {
  const std::vector<TensorInfo> tensors = {{"w", {9, 130}},
                                           {"b", {37}},
                                           {"one", {1, 1}},
                                           {"tall", {200, 3}},
                                           {"three", {27, 10}, TensorKind::kHidden, 3},
                                           {"rows", {10, 12}, TensorKind::kEmbedding},
                                           {"zero", {2, 64}}};
  ModelMemory memory(tensors, policy, config, 5, 1, device);
  for (int i = 0; i < 6; ++i) memory.initialize(i, 0, normal_values(memory.info(i).elements(), 1, 0.1F));
  for (int s = 1; s <= steps; ++s) {
    Step this_step = memory.begin_step({static_cast<std::uint32_t>(s), 0.05 / s});
    for (int i = 0; i < memory.tensors(); ++i) {
      const float scale = s % 7 == 0 ? 0.0F : 0.1F;
      const auto seed = static_cast<std::uint64_t>(100 * s + i);
      const std::vector<float>& gradient = kept_normal_values(memory.info(i).elements(), seed, scale);
      const kernels::DeviceArray<float> there(device, gradient);
      this_step.fold(i, 0, {there.data(), gradient.size()}, 0);
    }
    EXPECT_TRUE(std::move(this_step).commit().applied);
  }
  std::vector<std::vector<std::uint8_t>> all;
  for (int i = 0; i < memory.tensors(); ++i) {
    for (const Role role : kEveryRole) {
      const kernels::RoleView v = memory.view(i, role);
      if (v.codes == nullptr) continue;
      auto& codes = all.emplace_back(static_cast<std::size_t>(code_bytes(v.codec.format, v.elements)));
      device.download(codes.data(), v.codes, static_cast<std::int64_t>(codes.size()));
      if (v.steps == nullptr) continue;
      auto& of_steps = all.emplace_back(static_cast<std::size_t>(step_bytes(v.codec, v.elements)));
      device.download(of_steps.data(), v.steps, static_cast<std::int64_t>(of_steps.size()));
    }
  }
  return all;
}

// Every rule as it is usually used, and with settings that change its states or passes.
std::vector<OptimizerConfig> usual_and_other_rules() {
  std::vector<OptimizerConfig> all;
  const auto add = [&](std::string_view rule, const GivenSettings& settings) {
    OptimizerConfig& c = all.emplace_back(decaying(rule, 0.01, settings));
    if (c.settings.find("momentum") == nullptr) give(c, "momentum", 0.9);
    give(c, "trust_coefficient", 0.02);
  };
  for (const std::string_view name : rule_names()) add(name, {});
  add("adamw", {{"update_clip", 0.9}});
  add("lamb", {{"min_weight_norm", 0.5}, {"max_weight_norm", 2}});
  add("lamb", {{"trust_clip", 1}, {"adapt_vectors", 1}});
  add("adafactor", {{"beta1", 0.9}});
  add("rmsprop", {{"centered", 1}});
  add("rmsprop", {{"centered", 1}, {"momentum", 0}});
  add("ademamix", {{"beta1", 0}, {"beta3", 0.99}, {"slow_weight_warmup", 4}, {"beta3_warmup", 6}});
  return all;
}

TEST(RuleSteps, PackedOnesAreTheSameOnCpuAndEmulatedDevice) {
  constexpr int kSteps = 8;
  CpuDevice cpu(2);
  kernels::EmulatedCuda emulated(2, false);
  for (const OptimizerConfig& c : usual_and_other_rules()) {
    for (const char* preset : {"fp32", "states8", "thu4", "lpmm", "lpmm-min", "lpmm-nano"}) {
      for (const bool feedback : {false, true}) {
        const RuleRow& row = rule_row(c.rule);
        if (feedback && (!row.no_feedback.empty() || row.momentum_kept(c.settings) == 0)) continue;
        Policy policy = make_policy(preset, c);
        policy.error_feedback = feedback;
        policy.min_elements = 0;
        EXPECT_TRUE(bytes_after(cpu, c, policy, kSteps) == bytes_after(emulated, c, policy, kSteps))
            << row.name << " " << preset << (feedback ? " with feedback" : "");
      }
    }
  }
}

}  // namespace
}  // namespace lpmm
