// Gradients that are accumulated in the momentum of SGD: no accumulator, and the same algorithm.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/model_memory.h"
#include "tests/lpmm/memory/drawn_values.h"

namespace lpmm {
namespace {

const std::vector<TensorInfo> kLayers = {{"a.weight", {40, 50}}, {"b.weight", {30, 70}}, {"b.bias", {70}}};

OptimizerConfig sgd() {
  OptimizerConfig o;
  o.learning_rate = 0.05;
  o.settings["momentum"] = 0.9;
  o.weight_decay = 0.01;
  return o;
}

Policy in_momentum(Policy policy) {
  policy.accumulate_in_momentum = true;
  return policy;
}
Policy packed() {
  Policy policy = in_momentum(make_policy("fp32"));
  policy.specs[Role::kParameter] = parse_spec("int8:block128:qr:sticky");
  policy.specs[Role::kMomentum] = parse_spec("soft4:block64:qr");
  return policy;
}

constexpr float kDeviation = 0.1F;  // deviation of the gradients

void run_accumulated_step(ModelMemory& memory, std::uint32_t step) {
  ASSERT_TRUE(folded_step(memory, {step, 0.05 / step}, kDeviation).commit().applied);
}

std::vector<float> decoded(const ModelMemory& memory, int tensor, Role role) {
  const kernels::RoleView v = memory.view(tensor, role);
  std::vector<float> values(static_cast<std::size_t>(v.elements));
  memory.device().decode(v, 0, v.elements, values.data());
  return values;
}

// In fp32 it is SGD with momentum as before, to fp32 rounding; what is stored is the momentum itself.
TEST(MomentumAccumulation, IsTheSameAlgorithm) {
  CpuDevice device(2);
  for (const double dampening : {0.0, 0.4}) {
    for (const bool decoupled : {false, true}) {
      OptimizerConfig o = sgd();
      o.settings["dampening"] = dampening;
      o.settings["decoupled_decay"] = decoupled;
      ModelMemory apart(kLayers, make_policy("fp32"), o, 3, 3, device);
      ModelMemory together(kLayers, in_momentum(make_policy("fp32")), o, 3, 3, device);
      for (ModelMemory* m : {&apart, &together}) {
        initialize(*m);
        for (std::uint32_t step = 1; step <= 20; ++step) run_accumulated_step(*m, step);
      }
      for (int i = 0; i < apart.tensors(); ++i) {
        for (const Role role : {Role::kParameter, Role::kMomentum}) {
          const auto a = decoded(apart, i, role), b = decoded(together, i, role);
          for (std::size_t e = 0; e < a.size(); ++e) {
            ASSERT_NEAR(a[e], b[e], 1e-6) << to_string(role) << " " << e << ", dampening " << dampening;
          }
        }
      }
    }
  }
}

TEST(MomentumAccumulation, TakesNoMemoryOfItsOwn) {
  CpuDevice device(1);
  OptimizerConfig o = sgd();
  for (const bool freeze : {false, true}) {
    if (freeze) o.groups = {{.pattern = "a.*", .frozen = true}};
    const ModelMemory memory(kLayers, packed(), o, 3, 2, device);
    const Ledger ledger = memory.ledger(), planned = memory_ledger(kLayers, packed(), o);
    EXPECT_EQ(ledger.model_memory(), planned.model_memory());
    EXPECT_EQ(ledger.role_codes[Role::kAccumulator] + ledger.role_steps[Role::kAccumulator], 0);
    EXPECT_EQ(ledger.exempt, 70 * 2 * 4);  // parameter and momentum of the bias
    EXPECT_EQ(memory.view(1, Role::kAccumulator).codes, memory.view(1, Role::kMomentum).codes);
    EXPECT_EQ(memory.is_frozen(0), freeze);
  }
}

// Error feedback keeps the speed that the momentum gave the parameter where the rate rises. Here the momentum
// holds the step's gradients by then, and they shrink with it in that one update.
TEST(MomentumAccumulation, ShrinksGradientsWhereTheRateRisesWithFeedback) {
  CpuDevice device(1);
  for (const bool feedback : {false, true}) {
    Policy policy = in_momentum(make_policy("fp32"));
    policy.error_feedback = feedback;
    ModelMemory memory(kLayers, policy, sgd(), 3, 1, device);
    initialize(memory);
    const std::vector<float> ones(2000, 1.0F);
    for (const double rate : {0.01, 0.02}) {
      Step this_step = memory.begin_step({.learning_rate = rate});
      this_step.fold(0, 0, ones, 0);
      ASSERT_TRUE(std::move(this_step).commit().applied);
    }
    const float decay = 0.01F * 2;  // parameters are within 0.5, in two steps
    const float expected = feedback ? 0.5F * (0.9F + 1) : 0.9F + 1;
    for (const float m : decoded(memory, 0, Role::kMomentum)) ASSERT_NEAR(m, expected, decay);
  }
}

// The momentum has taken part of the gradients already: it starts afresh, the parameters stay.
TEST(MomentumAccumulation, AFailedStepEmptiesTheMomentum) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    CpuDevice device(2);
    Policy policy = packed();
    policy.error_feedback = true;
    ModelMemory memory(kLayers, policy, sgd(), 3, 2, device);
    initialize(memory);
    run_accumulated_step(memory, 1);
    std::vector<std::vector<float>> before;
    for (int i = 0; i < memory.tensors(); ++i) before.push_back(decoded(memory, i, Role::kParameter));
    Step this_step = memory.begin_step({2, 0.05});
    for (int k = 0; k < 2; ++k) {
      for (int i = 0; i < memory.tensors(); ++i) {
        auto gradient = gradient_of(memory, i, 2, k, kDeviation);
        if (k == 1 && i == 1) gradient[99] = bad;
        this_step.fold(i, 0, gradient, k);
      }
    }
    const StepReport report = std::move(this_step).commit();
    EXPECT_FALSE(report.applied);
    EXPECT_EQ(report.failed_tensor, "b.weight");
    for (int i = 0; i < memory.tensors(); ++i) {
      EXPECT_EQ(decoded(memory, i, Role::kParameter), before[static_cast<std::size_t>(i)]);
      for (const float m : decoded(memory, i, Role::kMomentum)) ASSERT_EQ(m, 0);
    }
    run_accumulated_step(memory, 3);
    EXPECT_EQ(memory.updates(), 2);
  }
}

