// Gradients that are applied at once: no accumulator, and the bytes of an fp32 accumulator.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "kernels/cpu.h"
#include "kernels/cuda/emulated.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/model_memory.h"
#include "tests/lpmm/memory/at_once_policy.h"
#include "tests/lpmm/memory/drawn_values.h"
#include "tests/lpmm/memory/stored_bytes.h"
#include "tests/sanitized.h"

namespace lpmm {
namespace {

constexpr int kTied = 1, kFrozen = 4;
const std::vector<TensorInfo> kLayers = {{"a.weight", {70, 300}},
                                         {.name = "tied.weight", .shape = {80, 70}, .is_shared = true},
                                         {"b.weight", {64, 128}},
                                         {"b.bias", {70}},
                                         {"frozen.weight", {16, 16}}};
constexpr double kRate = 1e-3;

OptimizerConfig adamw() {
  OptimizerConfig o;
  o.rule = "adamw";
  o.weight_decay = 0.01;
  o.groups = {{.pattern = "frozen.*", .frozen = true}};
  return o;
}
// Stores each gradient whole, but for the tied one, to compare with; that one keeps the preset's bits.
Policy in_fp32(std::string_view preset) {
  Policy policy = make_policy(preset);
  PolicyOverride tied;
  tied.pattern = "tied.*";
  tied.specs[Role::kAccumulator] = policy.specs[Role::kAccumulator];
  policy.specs[Role::kAccumulator] = {};
  policy.overrides = {tied};
  return policy;
}

// Tensors last to first, as backward reaches them, in ranges of at most `range` elements.
void run_step(ModelMemory& memory, std::uint32_t step, std::int64_t range) {
  Step this_step = memory.begin_step({step, kRate * step, step == 3});
  for (int i = memory.tensors() - 1; i >= 0; --i) {
    const std::vector<float> gradient = gradient_of(memory, i, step, 0);
    const std::vector<float> kept = gradient;
    const std::int64_t n = std::ssize(gradient);
    for (std::int64_t at = 0; at < n; at += range) {
      const auto of_range = std::span(gradient).subspan(static_cast<std::size_t>(at),
                                                        static_cast<std::size_t>(std::min(range, n - at)));
      this_step.fold(i, at, of_range, 0);
    }
    EXPECT_EQ(gradient, kept);
  }
  ASSERT_TRUE(std::move(this_step).commit().applied);
}

// Returns the bytes that are stored after some steps.
Bytes bytes_after_steps(Device& device, const Policy& policy, std::int64_t range) {
  ModelMemory memory(kLayers, policy, adamw(), 5, 1, device);
  initialize(memory);
  for (std::uint32_t step = 1; step <= 5; ++step) run_step(memory, step, range);
  EXPECT_EQ(memory.updates(), 5);
  EXPECT_EQ(memory.take_stats()[0].role[Role::kParameter].elements, 70 * 300);
  return stored_bytes(memory);
}

TEST(AtOnce, HasTheBytesOfAnFp32Accumulator) {
  CpuDevice one(1), three(3);
  kernels::EmulatedCuda emulated(2, false);
  for (const std::string_view preset : preset_names()) {
    SCOPED_TRACE(preset);
    if (!has_blocks(make_policy(preset).specs[Role::kVariance])) continue;  // wants whole tensors
    const Bytes usual = bytes_after_steps(one, in_fp32(preset), 1 << 20);
    EXPECT_TRUE(bytes_after_steps(one, at_once(preset), 1 << 20) == usual);
    EXPECT_TRUE(bytes_after_steps(three, at_once(preset), kernels::kTile) == usual);
    if (kSanitized) continue;
    EXPECT_TRUE(bytes_after_steps(emulated, at_once(preset), kernels::kTile) == usual);
  }
}

TEST(AtOnce, OnlyTiedTensorsHaveAnAccumulator) {
  CpuDevice device(1);
  const Policy policy = at_once("lpmm-min");
  const ModelMemory memory(kLayers, policy, adamw(), 5, 1, device);
  for (int i = 0; i < memory.tensors(); ++i) {
    EXPECT_EQ(memory.view(i, Role::kAccumulator).codes != nullptr, i == kTied) << i;
    EXPECT_EQ(memory.is_frozen(i), i == kFrozen) << i;
  }
  const Ledger ledger = memory_ledger(kLayers, policy, adamw());
  EXPECT_EQ(ledger.role_bytes(Role::kAccumulator), code_bytes({Map::kSoftsign, 4}, 5600) + 2 * 44);
  EXPECT_EQ(ledger.model_memory(), memory.ledger().model_memory());
}

// Ranges before the NaN have their update, those after it and the tied tensor do not.
void expect_stop_at(float bad) {
  CpuDevice device(2);
  ModelMemory memory(kLayers, at_once("lpmm-min"), adamw(), 5, 1, device);
  initialize(memory);
  run_step(memory, 1, 1 << 20);
  const Bytes before = stored_bytes(memory);
  Step this_step = memory.begin_step({2, kRate});
  std::vector<float> gradient = gradient_of(memory, 0, 2, 0);
  this_step.fold(2, 0, gradient_of(memory, 2, 2, 0), 0);
  this_step.fold(kTied, 0, gradient_of(memory, kTied, 2, 0), 0);
  gradient[5000] = bad;
  this_step.fold(0, 0, std::span(gradient).first(kernels::kTile), 0);
  const Bytes half = stored_bytes(memory);
  this_step.fold(0, kernels::kTile, std::span(gradient).subspan(kernels::kTile), 0);
  this_step.fold(3, 0, gradient_of(memory, 3, 2, 0), 0);
  const StepReport report = std::move(this_step).commit();
  EXPECT_FALSE(report.applied);
  EXPECT_EQ(report.failed_tensor, "a.weight");
  EXPECT_EQ(memory.updates(), 1);
  EXPECT_TRUE(stored_bytes(memory) == half);
  EXPECT_FALSE(half[0] == before[0]);
  EXPECT_FALSE(half[2] == before[2]);
  EXPECT_TRUE(half[1] == before[1] && half[3] == before[3]);
  run_step(memory, 3, 1 << 20);
}
TEST(AtOnce, ANanStopsTheStepWhereItComes) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(), 0x1p126F}) {
    expect_stop_at(bad);
  }
}

