// Gradients that wait to be folded together: what folding each as it comes gives.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "kernels/cpu.h"
#include "kernels/cuda/emulated.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/model_memory.h"
#include "tests/lpmm/memory/at_once_policy.h"
#include "tests/lpmm/memory/drawn_values.h"
#include "tests/lpmm/memory/stored_bytes.h"
#include "tests/lpmm/said.h"

namespace lpmm {
namespace {

enum Layer { kWeight, kBias, kNorm, kFrozenBias };
const std::vector<TensorInfo> kNamed = {
    {"a.weight", {64, 128}}, {"a.bias", {70}}, {"norm.weight", {2000}}, {"frozen.bias", {70}}};

OptimizerConfig clipping() {
  OptimizerConfig o;
  o.rule = "adamw";
  o.clip_norm = 0.1;
  o.groups = {{.pattern = "frozen.*", .frozen = true}};
  return o;
}
ModelMemory memory_on(Device& device, const Policy& policy = make_policy("lpmm-min"), int microbatches = 2) {
  OptimizerConfig optimizer = clipping();
  if (policy.apply_at_once) optimizer.clip_norm = 0;
  ModelMemory memory(kNamed, policy, optimizer, 5, microbatches, device);
  initialize(memory);
  return memory;
}
std::vector<float> accumulated(const ModelMemory& memory, int tensor) {
  const kernels::RoleView v = memory.view(tensor, Role::kAccumulator);
  std::vector<float> values(static_cast<std::size_t>(v.elements));
  memory.device().decode(v, 0, v.elements, values.data());
  return values;
}

struct Reached {
  Bytes bytes;
  std::vector<double> norms;
  std::int64_t counted = 0;
  bool operator==(const Reached&) const = default;
};
// After steps in which every gradient waits, or none does.
Reached after_steps(Device& device, const Policy& policy, bool waits) {
  ModelMemory memory = memory_on(device, policy, policy.apply_at_once ? 1 : 2);
  Reached reached;
  for (std::uint32_t step = 1; step <= 3; ++step) {
    Step this_step = memory.begin_step({step, 0.01, step == 2});
    for (int k = 0; k < memory.microbatches(); ++k) {
      std::vector<std::vector<float>> kept;
      for (int i = 0; i < memory.tensors(); ++i) {
        kept.push_back(gradient_of(memory, i, step, k));
        if (waits) {
          this_step.fold_later(i, 0, kept.back(), k);
        } else {
          this_step.fold(i, 0, kept.back(), k);
        }
      }
      this_step.fold_waiting();
    }
    const StepReport report = std::move(this_step).commit();
    EXPECT_TRUE(report.applied);
    reached.norms.push_back(report.gradient_norm);
  }
  reached.bytes = stored_bytes(memory);
  for (const TensorStats& stats : memory.take_stats()) {
    reached.counted += stats.role[Role::kAccumulator].underflows + stats.role[Role::kAccumulator].elements;
  }
  return reached;
}

TEST(WaitingFolds, GiveWhatFoldsAtOnceGive) {
  CpuDevice cpu(2);
  kernels::EmulatedCuda emulated(2, false);
  for (Device* device : {static_cast<Device*>(&cpu), static_cast<Device*>(&emulated)}) {
    for (const std::string_view preset : preset_names()) {
      const Policy policy = make_policy(preset);
      EXPECT_TRUE(after_steps(*device, policy, true) == after_steps(*device, policy, false))
          << preset << " on " << device->name();
    }
    const Policy none = at_once("lpmm");
    EXPECT_TRUE(after_steps(*device, none, true) == after_steps(*device, none, false)) << device->name();
  }
}

TEST(WaitingFolds, WaitUntilTheyAreCarriedOut) {
  CpuDevice device(1);
  ModelMemory memory = memory_on(device);
  std::vector<float> gradient(70, 2.0F);
  const std::vector<float> none(70), half(70, 1.0F);
  Step this_step = memory.begin_step({1, 0.01});
  this_step.fold_later(kBias, 0, gradient, 0);
  this_step.fold_later(kFrozenBias, 0, gradient, 0);  // is dropped
  EXPECT_EQ(accumulated(memory, kBias), none);
  this_step.fold_waiting();
  EXPECT_EQ(accumulated(memory, kBias), half);
  gradient.assign(70, NAN);
  this_step.fold_waiting();  // there are none
  EXPECT_EQ(accumulated(memory, kBias), half);
  EXPECT_TRUE(std::move(this_step).commit().applied);
}

// 1 is lost in 2^25, but not in other orders: of the first three where the last comes first, of the others
// where the first comes last.
TEST(WaitingFolds, ComeBeforeLaterOnesOfTheirTensor) {
  CpuDevice cpu(1);
  kernels::EmulatedCuda emulated(1, false);
  for (Device* device : {static_cast<Device*>(&cpu), static_cast<Device*>(&emulated)}) {
    for (const auto& values : {std::array{0x1p25F, 1.0F, -0x1p25F}, std::array{1.0F, 0x1p25F, -0x1p25F}}) {
      std::vector<std::vector<float>> parts;
      for (const float value : values) parts.emplace_back(70, value);
      for (const bool last_waits : {false, true}) {
        ModelMemory memory = memory_on(*device, make_policy("lpmm"), 1);
        Step this_step = memory.begin_step({1, 0.01});
        this_step.fold_later(kBias, 0, parts[0], 0, 0, false);
        this_step.fold_later(kBias, 0, parts[1], 0, 1, false);
        if (last_waits) {
          this_step.fold_later(kBias, 0, parts[2], 0, 2);
        } else {
          this_step.fold(kBias, 0, parts[2], 0, 2);
        }
        this_step.fold_waiting();
        EXPECT_EQ(accumulated(memory, kBias), std::vector<float>(70)) << device->name() << last_waits;
        EXPECT_EQ(std::move(this_step).commit().gradient_norm, 0) << device->name() << last_waits;
      }
    }
  }
}

TEST(WaitingFolds, FailAsTheyWouldHaveAtOnce) {
  CpuDevice device(1);
  const std::vector<float> weight(64 * 128, NAN), norm(2000, 1.0F);
  std::vector<float> bias(70, 1.0F);
  bias[69] = NAN;
  for (const bool is_asked : {false, true}) {
    ModelMemory memory = memory_on(device);
    const Bytes before = stored_bytes(memory);
    Step this_step = memory.begin_step({1, 0.01});
    this_step.fold_later(kNorm, 0, norm, 0);
    this_step.fold_later(kBias, 0, bias, 0);
    this_step.fold(kWeight, 0, weight, 0);  // fails later, if sooner found
    if (is_asked) {
      EXPECT_TRUE(this_step.failed());
      EXPECT_EQ(accumulated(memory, kNorm), std::vector<float>(2000, 0.5F));  // did not wait
      this_step.fold_later(kNorm, 0, norm, 1);                                // is dropped
    }
    this_step.fold_waiting();
    const StepReport report = std::move(this_step).commit();
    EXPECT_FALSE(report.applied);
    EXPECT_EQ(report.failed_tensor, "a.bias");
    EXPECT_EQ(stored_bytes(memory), before);
    EXPECT_EQ(accumulated(memory, kNorm), std::vector<float>(2000));
    EXPECT_EQ(accumulated(memory, kBias), std::vector<float>(70));
  }
  ModelMemory memory = memory_on(device);
  Step this_step = memory.begin_step({1, 0.01});
  this_step.fold_later(kBias, 0, bias, 0);
  this_step.fail("the loss");
  EXPECT_EQ(std::move(this_step).commit().failed_tensor, "a.bias");
}

TEST(WaitingFolds, AreFoldedByCommit) {
  CpuDevice device(1);
  ModelMemory memory = memory_on(device), other = memory_on(device);
  for (ModelMemory* m : {&memory, &other}) {
    Step step = m->begin_step({1, 0.01});
    const std::vector<float> two(70, 2.0F);
    EXPECT_NE(said([&] { step.fold_later(kBias, 0, two, 2); }).find("microbatch 2"), std::string::npos);
    EXPECT_THROW(step.fold_later(kBias, 1, two, 0), UsageError);
    EXPECT_THROW(step.fold_later(9, 0, two, 0), UsageError);
    m == &memory ? step.fold_later(kBias, 0, two, 0) : step.fold(kBias, 0, two, 0);
    EXPECT_TRUE(std::move(step).commit().applied);
  }
  EXPECT_EQ(stored_bytes(memory), stored_bytes(other));
}

TEST(WaitingFolds, AreDroppedWithTheirStep) {
  CpuDevice cpu(2);
  kernels::EmulatedCuda emulated(2, false);
  for (Device* device : {static_cast<Device*>(&cpu), static_cast<Device*>(&emulated)}) {
    ModelMemory memory = memory_on(*device), other = memory_on(*device);
    const Bytes before = stored_bytes(memory);
    {
      Step step = memory.begin_step({1, 0.01, true});
      Step moved = std::move(step);
      moved.fold(kWeight, 0, gradient_of(memory, kWeight, 1, 0), 0);
      const std::vector<float> gone(70, NAN);
      moved.fold_later(kBias, 0, gone, 0);
    }
    EXPECT_THROW(memory.begin_step({1}), UsageError);
    EXPECT_EQ(stored_bytes(memory), before);
    EXPECT_EQ(accumulated(memory, kWeight), std::vector<float>(64 * 128));
    EXPECT_EQ(memory.updates(), 0);
    for (ModelMemory* m : {&memory, &other}) EXPECT_TRUE(folded_step(*m, {2, 0.01}).commit().applied);
    EXPECT_EQ(stored_bytes(memory), stored_bytes(other));
  }
}

}  // namespace
}  // namespace lpmm
