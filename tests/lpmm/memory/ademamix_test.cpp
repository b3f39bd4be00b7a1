// AdEMAMix against closed forms, and what packed slow momenta keep of an average over thousands of steps.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/roles.h"
#include "tests/lpmm/memory/one_tensor.h"
#include "tests/normal_values.h"

namespace lpmm {
namespace {

constexpr double kNone = 1e-30;  // an epsilon that no root feels

OptimizerConfig ademamix(const GivenSettings& settings = {}) {
  return of_rule("ademamix", settings);
}

// m^ and v^ are g and g^2 in every step, the slow momentum is g * (1 - beta3^t).
TEST(AdEmaMix, AConstantGradientMakesKnownSteps) {
  for (const float gradient : {1e-15F, -0.25F, 0x1p58F}) {
    for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{7, 300}, {1, 1}, {5}}) {
      Fp32 w(
          ademamix({{"beta1", 0.5}, {"beta2", 0.75}, {"beta3", 0.5}, {"slow_weight", 2}, {"epsilon", kNone}}),
          shape, 1.0F);
      double expected = 1;
      for (int t = 1; t <= 4; ++t) {
        const double average = 1 - std::pow(0.5, t);
        expected -= std::copysign(0.125 * (1 + 2 * average), gradient);
        EXPECT_NEAR(w.run(1, gradient, 0.125), expected, 2e-6) << gradient;
        EXPECT_NEAR(w.momentum() / gradient, average, 1e-6);
        EXPECT_NEAR(w.state(Role::kSlowMomentum) / gradient, average, 1e-6);
        EXPECT_NEAR(w.state(Role::kVariance) / gradient / gradient, 1 - std::pow(0.75, t), 1e-6);
      }
    }
  }
}

TEST(AdEmaMix, WithoutSlowWeightItIsAdamW) {
  const GivenSettings settings = {{"beta1", 0.75}, {"beta2", 0.5}, {"slow_weight", 0}};
  OptimizerConfig c = ademamix(settings), adamw = of_rule("adamw", settings);
  c.weight_decay = adamw.weight_decay = 0.25;
  Fp32 a(c, {3, 50}, 1.0F), b(adamw, {3, 50}, 1.0F);
  for (const float gradient : {1.0F, -3.0F, 0.0F, 0.125F}) {
    EXPECT_NEAR(a.run(2, gradient, 0.0625), b.run(2, gradient, 0.0625), 1e-6);
  }
}

TEST(AdEmaMix, WithoutBeta1ThereIsNoFastMomentum) {
  const OptimizerConfig c = ademamix({{"beta1", 0}, {"beta3", 0.5}, {"slow_weight", 4}, {"epsilon", kNone}});
  EXPECT_FALSE(uses(c, Role::kMomentum)) << "there is no memory for it then";
  EXPECT_TRUE(uses(c, Role::kVariance) && uses(c, Role::kSlowMomentum));
  EXPECT_FALSE(uses(of_rule("adamw"), Role::kSlowMomentum)) << "other rules pay nothing for the role";
  Fp32 w(c, {4, 4}, 0.0F);
  EXPECT_EQ(w.memory.view(0, Role::kMomentum).codes, nullptr);
  EXPECT_NEAR(w.run(2, -3.0F, 0.125), 0.125 * (1 + 2 + 1 + 3), 1e-6);
}

TEST(AdEmaMix, DecayIsDecoupledAndNothingMovesWithoutEither) {
  OptimizerConfig c = ademamix();
  c.weight_decay = 0.5;
  Fp32 decays(c, {3, 3}, 16.0F);
  EXPECT_EQ(decays.run(2, 0.0F, 0.5), 9.0F);
  Fp32 still(ademamix(), {4, 5}, 2.0F);
  EXPECT_EQ(still.run(3, 0.0F, 0.125), 2.0F);
  for (const Role role : {Role::kMomentum, Role::kVariance, Role::kSlowMomentum}) {
    EXPECT_EQ(still.state(role), 0.0F);
  }
}