TEST(AtOnce, ALossThatIsNotFiniteStopsAllOfIt) {
  CpuDevice device(1);
  ModelMemory memory(kLayers, at_once("lpmm"), adamw(), 5, 1, device);
  initialize(memory);
  const Bytes before = stored_bytes(memory);
  Step this_step = memory.begin_step({1, kRate});
  this_step.next_loss()->sum = std::numeric_limits<double>::infinity();
  for (int i = 0; i < memory.tensors(); ++i) this_step.fold(i, 0, gradient_of(memory, i, 1, 0), 0);
  EXPECT_EQ(std::move(this_step).commit().failed_tensor, "the loss");
  EXPECT_TRUE(stored_bytes(memory) == before);
}

TEST(AtOnce, WhatCannotBeStoredEndsTheRun) {
  CpuDevice device(1);
  ModelMemory memory(kLayers, at_once("lpmm"), adamw(), 5, 1, device);
  initialize(memory);
  Step this_step = memory.begin_step({1, kRate});
  for (int i = 0; i < memory.tensors(); ++i) {
    const float gradient = i == 2 ? 1e30F : 0.0F;
    this_step.fold(i, 0, std::vector<float>(static_cast<std::size_t>(memory.info(i).elements()), gradient),
                   0);
  }
  EXPECT_THROW(std::move(this_step).commit(), RunError);
  EXPECT_THROW(memory.begin_step({2, kRate}), UsageError);
}

void expect_refusal(const std::function<void()>& body, const std::string& why) {
  try {
    body();
    ADD_FAILURE() << "nothing was refused: " << why;
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
  }
}

TEST(AtOnce, RefusesWhatNeedsAllGradientsFirst) {
  CpuDevice device(1);
  const auto make = [&](const Policy& policy, const OptimizerConfig& o, int microbatches) {
    ModelMemory(kLayers, policy, o, 5, microbatches, device);
  };
  OptimizerConfig clipped = adamw(), lamb = adamw(), muon = adamw(), shortened = adamw();
  shortened.settings["update_clip"] = 1;
  clipped.clip_norm = 1;
  lamb.rule = "lamb";
  muon.rule = "muon";
  Policy both = at_once("lpmm"), other = at_once("lpmm");
  both.accumulate_in_momentum = true;
  PolicyOverride accumulator;
  accumulator.pattern = "a.*";
  accumulator.specs[Role::kAccumulator] = parse_spec("int8");
  other.overrides = {accumulator};
  expect_refusal([&] { make(at_once("lpmm"), adamw(), 2); }, "train.microbatches = 1");
  expect_refusal([&] { make(at_once("lpmm"), clipped, 1); }, "optimizer.clip_norm = 0");
  expect_refusal([&] { make(at_once("lpmm"), lamb, 1); }, "lamb needs whole gradients");
  expect_refusal([&] { make(at_once("lpmm"), muon, 1); }, "muon needs whole gradients");
  expect_refusal([&] { make(at_once("lpmm"), shortened, 1); }, "optimizer.update_clip needs whole gradients");
  expect_refusal([&] { make(both, OptimizerConfig(), 1); }, "momentum");
  expect_refusal([&] { make(other, adamw(), 1); }, "only tied tensors may");
  ModelMemory memory(kLayers, at_once("lpmm"), adamw(), 5, 1, device);
  Step this_step = memory.begin_step({1, kRate});
  const std::vector<float> values(1000);
  expect_refusal([&] { this_step.fold(0, 128, values, 0); }, "multiples of 256");
}

}  // namespace
}  // namespace lpmm
