#include "lpmm/memory/model_memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <thread>
#include <tuple>

#include "kernels/cpu.h"
#include "kernels/cuda/emulated.h"
#include "lpmm/base/error.h"
#include "tests/lpmm/memory/drawn_values.h"
#include "tests/lpmm/memory/given.h"
#include "tests/lpmm/said.h"
#include "tests/sanitized.h"

namespace lpmm {
namespace {

const std::vector<TensorInfo> kTensors = {{"embed", {60, 150}}, {"bias", {70}}, {"weight", {3, 4096}}};

OptimizerConfig adamw(double clip = 0) {
  OptimizerConfig c;
  c.rule = "adamw";
  c.learning_rate = 0.01;
  c.weight_decay = 0.01;
  c.clip_norm = clip;
  return c;
}

void run_step(ModelMemory& memory, std::uint32_t step) {
  folded_step(memory, {step, 0.01}).commit();
}

// Every byte that outlives a step: codes and steps of parameters and states.
std::vector<std::uint8_t> persistent_bytes(const ModelMemory& memory) {
  std::vector<std::uint8_t> bytes;
  for (int i = 0; i < memory.tensors(); ++i) {
    for (const Role role : kEveryRole) {
      const kernels::RoleView v = memory.view(i, role);
      if (!is_saved(role) || v.codes == nullptr) continue;
      bytes.insert(bytes.end(), v.codes, v.codes + code_bytes(v.codec.format, v.elements));
      const auto* steps = reinterpret_cast<const std::uint8_t*>(v.steps);
      if (steps != nullptr) bytes.insert(bytes.end(), steps, steps + step_bytes(v.codec, v.elements));
    }
  }
  return bytes;
}

bool accumulators_are_empty(const ModelMemory& memory) {
  for (int i = 0; i < memory.tensors(); ++i) {
    const kernels::RoleView v = memory.view(i, Role::kAccumulator);
    double sum = 0;
    memory.device().square_sum(v, 0, v.elements, &sum);
    if (sum != 0) return false;
    for (std::int64_t b = 0; b < blocks_of(v.elements, v.codec.block); ++b) {
      if (v.steps[b] != 0) return false;
    }
  }
  return true;
}

TEST(ModelMemory, WhatIsStoredAsFp32IsNotCopied) {
  CpuDevice device(1);
  ModelMemory memory(kTensors, make_policy("lpmm"), adamw(), 3, 1, device);
  for (int i = 0; i < memory.tensors(); ++i) {
    const kernels::RoleView v = memory.view(i, Role::kParameter);
    const auto n = static_cast<std::size_t>(v.elements);
    std::vector<float> values(n), room(n, -1.0F), read(n);
    std::iota(values.begin(), values.end(), 1.0F);
    memory.initialize(i, 0, values);
    const float* found = memory.decoded(i, room);
    memory.read(i, 0, read);
    EXPECT_TRUE(std::equal(read.begin(), read.end(), found)) << i;
    const bool is_fp32 = v.codec.format.map == Map::kFp32;
    EXPECT_EQ(is_fp32, memory.info(i).name == "bias");
    EXPECT_EQ(found, is_fp32 ? reinterpret_cast<const float*>(v.codes) : room.data());
  }
}

TEST(ModelMemory, AGradientThatIsNotFiniteLeavesEveryPersistentByte) {
  for (const std::string_view preset : preset_names()) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(), 0x1p126F}) {
      CpuDevice device(2);
      ModelMemory memory(kTensors, make_policy(preset), adamw(1), 3, 4, device);
      ModelMemory other(kTensors, make_policy(preset), adamw(1), 3, 4, device);
      for (ModelMemory* m : {&memory, &other}) {
        initialize(*m);
        run_step(*m, 1);
      }
      const auto before = persistent_bytes(memory);
      Step this_step = memory.begin_step({2, 0.01, true});
      for (int k = 0; k < 4; ++k) {
        for (int i = 0; i < memory.tensors(); ++i) {
          auto gradient = gradient_of(memory, i, 2, k);
          if (k == 2 && i == 1) gradient[69] = bad;
          this_step.fold(i, 0, gradient, k);
          EXPECT_EQ(this_step.failed(), k > 2 || (k == 2 && i >= 1));
        }
      }
      const StepReport report = std::move(this_step).commit();
      EXPECT_FALSE(report.applied) << preset;
      EXPECT_EQ(report.failed_tensor, "bias");
      EXPECT_EQ(persistent_bytes(memory), before) << preset << " with " << bad;
      EXPECT_TRUE(accumulators_are_empty(memory));
      EXPECT_EQ(memory.updates(), 1);
      for (const TensorStats& stats : memory.take_stats()) {
        for (const auto& role : stats.role) EXPECT_EQ(role.elements, 0);
      }
      // The next step is as if the failed one had only used up its number.
      run_step(memory, 3);
      run_step(other, 3);
      EXPECT_EQ(persistent_bytes(memory), persistent_bytes(other));
      EXPECT_NE(persistent_bytes(memory), before);
    }
  }
}