TEST(MomentumAccumulation, WhatItCannotDoIsRefused) {
  CpuDevice device(1);
  const auto error = [&](const std::function<void(Policy&, OptimizerConfig&)>& change, int microbatches = 1) {
    Policy policy = packed();
    OptimizerConfig o = sgd();
    change(policy, o);
    try {
      const ModelMemory memory(kLayers, policy, o, 3, microbatches, device);
    } catch (const UsageError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(error([](Policy&, OptimizerConfig&) {}), "no error");
  EXPECT_NE(error([](Policy&, OptimizerConfig& o) { o = {.rule = "adamw"}; }).find("= sgd or muon"),
            std::string::npos);
  EXPECT_NE(error([](Policy&, OptimizerConfig& o) { o.settings["momentum"] = 0; }).find("1e-06 or more"),
            std::string::npos);
  EXPECT_NE(error([](Policy&, OptimizerConfig& o) { o.settings["nesterov"] = true; }).find("nesterov"),
            std::string::npos);
  EXPECT_NE(error([](Policy&, OptimizerConfig& o) { o.clip_norm = 1; }).find("clip_norm"), std::string::npos);
  EXPECT_NE(error([](Policy& p, OptimizerConfig&) {
              PolicyOverride o;
              o.pattern = "a.*";
              o.specs[Role::kAccumulator] = parse_spec("int8");
              p.overrides.push_back(o);
            }).find("give a momentum"),
            std::string::npos);
  EXPECT_EQ(error([](Policy&, OptimizerConfig&) {}, (1 << 14) - 1), "no error");
  EXPECT_NE(error([](Policy&, OptimizerConfig&) {}, 1 << 14).find("16383"), std::string::npos);
}

TEST(MomentumAccumulation, AnAbandonedStepEmptiesTheMomentumThatItFoldedInto) {
  CpuDevice device(2);
  ModelMemory memory(kLayers, packed(), sgd(), 3, 2, device);
  initialize(memory);
  run_accumulated_step(memory, 1);
  std::vector<std::vector<float>> before;
  for (int i = 0; i < memory.tensors(); ++i) before.push_back(decoded(memory, i, Role::kMomentum));
  memory.begin_step({2});
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(decoded(memory, static_cast<int>(i), Role::kMomentum), before[i]);
  }
  {
    Step step = memory.begin_step({4});
    step.fold(0, 0, gradient_of(memory, 0, 4, 0, kDeviation), 0);
    EXPECT_NE(decoded(memory, 0, Role::kMomentum), before[0]);
  }
  EXPECT_EQ(decoded(memory, 0, Role::kMomentum), std::vector<float>(2000));
  for (std::size_t i = 1; i < 3; ++i) {
    EXPECT_EQ(decoded(memory, static_cast<int>(i), Role::kMomentum), before[i]);
  }
  run_accumulated_step(memory, 5);
}

}  // namespace
}  // namespace lpmm