TEST(AdEmaMix, SlowWeightRisesLinearly) {
  AdEmaMix::Settings s;
  s.slow_weight = 8;
  EXPECT_EQ(AdEmaMix::slow_weight_at(s, 1), 8) << "without a warm-up";
  s.slow_weight_warmup = 100;
  for (const auto& [update, weight] : {std::pair{0, 0.0}, {25, 2.0}, {50, 4.0}, {100, 8.0}, {1000, 8.0}}) {
    EXPECT_EQ(AdEmaMix::slow_weight_at(s, update), weight) << update;
    if (update == 0) continue;
    const AdEmaMix rule = AdEmaMix::make(s, {.update = update});
    EXPECT_EQ(rule.slow_weight, static_cast<float>(weight)) << update;
  }
}

// The steps in which a share halves, ln 2 / -ln beta, are those of beta1 at first, half-way between at half
// the warm-up, and those of beta3 from its end on.
TEST(AdEmaMix, HalfLivesOfTheSlowMomentumRiseLinearly) {
  const auto half_life = [](double beta) { return std::log(0.5) / std::log(beta); };
  AdEmaMix::Settings s;
  EXPECT_EQ(AdEmaMix::beta3_at(s, 1), s.beta3) << "without a warm-up";
  s.beta3_warmup = 1000;
  const double first = half_life(s.beta1), last = half_life(s.beta3);
  EXPECT_NEAR(AdEmaMix::beta3_at(s, 0), s.beta1, 1e-12);
  EXPECT_NEAR(half_life(AdEmaMix::beta3_at(s, 250)), 0.75 * first + 0.25 * last, 1e-6);
  EXPECT_NEAR(half_life(AdEmaMix::beta3_at(s, 500)), 0.5 * (first + last), 1e-6);
  EXPECT_EQ(AdEmaMix::beta3_at(s, 1000), s.beta3);
  EXPECT_EQ(AdEmaMix::beta3_at(s, 5000), s.beta3);
  EXPECT_EQ(AdEmaMix::make(s, {.update = 500}).beta3, static_cast<float>(AdEmaMix::beta3_at(s, 500)));
  s.beta1 = 0;  // of half-life 0
  EXPECT_EQ(AdEmaMix::beta3_at(s, 0), 0);
  EXPECT_NEAR(half_life(AdEmaMix::beta3_at(s, 500)), 0.5 * last, 1e-6);
  s.beta3 = 0;
  for (const double update : {0.0, 500.0, 1000.0}) EXPECT_EQ(AdEmaMix::beta3_at(s, update), 0) << update;
}

TEST(AdEmaMix, ErrorFeedbackIsAdamWsAndIntoTheFastMomentum) {
  const auto rule = [&](std::string_view name) {
    return make_rule(of_rule(name, {{"beta1", 0.75}}), {"w", {2, 2}}, 0.2, 2, 1, true, 0.1);
  };
  const auto mix = std::get<AdEmaMix>(rule("ademamix"));
  const auto adamw = std::get<AdamW>(rule("adamw"));
  EXPECT_GT(mix.feedback, 0);
  EXPECT_EQ(mix.feedback, adamw.feedback);
  EXPECT_EQ(mix.beta1, adamw.beta1) << "it shrinks where the rate rises";
  Elements<float> x{}, y{};
  x[Role::kVariance] = y[Role::kVariance] = 4;
  mix.feed_back(0.5F, x);
  adamw.feed_back(0.5F, y);
  EXPECT_EQ(x[Role::kMomentum], y[Role::kMomentum]);
  EXPECT_EQ(x[Role::kSlowMomentum], 0.0F);
}