// Bias corrections count applied updates; step numbers only key the noise, of which fp32 has none.
TEST(ModelMemory, UpdatesAreCountedApartFromSteps) {
  CpuDevice device(1);
  std::vector<std::vector<std::uint8_t>> bytes;
  for (const std::uint32_t stride : {1U, 7U}) {
    ModelMemory memory({{"w", {2, 50}}}, make_policy("fp32"), adamw(), 3, 1, device);
    initialize(memory);
    for (std::uint32_t update = 1; update <= 3; ++update) {
      Step this_step = memory.begin_step({stride * update, 0.01});
      this_step.fold(0, 0, gradient_of(memory, 0, update, 0), 0);
      std::move(this_step).commit();
    }
    EXPECT_EQ(memory.updates(), 3);
    bytes.push_back(persistent_bytes(memory));
  }
  EXPECT_EQ(bytes[0], bytes[1]);
}

// The room for its result is that of the step's folds.
TEST(ModelMemory, RefusesAnInitialValueInAStep) {
  CpuDevice device(1);
  ModelMemory memory(kTensors, make_policy("lpmm"), adamw(), 3, 1, device);
  initialize(memory);
  Step this_step = memory.begin_step({1, 0.01});
  EXPECT_THROW(initialize(memory), UsageError);
  std::move(this_step).commit();
  initialize(memory);
}

TEST(ModelMemory, AStepCanBeFailedFromOutside) {
  CpuDevice device(1);
  ModelMemory memory(kTensors, make_policy("lpmm"), adamw(), 3, 1, device);
  initialize(memory);
  const auto before = persistent_bytes(memory);
  Step this_step = memory.begin_step({1, 0.01});
  this_step.fold(0, 0, gradient_of(memory, 0, 1, 0), 0);
  this_step.fail("the loss is NaN");
  const StepReport report = std::move(this_step).commit();
  EXPECT_FALSE(report.applied);
  EXPECT_EQ(report.failed_tensor, "the loss is NaN");
  EXPECT_EQ(persistent_bytes(memory), before);
  EXPECT_TRUE(accumulators_are_empty(memory));
}

