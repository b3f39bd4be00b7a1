// Muon against PyTorch; what it keeps and folds of which tensor; its workspace.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "kernels/cuda/emulated.h"
#include "kernels/orthogonal.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/roles.h"
#include "tests/lpmm/memory/one_tensor.h"
#include "tests/normal_values.h"

namespace lpmm {
namespace {

std::vector<float> values_of(const ModelMemory& memory, int tensor, Role role) {
  const kernels::RoleView v = memory.view(tensor, role);
  std::vector<float> values(static_cast<std::size_t>(v.elements));
  memory.device().decode(v, 0, v.elements, values.data());
  return values;
}
std::vector<float> parameters(const ModelMemory& memory, int tensor = 0) {
  return values_of(memory, tensor, Role::kParameter);
}
std::vector<double> widen(const std::vector<float>& x) {
  return {x.begin(), x.end()};
}
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(squares);
}

void step(ModelMemory& memory, std::uint32_t number, const std::vector<std::vector<float>>& gradients,
          double learning_rate) {
  Step this_step = memory.begin_step({number, learning_rate});
  for (std::size_t i = 0; i < gradients.size(); ++i) this_step.fold(static_cast<int>(i), 0, gradients[i], 0);
  ASSERT_TRUE(std::move(this_step).commit().applied);
}

// tests/golden/make_muon_trajectories.py. PyTorch's own products are of bf16, whose errors of 2^-9 the
// iteration makes about 1 % of a step; with fp32 in their place it is the same to fp32 rounding.
TEST(Muon, StepsArePyTorchs) {
  std::ifstream file(LPMM_SOURCE_DIR "/tests/golden/muon_trajectories.json");
  const auto cases = nlohmann::json::parse(file);
  ASSERT_EQ(cases.size(), 4U);
  CpuDevice device(1);
  for (const auto& stored : cases) {
    const auto& o = stored["options"];
    OptimizerConfig c = of_rule("muon", {{"momentum", o["momentum"]},
                                         {"nesterov", o["nesterov"].get<bool>() ? 1.0 : 0.0},
                                         {"ns_steps", o.value("ns_steps", 5.0)},
                                         {"match_rms", o["adjust_lr_fn"] == "original" ? 0.0 : 1.0}});
    c.weight_decay = o["weight_decay"];
    const int rows = stored["shape"][0], columns = stored["shape"][1];
    ModelMemory memory({{"w", {rows, columns}}}, make_policy("fp32"), c, 1, 1, device);
    const auto n = static_cast<std::size_t>(rows * columns);
    std::vector<float> start(n), gradient(n);
    for (std::size_t i = 0; i < n; ++i) start[i] = static_cast<float>(static_cast<int>(i % 13) - 6) / 64;
    memory.initialize(0, 0, start);
    for (std::size_t s = 0; s < stored["parameters"].size(); ++s) {
      for (std::size_t i = 0; i < n; ++i) {
        gradient[i] = static_cast<float>(static_cast<int>((s * 7 + i * i * 13 + i * 5) % 61) - 30) / 64;
      }
      step(memory, static_cast<std::uint32_t>(s + 1), {gradient}, o["lr"]);
      const auto p = widen(parameters(memory));
      const double moved = distance(p, widen(start));
      EXPECT_LT(distance(p, stored["parameters"][s]), 1e-5 * moved) << o << " step " << s;
      EXPECT_LT(distance(p, stored["bf16"][s]), 2e-2 * moved) << o << " step " << s;
      EXPECT_GT(distance(p, stored["bf16"][s]), 1e-3 * moved) << "these are of bf16";
    }
  }
}

// The iteration's polynomial, of a matrix of one element or row.
double of_one(int iterations = 5) {
  double x = 1;
  for (int i = 0; i < iterations; ++i) x = 3.4445 * x - 4.7750 * x * x * x + 2.0315 * x * x * x * x * x;
  return x;
}

TEST(Muon, ZeroGradientsOnlyDecay) {
  OptimizerConfig c = of_rule("muon");
  c.weight_decay = 0.5;
  Fp32 w(c, {6, 5}, 2.0F);
  EXPECT_EQ(w.run(1, 0.0F, 0.25), 1.75F) << "by the rate that is not adjusted";
  EXPECT_EQ(w.momentum(), 0.0F);
  Fp32 none(of_rule("muon", {{"momentum", 0}}), {6, 5}, 2.0F);
  EXPECT_EQ(none.run(2, 0.0F, 0.25), 2.0F);
  EXPECT_EQ(none.memory.view(0, Role::kMomentum).codes, nullptr);
}

TEST(Muon, WithoutMomentumTheGradientIsMadeOrthogonal) {
  for (const double nesterov : {0.0, 1.0}) {
    Fp32 w(of_rule("muon", {{"momentum", 0}, {"nesterov", nesterov}}), {1, 1}, 1.0F);
    EXPECT_NEAR(w.run(1, 1.0F, 0.5), 1 - 0.5 * 0.2 * of_one(), 1e-6);
    EXPECT_NEAR(w.run(1, -1.0F, 0.5), 1, 1e-6);
  }
}

const std::vector<TensorInfo> kEveryKind = {{"w", {12, 20}},
                                            {"conv", {6, 3, 3, 3}},
                                            {"wte", {30, 8}, TensorKind::kEmbedding},
                                            {"head", {8, 30}, TensorKind::kHead},
                                            {"b", {12}},
                                            {"none", {0, 5}}};
constexpr int kHiddenOnes = 2;

std::vector<std::vector<float>> gradients_of(const ModelMemory& memory, std::uint64_t seed) {
  std::vector<std::vector<float>> all;
  for (int i = 0; i < memory.tensors(); ++i) {
    all.push_back(normal_values(memory.info(i).elements(), seed + static_cast<std::uint64_t>(i), 0.1F));
  }
  return all;
}

TEST(Muon, WhatIsNoHiddenMatrixTakesAdamWsSteps) {
  CpuDevice device(2);
  OptimizerConfig c = of_rule("muon", {{"adamw_rate_scale", 0.25}, {"beta2", 0.99}, {"epsilon", 1e-6}});
  OptimizerConfig adamw = of_rule("adamw", {{"beta2", 0.99}, {"epsilon", 1e-6}});
  c.weight_decay = adamw.weight_decay = 0.1;
  ModelMemory muon(kEveryKind, make_policy("lpmm"), c, 3, 1, device);
  ModelMemory other(kEveryKind, make_policy("lpmm"), adamw, 3, 1, device);
  for (std::uint32_t s = 1; s <= 3; ++s) {
    step(muon, s, gradients_of(muon, 10 * s), 0.02);
    step(other, s, gradients_of(other, 10 * s), 0.005);
  }
  for (int i = 0; i < muon.tensors(); ++i) {
    const bool is_hidden = i < kHiddenOnes;
    EXPECT_NE(muon.view(i, Role::kMomentum).codes, nullptr);
    EXPECT_EQ(muon.view(i, Role::kVariance).codes == nullptr, is_hidden) << muon.info(i).name;
    if (muon.info(i).elements() == 0) continue;
    EXPECT_EQ(parameters(muon, i) == parameters(other, i), !is_hidden) << muon.info(i).name;
  }
}

// Queries, keys and values are three matrices.
TEST(Muon, PartsAreMadeOrthogonalApart) {
  CpuDevice device(2);
  const OptimizerConfig c = of_rule("muon");
  ModelMemory one({{"qkv", {27, 10}, TensorKind::kHidden, 3}}, make_policy("fp32"), c, 1, 1, device);
  ModelMemory whole({{"qkv", {27, 10}}}, make_policy("fp32"), c, 1, 1, device);
  ModelMemory three({{"q", {9, 10}}, {"k", {9, 10}}, {"v", {9, 10}}}, make_policy("fp32"), c, 1, 1, device);
  std::vector<float> apart;
  for (std::uint32_t s = 1; s <= 2; ++s) {
    std::vector<float> all;
    std::vector<std::vector<float>> of_parts;
    for (std::uint64_t i = 0; i < 3; ++i) {
      // The last part's are nothing beside the first one's.
      of_parts.push_back(normal_values(90, 10 * s + i, i == 2 ? 1e-4F : 10.0F));
      all.insert(all.end(), of_parts.back().begin(), of_parts.back().end());
    }
    step(one, s, {all}, 0.02);
    step(whole, s, {all}, 0.02);
    step(three, s, of_parts, 0.02);
  }
  for (int i = 0; i < 3; ++i) {
    const auto p = parameters(three, i);
    apart.insert(apart.end(), p.begin(), p.end());
  }
  EXPECT_EQ(parameters(one), apart);
  EXPECT_NE(parameters(whole), apart);
}

TEST(Muon, PartsThatRowsDoNotHaveAreRefused) {
  CpuDevice device(1);
  for (const std::int64_t parts : {0, 4, -3}) {
    EXPECT_THROW(ModelMemory({{"qkv", {27, 10}, TensorKind::kHidden, parts}}, make_policy("fp32"),
                             of_rule("muon"), 1, 1, device),
                 UsageError)
        << parts;
  }
}

OptimizerConfig plain_muon() {
  return of_rule("muon", {{"nesterov", 0}});
}

// Only hidden matrices do this; the other tensors keep accumulators.
TEST(Muon, GradientsAreFoldedIntoTheMomentumOfMatrices) {
  CpuDevice device(2);
  constexpr int kMicrobatches = 3;
  Policy policy = make_policy("fp32");
  ModelMemory apart(kEveryKind, policy, plain_muon(), 3, kMicrobatches, device);
  policy.accumulate_in_momentum = true;
  ModelMemory together(kEveryKind, policy, plain_muon(), 3, kMicrobatches, device);
  for (ModelMemory* m : {&apart, &together}) {
    for (int i = 0; i < m->tensors(); ++i) {
      m->initialize(i, 0, normal_values(m->info(i).elements(), 5, 0.1F));
    }
    for (std::uint32_t s = 1; s <= 4; ++s) {
      Step this_step = m->begin_step({s, 0.02});
      for (int k = 0; k < kMicrobatches; ++k) {
        const auto gradients = gradients_of(*m, 100 * s + 10 * static_cast<std::uint64_t>(k));
        for (int i = 0; i < m->tensors(); ++i)
          this_step.fold(i, 0, gradients[static_cast<std::size_t>(i)], k);
      }
      ASSERT_TRUE(std::move(this_step).commit().applied);
    }
  }
  std::int64_t saved = 0;
  for (int i = 0; i < apart.tensors(); ++i) {
    const auto a = parameters(apart, i), b = parameters(together, i);
    for (std::size_t e = 0; e < a.size(); ++e) {
      // The iteration enlarges differences in the rounding of folds: 1e-7 of a direction, some hundred times.
      ASSERT_NEAR(a[e], b[e], i < kHiddenOnes ? 2e-5 : 0) << apart.info(i).name;
    }
    EXPECT_EQ(together.view(i, Role::kAccumulator).codes == together.view(i, Role::kMomentum).codes,
              i < kHiddenOnes)
        << apart.info(i).name;
    if (i < kHiddenOnes) saved += 4 * apart.info(i).elements();
  }
  EXPECT_EQ(apart.ledger().model_memory() - together.ledger().model_memory(), saved);
}

TEST(Muon, AFailedStepEmptiesWhatGradientsWereFoldedInto) {
  CpuDevice device(2);
  Policy policy = make_policy("lpmm");
  policy.accumulate_in_momentum = true;
  ModelMemory memory(kEveryKind, policy, plain_muon(), 3, 1, device);
  step(memory, 1, gradients_of(memory, 1), 0.02);
  const auto before = parameters(memory), state = values_of(memory, 2, Role::kMomentum);
  auto gradients = gradients_of(memory, 2);
  gradients[0][7] = std::numeric_limits<float>::quiet_NaN();
  Step this_step = memory.begin_step({2, 0.02});
  for (std::size_t i = 0; i < gradients.size(); ++i) this_step.fold(static_cast<int>(i), 0, gradients[i], 0);
  const StepReport report = std::move(this_step).commit();
  EXPECT_FALSE(report.applied);
  EXPECT_EQ(report.failed_tensor, "w");
  EXPECT_EQ(parameters(memory), before);
  EXPECT_EQ(values_of(memory, 2, Role::kMomentum), state);
  EXPECT_EQ(values_of(memory, 0, Role::kMomentum), std::vector<float>(before.size(), 0.0F));
  step(memory, 3, gradients_of(memory, 3), 0.02);
}

// A momentum that is no number ends the run, whatever the pass that meets it.
template <class DeviceType>
void expect_bad_momentum_told(DeviceType& device) {
  ModelMemory memory({{"w", {9, 30}}}, make_policy("fp32"), of_rule("muon"), 1, 1, device);
  std::vector<float> bad(270, 1.0F);
  bad[100] = std::numeric_limits<float>::quiet_NaN();
  device.upload(memory.view(0, Role::kMomentum).codes, bad.data(), 4 * 270);
  Step this_step = memory.begin_step({1, 0.1});
  EXPECT_THROW(std::move(this_step).commit(), RunError);
}
TEST(Muon, AMomentumThatIsNoNumberEndsTheRun) {
  CpuDevice cpu(1);
  expect_bad_momentum_told(cpu);
  kernels::EmulatedCuda emulated(1);
  expect_bad_momentum_told(emulated);
}

TEST(Muon, WhatItDoesNotTakeIsRefusedWithTheReason) {
  const auto why = [](const OptimizerConfig& c, bool feedback, bool accumulates) -> std::string {
    Policy policy = make_policy("lpmm");
    policy.error_feedback = feedback;
    policy.accumulate_in_momentum = accumulates;
    try {
      check_optimizer(c);
      check_momentum(policy, c);
    } catch (const UsageError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(why(of_rule("muon"), true, false).find("a step is made of a whole matrix"), std::string::npos);
  EXPECT_NE(why(of_rule("muon"), false, true).find("optimizer.nesterov = false"), std::string::npos);
  OptimizerConfig clips = plain_muon();
  EXPECT_EQ(why(clips, false, true), "");
  clips.clip_norm = 1;
  EXPECT_NE(why(clips, false, true).find("optimizer.clip_norm = 0"), std::string::npos);
  EXPECT_NE(why(of_rule("muon", {{"ns_steps", 2.5}}), false, false).find("ns_steps must be a whole number"),
            std::string::npos);
  EXPECT_NE(why(of_rule("muon", {{"ns_steps", 0}}), false, false).find("ns_steps is 0"), std::string::npos);
  EXPECT_NE(why(of_rule("muon", {{"adamw_rate_scale", -1}}), false, false).find("adamw_rate_scale is -1"),
            std::string::npos);
  EXPECT_FALSE(make_policy("lpmm-nano", plain_muon()).accumulate_in_momentum) << "its specs are for SGD";
}

// Counts what is asked of it.
class CountingDevice : public CpuDevice {
 public:
  using CpuDevice::CpuDevice;
  std::int64_t bytes = 0;
  DeviceMemory allocate(std::int64_t count) override {
    bytes += count;
    return CpuDevice::allocate(count);
  }
  // Memory for results is no part of the model.
  DeviceMemory allocate_shared(std::int64_t count) override { return CpuDevice::allocate(count); }
};

TEST(Muon, TheWorkspaceIsAllocatedOnceAndCounted) {
  CountingDevice device(1);
  const std::vector<TensorInfo> tensors = {
      {"small", {8, 8}}, {"large", {32, 64}}, {"qkv", {96, 32}, TensorKind::kHidden, 3}, {"b", {64}}};
  const auto bytes_of = [&](const OptimizerConfig& c) {
    const std::int64_t workspace = update_workspace_bytes(tensors, c, device);
    const auto total = [&] {
      device.bytes = 0;
      ModelMemory memory(tensors, make_policy("fp32"), c, 1, 1, device);
      EXPECT_EQ(memory.ledger().workspace, workspace);
      const std::int64_t made = device.bytes;
      step(memory, 1, gradients_of(memory, 1), 0.1);
      step(memory, 2, gradients_of(memory, 2), 0.1);
      EXPECT_EQ(device.bytes, made);
      return made - memory.ledger().model_memory();
    };
    EXPECT_EQ(total(), workspace);
    return workspace;
  };
  EXPECT_EQ(bytes_of(of_rule("adamw")), 0);
  // The larger of both needs: direction and product are as large as the matrix, one square is.
  const std::int64_t large = 4 * (2 * 32 * 64 + 32 * 32) + device.matmul_scratch_bytes({.m = 32, .n = 64});
  const std::int64_t qkv = 4 * (96 * 32 + 2 * 32 * 32) + device.matmul_scratch_bytes({.m = 32, .n = 32});
  EXPECT_EQ(bytes_of(of_rule("muon")), std::max(large, qkv));
  OptimizerConfig frozen = of_rule("muon");
  frozen.groups = {{.pattern = "large", .frozen = true}, {.pattern = "qkv", .frozen = true}};
  EXPECT_EQ(bytes_of(frozen), 4 * 3 * 64 + device.matmul_scratch_bytes({.m = 8, .n = 8}));
}

TEST(Muon, StepsThatAreCountedChangeNoBitAndCountEachRoleOnce) {
  CpuDevice device(2);
  ModelMemory counted(kEveryKind, make_policy("lpmm-min"), of_rule("muon"), 3, 1, device);
  ModelMemory plain(kEveryKind, make_policy("lpmm-min"), of_rule("muon"), 3, 1, device);
  for (std::uint32_t s = 1; s <= 3; ++s) {
    const auto gradients = gradients_of(plain, s);
    step(plain, s, gradients, 0.02);
    Step this_step = counted.begin_step({s, 0.02, true});
    for (std::size_t i = 0; i < gradients.size(); ++i)
      this_step.fold(static_cast<int>(i), 0, gradients[i], 0);
    ASSERT_TRUE(std::move(this_step).commit().applied);
    const auto stats = counted.take_stats();
    for (int i = 0; i < kHiddenOnes; ++i) {
      EXPECT_EQ(parameters(counted, i), parameters(plain, i));
      const auto& of = stats[static_cast<std::size_t>(i)].role;
      EXPECT_EQ(of[Role::kParameter].elements, plain.info(i).elements());
      EXPECT_EQ(of[Role::kMomentum].elements, plain.info(i).elements());
      EXPECT_EQ(of[Role::kVariance].elements, 0);
    }
  }
}

}  // namespace
}  // namespace lpmm