TEST(AdEmaMix, IllegalSettingsAreRefused) {
  const auto message = [](const GivenSettings& settings) { return refusal_of(ademamix(settings)); };
  EXPECT_NE(message({{"beta3", 0.5}}).find("beta3 is below beta1"), std::string::npos);
  EXPECT_NE(message({{"beta3", 1}}).find("beta3 is 1, but must be 0, or 1e-30 to below 1"),
            std::string::npos);
  EXPECT_NE(message({{"slow_weight", -1}}).find("slow_weight is -1, but must be 0, or 1e-30 to 1e30"),
            std::string::npos);
  EXPECT_NE(message({{"beta3_warmup", -1}}).find("beta3_warmup"), std::string::npos);
  EXPECT_EQ(message({{"beta1", 0}, {"beta3", 0.5}, {"slow_weight", 0}}), "");
}

// The distance of slow momenta after these steps from that of fp32, relative to it, by their spec.
std::vector<double> slow_errors(const std::vector<std::string>& specs, int steps) {
  const std::vector<TensorInfo> tensors = {{"w", {16, 128}}};
  CpuDevice device(2);
  std::vector<std::unique_ptr<ModelMemory>> all;
  for (const std::string& spec : specs) {
    Policy policy = make_policy("fp32");
    policy.specs[Role::kSlowMomentum] = parse_spec(spec);
    all.push_back(std::make_unique<ModelMemory>(tensors, policy, ademamix(), 3, 1, device));
  }
  const auto elements = static_cast<std::size_t>(tensors[0].elements());
  const std::vector<float> sizes = normal_values(tensors[0].elements(), 1, 0.01F);
  for (int s = 1; s <= steps; ++s) {
    std::vector<float> gradient = normal_values(tensors[0].elements(), 10 + static_cast<std::uint64_t>(s), 1);
    for (std::size_t i = 0; i < elements; ++i) gradient[i] = sizes[i] * (gradient[i] + 0.02F);
    for (const auto& memory : all) {
      memory->begin_step(static_cast<std::uint32_t>(s));
      memory->fold(0, 0, gradient, 0);
      EXPECT_TRUE(memory->commit(1e-6).applied);
    }
  }
  std::vector<double> errors;
  std::vector<float> exact(elements), stored(elements);
  device.decode(all[0]->view(0, Role::kSlowMomentum), 0, tensors[0].elements(), exact.data());
  for (const auto& memory : all) {
    device.decode(memory->view(0, Role::kSlowMomentum), 0, tensors[0].elements(), stored.data());
    double error = 0, size = 0;
    for (std::size_t i = 0; i < elements; ++i) {
      error += (stored[i] - exact[i]) * (stored[i] - exact[i]);
      size += exact[i] * exact[i];
    }
    errors.push_back(std::sqrt(error / size));
  }
  return errors;
}

// A gradient's share of an average with beta3 = 0.9999 is far below a gap of 8 bits.
TEST(AdEmaMix, PresetsKeepTheSlowMomentumAndEightBitsDoNot) {
  std::vector<std::string> specs = {"fp32"};
  const std::vector<std::string> presets = {"lpmm", "lpmm-compact", "lpmm-min", "lpmm-nano"};
  for (const std::string& preset : presets) {
    specs.push_back(to_string(make_policy(preset).specs[Role::kSlowMomentum]));
  }
  const std::size_t others = specs.size();
  for (const char* spec : {"int8:block128:sr:sticky", "int8:block128:qr:sticky", "int8:block128:rn"}) {
    specs.emplace_back(spec);
  }
  specs.push_back(to_string(make_policy("states8").specs[Role::kSlowMomentum]));
  const std::vector<double> errors = slow_errors(specs, 1500);
  for (std::size_t i = 1; i < specs.size(); ++i) {
    if (i < others) {
      EXPECT_LT(errors[i], 0.05) << presets[i - 1];
    } else {
      EXPECT_GT(errors[i], 0.15) << specs[i];
    }
  }
}

}  // namespace
}  // namespace lpmm