TEST(ModelMemory, AnUpdateThatDivergesNamesTheTensor) {
  CpuDevice device(1);
  OptimizerConfig sgd;
  ModelMemory memory(kTensors, make_policy("lpmm"), sgd, 3, 1, device);
  initialize(memory);
  Step this_step = memory.begin_step({1, 1e38});
  this_step.fold(2, 0, gradient_of(memory, 2, 1, 0), 0);
  try {
    std::move(this_step).commit();
    FAIL() << "an update of 1e36 passed";
  } catch (const RunError& e) {
    EXPECT_NE(std::string(e.what()).find("tensor weight"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("lower the learning rate"), std::string::npos);
  }
}

TEST(ModelMemory, ThreadsDoNotChangeABit) {
  for (const std::string_view preset : preset_names()) {
    std::vector<std::vector<std::uint8_t>> bytes;
    std::vector<double> norms;
    for (const int threads : {1, 2, 3}) {
      CpuDevice device(threads);
      ModelMemory memory(kTensors, make_policy(preset), adamw(0.1), 3, 2, device);
      initialize(memory);
      for (std::uint32_t step = 1; step <= 3; ++step) run_step(memory, step);
      bytes.push_back(persistent_bytes(memory));
    }
    EXPECT_EQ(bytes[0], bytes[1]) << preset;
    EXPECT_EQ(bytes[0], bytes[2]) << preset;
  }
}

// Folding range by range, in any order, gives what one fold of the whole gives; the norm as well, to
// rounding.
TEST(ModelMemory, RangesMayComeInAnyOrder) {
  CpuDevice device(2);
  const std::vector<TensorInfo> tensors = {{"w", {5, 4096}}, {"v", {3, 1000}}};
  const auto run = [&](const std::vector<std::int64_t>& order, double& norm) {
    ModelMemory memory(tensors, make_policy("lpmm-compact"), adamw(0.1), 3, 1, device);
    initialize(memory);
    Step this_step = memory.begin_step({1, 0.01});
    const auto gradient = gradient_of(memory, 0, 1, 0);
    for (const std::int64_t at : order) {
      this_step.fold(0, at * 512, std::span(gradient).subspan(static_cast<std::size_t>(at) * 512, 512), 0);
    }
    const auto rest = gradient_of(memory, 1, 1, 0);
    this_step.fold(1, 0, rest, 0);
    norm = std::move(this_step).commit().gradient_norm;
    return persistent_bytes(memory);
  };
  std::vector<std::int64_t> order(40);
  std::iota(order.begin(), order.end(), std::int64_t{0});
  double norm = 0, shuffled_norm = 0;
  const auto bytes = run(order, norm);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  EXPECT_EQ(run(order, shuffled_norm), bytes);
  EXPECT_EQ(norm, shuffled_norm);
}

// Against fp64: exact where the last contribution covered everything, near where part of it comes from codes.
TEST(ModelMemory, TheNormIsThatOfTheWholeGradient) {
  CpuDevice device(2);
  ModelMemory memory(kTensors, make_policy("lpmm"), adamw(1e9), 3, 2, device);
  initialize(memory);
  double exact = 0;
  for (int i = 0; i < memory.tensors(); ++i) {
    const auto a = gradient_of(memory, i, 1, 0), b = gradient_of(memory, i, 1, 1);
    for (std::size_t e = 0; e < a.size(); ++e) exact += std::pow((static_cast<double>(a[e]) + b[e]) / 2, 2);
  }
  Step this_step = memory.begin_step({1, 0.01});
  for (int k = 0; k < 2; ++k) {
    for (int i = 0; i < memory.tensors(); ++i) this_step.fold(i, 0, gradient_of(memory, i, 1, k), k);
  }
  const StepReport report = std::move(this_step).commit();
  EXPECT_NEAR(report.gradient_norm / std::sqrt(exact), 1, 1e-3);  // the first microbatch was rounded
  EXPECT_EQ(report.clip_factor, 1);

  // A tensor with two contributions, of which the second covers only its second tile.
  Step next = memory.begin_step({2, 0.01});
  const std::vector<float> ones(12288, 2.0F);
  next.fold(2, 0, ones, 1, 0, false);
  next.fold(2, 4096, std::span(ones).subspan(0, 4096), 1, 1, true);
  EXPECT_NEAR(std::move(next).commit().gradient_norm, std::sqrt(8192 * 1.0 + 4096 * 4.0), 1e-3);
}

TEST(ModelMemory, ClippingScalesTheGradient) {
  CpuDevice device(1);
  OptimizerConfig sgd;
  sgd.clip_norm = 2;
  ModelMemory memory({{"w", {1, 64}}}, make_policy("fp32"), sgd, 3, 1, device);
  Step this_step = memory.begin_step({1, 1});
  this_step.fold(0, 0, std::vector<float>(64, 1.0F), 0);
  const StepReport report = std::move(this_step).commit();
  EXPECT_DOUBLE_EQ(report.gradient_norm, 8);
  EXPECT_NEAR(report.clip_factor, 0.25, 1e-6);
  std::vector<float> w(64);
  memory.decode(0, 0, w);
  for (const float x : w) EXPECT_NEAR(x, -0.25F, 1e-6);
}

// The relative error of 1, 4, 16 and 64 folds of independent gradients against fp64. With one step
// that fits all 64 from the start it would be 0.3; with stochastic rounding of 8 bits and no shared steps
// 0.013 to 0.072.
TEST(ModelMemory, FoldsAgainstDoublePrecision) {
  CpuDevice device(2);
  constexpr std::int64_t kElements = 1 << 14;
  for (const auto& [microbatches, limit] : {std::pair{1, 0.011}, {4, 0.019}, {16, 0.035}, {64, 0.068}}) {
    ModelMemory memory({{"w", {1, kElements}}}, make_policy("lpmm-compact"), adamw(), 3, microbatches,
                       device);
    Step this_step = memory.begin_step({1, 0, true});
    std::vector<double> exact(kElements);
    for (int k = 0; k < microbatches; ++k) {
      const auto gradient = normal_values(kElements, static_cast<std::uint64_t>(k), 1);
      this_step.fold(0, 0, gradient, k);
      for (std::size_t e = 0; e < exact.size(); ++e)
        exact[e] += static_cast<double>(gradient[e]) / microbatches;
    }
    std::vector<float> sum(kElements);
    device.decode(memory.view(0, Role::kAccumulator), 0, kElements, sum.data());
    double error = 0, bias = 0, size = 0;
    for (std::size_t e = 0; e < exact.size(); ++e) {
      error += std::pow(sum[e] - exact[e], 2);
      bias += sum[e] - exact[e];
      size += exact[e] * exact[e];
    }
    EXPECT_LT(std::sqrt(error / size), limit) << microbatches;
    EXPECT_GT(std::sqrt(error / size), limit / 2) << microbatches << ": the limit is stale";
    EXPECT_LT(std::abs(bias), 4 * std::sqrt(error)) << microbatches;
  }
}

// For parameters in two terms only the sum stays (compensation_test.cpp).
TEST(ModelMemory, ZeroGradientsLeaveEveryParameterByte) {
  for (const std::string_view preset : preset_names()) {
    if (has_compensation(make_policy(preset).specs)) continue;
    for (const RuleName rule : {RuleName("sgd"), RuleName("adam")}) {
      CpuDevice device(2);
      OptimizerConfig c;
      c.rule = rule;
      give(c, "momentum", 0.9);
      ModelMemory memory(kTensors, make_policy(preset), c, 3, 1, device);
      initialize(memory);
      const auto parameters = [&] {
        std::vector<std::uint8_t> bytes;
        for (int i = 0; i < memory.tensors(); ++i) {
          const kernels::RoleView v = memory.view(i, Role::kParameter);
          bytes.insert(bytes.end(), v.codes, v.codes + code_bytes(v.codec.format, v.elements));
        }
        return bytes;
      };
      const auto before = parameters();
      for (std::uint32_t step = 1; step <= 5; ++step) {
        Step this_step = memory.begin_step({step, 0.1});
        for (int i = 0; i < memory.tensors(); ++i) {
          this_step.fold(i, 0, std::vector<float>(static_cast<std::size_t>(memory.info(i).elements())), 0);
        }
        EXPECT_TRUE(std::move(this_step).commit().applied);
      }
      EXPECT_EQ(parameters(), before) << preset;
    }
  }
}

// Mean shrinkage over steps of learning rate * decay = 1e-6, far below half a code of any packed preset.
double shrinkage(std::string_view preset, Rounding rounding, int steps) {
  CpuDevice device(2);
  OptimizerConfig c;
  c.settings["decoupled_decay"] = true;
  c.weight_decay = 1e-4;
  Policy policy = make_policy(preset);
  if (preset != "fp32") set_rounding(policy, rounding);
  constexpr std::int64_t kElements = 1 << 18;
  ModelMemory memory({{"w", {1, kElements}}}, policy, c, 3, 1, device);
  memory.initialize(0, 0, normal_values(kElements, 1, 0.1F));
  const auto size = [&] {
    std::vector<float> w(kElements);
    memory.decode(0, 0, w);
    return std::accumulate(w.begin(), w.end(), 0.0, [](double sum, float x) { return sum + std::abs(x); });
  };
  const double before = size();
  for (int step = 1; step <= steps; ++step) {
    memory.begin_step({static_cast<std::uint32_t>(step), 0.01}).commit();
  }
  return 1 - size() / before;
}

TEST(ModelMemory, TinyWeightDecayActsUnderStochasticRoundingOnly) {
  constexpr int kSteps = 20;
  EXPECT_NEAR(shrinkage("fp32", Rounding::kStochastic, kSteps) / (kSteps * 1e-6), 1, 0.05);
  EXPECT_NEAR(shrinkage("lpmm", Rounding::kStochastic, kSteps) / (kSteps * 1e-6), 1, 0.2);
  EXPECT_NEAR(shrinkage("lpmm-compact", Rounding::kStochastic, kSteps) / (kSteps * 1e-6), 1, 0.5);
  EXPECT_EQ(shrinkage("lpmm", Rounding::kNearest, kSteps), 0);
  EXPECT_EQ(shrinkage("lpmm-compact", Rounding::kNearest, kSteps), 0);
}

Policy coarse(Rounding rounding, bool feedback) {
  Policy policy = make_policy("fp32");
  policy.specs[Role::kParameter] = parse_spec("int6:block64:sr:sticky");
  policy.specs[Role::kParameter].rounding = rounding;
  policy.error_feedback = feedback;
  return policy;
}

// Rounding the parameter does not change where it is after momentum has run out, with no further gradient: p
// - lr * mu / (1 - mu) * m of the stored parameter is that of fp32 (Nesterov: * mu once more).
TEST(ModelMemory, ErrorFeedbackKeepsWhereTheParameterEnds) {
  constexpr double kRate = 0.05, kMomentum = 0.9;
  const std::vector<TensorInfo> tensors = {{"w", {40, 50}}};
  CpuDevice device(1);
  for (const bool nesterov : {false, true}) {
    OptimizerConfig sgd;
    sgd.settings["momentum"] = kMomentum;
    sgd.settings["nesterov"] = nesterov;
    std::array<std::vector<double>, 2> ends;
    std::vector<float> start(2000), p(2000), m(2000);
    for (const bool packed : {true, false}) {
      Policy policy = packed ? coarse(Rounding::kStochastic, true) : make_policy("fp32");
      ModelMemory memory(tensors, policy, sgd, 1, 1, device);
      if (packed) {
        memory.initialize(0, 0, normal_values(2000, 1, 0.1F));
        memory.decode(0, 0, start);  // fp32 starts where the codes are
      } else {
        memory.initialize(0, 0, start);
      }
      for (std::uint32_t step = 1; step <= 5; ++step) {
        Step this_step = memory.begin_step({step, kRate});
        this_step.fold(0, 0, normal_values(2000, 10 + step, 0.1F), 0);
        std::move(this_step).commit();
      }
      memory.decode(0, 0, p);
      device.decode(memory.view(0, Role::kMomentum), 0, 2000, m.data());
      for (std::size_t i = 0; i < p.size(); ++i) {
        ends[packed ? 0 : 1].push_back(p[i] - kRate * kMomentum / (1 - kMomentum) *
                                                  (nesterov ? kMomentum : 1) * m[i]);
      }
    }
    for (std::size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(ends[0][i], ends[1][i], 2e-6) << i;
  }
}

// An error of a code's width that was made at a small rate waits in the momentum as a large number. A rate
// that rises brings it back as it was, not multiplied.
TEST(ModelMemory, ErrorFeedbackOutlivesARateThatRises) {
  CpuDevice device(1);
  for (const RuleName rule : {RuleName("sgd"), RuleName("adamw")}) {
    OptimizerConfig optimizer;
    optimizer.rule = rule;
    give(optimizer, "momentum", 0.9);
    ModelMemory memory({{"w", {40, 50}}}, coarse(Rounding::kStochastic, true), optimizer, 1, 1, device);
    memory.initialize(0, 0, normal_values(2000, 1, 0.1F));
    std::uint32_t step = 0;
    const auto commit = [&](double rate, float gradient, int steps) {
      for (int i = 0; i < steps; ++i) {
        Step this_step = memory.begin_step({++step, rate});
        this_step.fold(0, 0, normal_values(2000, 10 + step, gradient), 0);
        EXPECT_TRUE(std::move(this_step).commit().applied) << rate;
      }
    };
    std::vector<float> before(2000), after(2000);
    for (const double tiny : {1e-8, 1e-29, 1e-31, 0.0, 1e-8}) commit(tiny, 0.1F, 2);
    commit(1e-4, 0.1F, 30);
    EXPECT_EQ(memory.last_learning_rate(), 1e-4);
    memory.decode(0, 0, before);
    commit(rule == RuleName("sgd") ? 0.1 : 1e-3, 1e-4F, 10);
    memory.decode(0, 0, after);
    float most = 0;
    for (std::size_t i = 0; i < after.size(); ++i) most = std::max(most, std::abs(after[i] - before[i]));
    EXPECT_LT(most, 0.05F) << rule.index();  // a step is about 0.01
  }
}

// Updates of a hundredth of a step: lost to nearest rounding, not where their errors come back. Up to half a
// step times mu / (1 - mu) then waits in the momentum.
TEST(ModelMemory, ErrorFeedbackSavesNearestRoundingFromUnderflow) {
  if (kSanitized) GTEST_SKIP() << kReleaseOnly;
  const std::vector<TensorInfo> tensors = {{"w", {40, 50}}};
  CpuDevice device(1);
  for (const RuleName rule : {RuleName("sgd"), RuleName("adamw")}) {
    for (const bool feedback : {false, true}) {
      OptimizerConfig optimizer;
      optimizer.rule = rule;
      give(optimizer, "momentum", 0.9);
      ModelMemory memory(tensors, coarse(Rounding::kNearest, feedback), optimizer, 1, 1, device);
      memory.initialize(0, 0, normal_values(2000, 1, 0.1F));
      std::vector<float> before(2000), after(2000);
      memory.decode(0, 0, before);
      const double rate = rule == RuleName("sgd") ? 1e-5 : 1e-4;  // both move by 1e-4 a step
      for (std::uint32_t step = 1; step <= 3000; ++step) {
        Step this_step = memory.begin_step({step, rate});
        this_step.fold(0, 0, std::vector<float>(2000, 1.0F), 0);
        std::move(this_step).commit();
      }
      memory.decode(0, 0, after);
      double moved = 0;
      for (std::size_t i = 0; i < after.size(); ++i) moved += (before[i] - after[i]) / 2000.0;
      if (feedback) {
        EXPECT_GT(moved, 0.2) << rule.index();  // all updates add up to 0.3
        EXPECT_LT(moved, 0.3) << rule.index();
      } else {
        EXPECT_LT(moved, 0.001) << rule.index();
      }
    }
  }
}

TEST(ModelMemory, AnUpdateThatFailsHalfWayEndsIt) {
  CpuDevice device(1);
  OptimizerConfig optimizer;
  ModelMemory memory({{"a", {1, 128}}, {"b", {1, 128}}}, make_policy("lpmm"), optimizer, 1, 1, device);
  Step this_step = memory.begin_step({1, 1e30});
  this_step.fold(0, 0, std::vector<float>(128, 1.0F), 0);
  this_step.fold(1, 0, std::vector<float>(128, 1e30F), 0);
  EXPECT_THROW(std::move(this_step).commit(), RunError);
  EXPECT_THROW(memory.begin_step({2}), UsageError);
  memory.set_progress(7, 3, 0.1);
  EXPECT_EQ(memory.updates(), 3);
  EXPECT_THROW(memory.begin_step({7}), UsageError);  // its noise was used before the checkpoint
  EXPECT_NO_THROW(memory.begin_step({8}));
}

// Tensors do not share the noise that rounds their initial values.
TEST(ModelMemory, InitialValuesHaveNoiseOfTheirOwn) {
  CpuDevice device(1);
  const std::vector<TensorInfo> twins = {{"a", {1, 4096}}, {"b", {1, 4096}}};
  ModelMemory memory(twins, make_policy("lpmm-compact"), {}, 3, 1, device);
  const auto values = normal_values(4096, 1, 0.1F);
  memory.initialize(0, 0, values);
  memory.initialize(1, 0, values);
  std::vector<float> a(4096), b(4096);
  memory.decode(0, 0, a);
  memory.decode(1, 0, b);
  const auto equal = std::inner_product(a.begin(), a.end(), b.begin(), 0, std::plus<>(), std::equal_to<>());
  EXPECT_GT(equal, 4096 / 2);
  EXPECT_LT(equal, 4096 * 3 / 4);  // two thirds of independent roundings agree
}

// The tensors of ResNet-20 for CIFAR-10: three stages of six convolutions after the first.
std::vector<TensorInfo> resnet20(std::int64_t& buffers) {
  std::vector<TensorInfo> tensors;
  buffers = 0;
  const auto convolution = [&](std::int64_t in, std::int64_t out) {
    const std::string name = "conv" + std::to_string(tensors.size());
    tensors.push_back({name, {out, in, 3, 3}});
    tensors.push_back({name + ".gain", {out}});
    tensors.push_back({name + ".bias", {out}});
    buffers += 2 * 4 * out;  // running mean and variance
  };
  convolution(3, 16);
  for (const std::int64_t width : {16, 32, 64}) {
    for (int i = 0; i < 6; ++i) convolution(i == 0 && width > 16 ? width / 2 : width, width);
  }
  tensors.push_back({"head", {10, 64}});
  tensors.push_back({"head.bias", {10}});
  return tensors;
}

TEST(ModelMemory, LedgerOfResNet20) {
  CpuDevice device(1);
  OptimizerConfig sgdm;
  sgdm.settings["momentum"] = 0.9;
  std::int64_t buffers = 0;
  const auto tensors = resnet20(buffers);
  EXPECT_EQ(buffers, 4 * 1376);
  for (const auto& [preset, most_bits] :
       {std::pair{"fp32", 96.4}, {"lpmm", 28.8}, {"lpmm-compact", 25.0}, {"lpmm-min", 17.0}}) {
    const ModelMemory memory(tensors, make_policy(preset), sgdm, 1, 2, device);
    Ledger ledger = memory.ledger();
    EXPECT_EQ(ledger.parameters, 269722);
    EXPECT_EQ(ledger.exempt, 3 * 4 * 1386);
    std::int64_t codes = 0, steps = 0;
    for (const TensorInfo& t : tensors) {
      if (t.shape.size() == 1) continue;
      for (const Role r : {Role::kParameter, Role::kAccumulator, Role::kMomentum}) {
        codes += code_bytes(memory.policy().specs[r].format, t.elements());
        steps += step_bytes(memory.policy().specs[r], t.elements());
      }
    }
    EXPECT_EQ(std::accumulate(ledger.role_codes.begin(), ledger.role_codes.end(), std::int64_t{0}), codes);
    EXPECT_EQ(std::accumulate(ledger.role_steps.begin(), ledger.role_steps.end(), std::int64_t{0}), steps);
    EXPECT_EQ(ledger.role_bytes(Role::kVariance), 0);
    ledger.buffers = buffers;
    EXPECT_EQ(ledger.model_memory(), codes + steps + ledger.exempt + buffers);
    EXPECT_LE(ledger.bits_per_parameter(), most_bits) << preset;
    RecordProperty(preset, std::to_string(ledger.bits_per_parameter()));
  }
}

std::int64_t resident_bytes() {
  std::int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * 4096;
}

TEST(ModelMemory, UntouchedMemoryCostsNothingAndCodesAreAligned) {
  CpuDevice device(1);
  const std::int64_t before = resident_bytes();
  const ModelMemory memory({{"odd", {3, 5}}, {"large", {1 << 13, 1 << 13}}, {"bias", {3}}, {"w", {7, 9}}},
                           make_policy("lpmm"), adamw(), 1, 1, device);
  EXPECT_GT(memory.ledger().model_memory(), std::int64_t{280} << 20);
  EXPECT_LT(resident_bytes() - before, std::int64_t{16} << 20);
  for (int i = 0; i < memory.tensors(); ++i) {
    for (std::size_t r = 0; r < kRoles; ++r) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.view(i, static_cast<Role>(r)).codes) % 64, 0U);
    }
  }
}

TEST(ModelMemory, MisuseIsRefused) {
  CpuDevice device(1);
  ModelMemory memory(kTensors, make_policy("lpmm"), adamw(), 3, 2, device);
  std::vector<float> values(9000);
  const std::span<float> all(values);
  EXPECT_EQ(memory.find("bias"), 1);
  EXPECT_EQ(memory.find("nothing"), -1);
  EXPECT_THROW(memory.decode(3, 0, all), UsageError);
  EXPECT_THROW(memory.decode(-1, 0, all), UsageError);
  EXPECT_THROW(memory.decode(0, 0, all.subspan(0, 100)), UsageError);
  EXPECT_THROW(memory.decode(0, 100, all.subspan(0, 512)), UsageError);
  EXPECT_THROW(memory.decode(0, -512, all.subspan(0, 512)), UsageError);
  EXPECT_THROW(memory.decode(0, 512, all), UsageError);
  EXPECT_NO_THROW(memory.decode(0, 512, all.subspan(0, 512)));
  EXPECT_NO_THROW(memory.decode(0, 8704, all.subspan(0, 296)));
  values[5] = NAN;
  EXPECT_THROW(memory.initialize(0, 0, all), RunError);
  values[5] = 0;
  Step this_step = memory.begin_step({5});
  EXPECT_THROW(memory.begin_step({6}), UsageError);
  EXPECT_THROW(memory.set_progress(7, 3, 0.1), UsageError);
  EXPECT_THROW(this_step.fold(0, 0, all, 2), UsageError);
  EXPECT_THROW(this_step.fold(0, 0, all, 0, -1), UsageError);
  std::move(this_step).commit();
  EXPECT_THROW(this_step.fold(0, 0, all, 0), std::logic_error);  // NOLINT(bugprone-use-after-move)
  EXPECT_THROW(memory.begin_step({5}), UsageError);              // the same noise again
  EXPECT_THROW(ModelMemory(kTensors, make_policy("lpmm"), adamw(), 3, 0, device), UsageError);
  EXPECT_THROW(ModelMemory({{"huge", {std::int64_t{1} << 36}}}, make_policy("lpmm"), adamw(), 3, 1, device),
               UsageError);
  EXPECT_THROW(ModelMemory({{"huge", {1 << 30, 1 << 30}}}, make_policy("lpmm"), adamw(), 3, 1, device),
               UsageError);
}

TEST(ModelMemory, TwoThreadsMayTrainTheirMemoriesOnOneDevice) {
  const auto train = [](Device& device, std::uint64_t seed, int steps) {
    ModelMemory memory(kTensors, make_policy("lpmm-min"), adamw(0.1), seed, 2, device);
    initialize(memory);
    for (int step = 1; step <= steps; ++step) run_step(memory, static_cast<std::uint32_t>(step));
    return persistent_bytes(memory);
  };
  CpuDevice cpu(3), cpu_alone(3);
  kernels::EmulatedCuda emulated(2, false), emulated_alone(2, false);
  for (const auto& [device, alone, steps] : std::vector<std::tuple<Device*, Device*, int>>{
           {&cpu, &cpu_alone, 12}, {&emulated, &emulated_alone, 3}}) {
    std::vector<std::uint8_t> first, second;
    std::thread other([&, device = device, steps = steps] { second = train(*device, 2, steps); });
    first = train(*device, 1, steps);
    other.join();
    EXPECT_EQ(first, train(*alone, 1, steps)) << device->name();
    EXPECT_EQ(second, train(*alone, 2, steps)) << device->name();
  }
}

TEST(ModelMemory, AStepThatIsNotCommittedLeavesNoGradient) {
  CpuDevice device(1);
  for (const std::string_view preset : preset_names()) {
    ModelMemory memory(kTensors, make_policy(preset), adamw(), 3, 2, device);
    ModelMemory other(kTensors, make_policy(preset), adamw(), 3, 2, device);
    for (ModelMemory* m : {&memory, &other}) initialize(*m);
    {
      Step this_step = memory.begin_step({1});
      this_step.fold(0, 0, gradient_of(memory, 0, 1, 0), 0);
      this_step.fold(1, 0, gradient_of(memory, 1, 1, 0), 0);
    }
    EXPECT_TRUE(accumulators_are_empty(memory)) << preset;
    for (ModelMemory* m : {&memory, &other}) run_step(*m, 2);
    EXPECT_EQ(persistent_bytes(memory), persistent_bytes(other)) << preset;
  }
}

TEST(ModelMemory, ALearningRateIsANumberFromZero) {
  CpuDevice device(1);
  ModelMemory memory(kTensors, make_policy("lpmm"), adamw(), 3, 1, device);
  initialize(memory);
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double rate : {-0.1, std::numeric_limits<double>::quiet_NaN(), infinity, -infinity}) {
    const std::string error = said([&] { memory.begin_step({1, rate}); });
    EXPECT_NE(error.find(fmt::format("{}", rate)), std::string::npos) << error;
    EXPECT_THROW(memory.begin_step({1, rate}), UsageError);
  }
  EXPECT_TRUE(memory.begin_step({1, 0}).commit().applied);
  EXPECT_EQ(memory.last_learning_rate(), 0);
  EXPECT_TRUE(memory.begin_step().commit().applied);  // the next, at the optimizer's own rate
  EXPECT_EQ(memory.last_step(), 2U);
  EXPECT_EQ(memory.last_learning_rate(), 0.01);
}

TEST(ModelMemory, ANameIsOfOneTensor) {
  CpuDevice device(1);
  const std::vector<TensorInfo> twins = {{"a", {2, 64}}, {"b", {64}}, {"a", {3, 64}}};
  const std::string error =
      said([&] { const ModelMemory memory(twins, make_policy("lpmm"), {}, 3, 1, device); });
  EXPECT_NE(error.find("tensor a"), std::string::npos) << error;
}

}  // namespace
}  // namespace lpmm
