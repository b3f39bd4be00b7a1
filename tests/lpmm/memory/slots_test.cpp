// Slots against the scalar specification.
#include "lpmm/memory/slots/slots.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/cpu.h"
#include "kernels/cuda/emulated.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/memory/roles.h"
#include "tests/lpmm/memory/oracle.h"
#include "tests/lpmm/memory/slot_case.h"

namespace lpmm {
namespace {

using Floats = SlotFloats;

template <class T>
std::vector<T> downloaded(PackedDevice& device, const T* from, std::size_t count) {
  std::vector<T> values(count);
  device.download(values.data(), from, static_cast<std::int64_t>(count * sizeof(T)));
  return values;
}

void expect_equal(const ModelMemory& memory, const Oracle& oracle, const std::string& what) {
  for (int i = 0; i < memory.tensors(); ++i) {
    for (const Role role : kEveryRole) {
      if (role == Role::kAccumulator) continue;  // empty
      const kernels::RoleView v = memory.view(i, role);
      const Oracle::Stored& o = oracle.stored(i, role);
      const std::string where = fmt::format("{}, {} {}", what, memory.info(i).name, to_string(role));
      ASSERT_EQ(v.codes == nullptr, o.codes.empty()) << where;
      ASSERT_TRUE(o.codes == downloaded(memory.device(), v.codes, o.codes.size())) << where;
      ASSERT_TRUE(o.steps == downloaded(memory.device(), v.steps, o.steps.size())) << where << " steps";
    }
  }
}

void expect_the_specification(const SlotCase& c, Device& device, std::uint32_t steps) {
  const OptimizerConfig optimizer = c.optimizer();
  ModelMemory memory(kSlotTensors, c.policy(), optimizer, 7, c.microbatches, device, c.slots);
  Oracle oracle(kSlotTensors, c.policy(), optimizer, 7, c.microbatches, c.slots);
  for (int i = 0; i < memory.tensors(); ++i) {
    memory.initialize(i, 0, initial_of(i));
    oracle.initialize(i, initial_of(i));
  }
  const DeviceMemory room = device.allocate(4 * 70000);
  for (std::uint32_t number = 1; number <= steps; ++number) {
    Step step = memory.begin_step({number, 0.01});
    oracle.begin_step(number);
    for (int k = 0; k < c.microbatches; ++k) {
      for (int i = 0; i < memory.tensors(); ++i) {
        const Floats g = gradient_of(i, number, k);
        step.fold(i, 0, {on_device(device, g.data(), std::ssize(g), room.get()), g.size()}, k);
        oracle.fold(i, g, k);
      }
    }
    const StepReport a = std::move(step).commit(), b = oracle.commit(0.01);
    EXPECT_TRUE(a.applied);
    EXPECT_EQ(a.gradient_norm, b.gradient_norm) << c.name();
    EXPECT_EQ(a.clip_factor, b.clip_factor) << c.name();
    EXPECT_EQ(a.clipped_tensors, b.clipped_tensors) << c.name();
    expect_equal(memory, oracle, fmt::format("{} step {}", c.name(), number));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(Slots, AStepIsThatOfTheSpecification) {
  const SlotCase cases[] = {
      {.clip = 0.1, .average = 0.9},
      {.preset = "lpmm", .rule = "sgd", .microbatches = 6, .slots = 3, .percentile = 40},
      {.preset = "fp32", .rule = "lamb", .microbatches = 4, .slots = 2, .clip = 0.1},
      {.preset = "lpmm-nano", .rule = "adafactor", .microbatches = 5, .slots = 5},
      {.preset = "lpmm-compact", .rule = "adam_mini", .microbatches = 2, .slots = 2}};
  for (const SlotCase& c : cases) {
    CpuDevice device(2);
    expect_the_specification(c, device, 2);
  }
}

TEST(Slots, AStepOnAnEmulatedGpuIsThatOfTheSpecification) {
  kernels::EmulatedCuda device(2);
  expect_the_specification({.slots = 2, .clip = 0.1}, device, 1);
}

TEST(Slots, WhatDoesNotGoTogetherIsRefused) {
  CpuDevice device(1);
  const auto refusal = [&](const Policy& policy, int microbatches, int slots) -> std::string {
    try {
      const ModelMemory memory(kSlotTensors, policy, SlotCase{}.optimizer(), 7, microbatches, device, slots);
    } catch (const UsageError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(make_policy("lpmm"), 4, 3),
            "ranks.slots = 3 does not divide train.microbatches = 4: a slot has whole microbatches");
  Policy peaks = make_policy("lpmm");
  peaks.keeps_peaks = true;
  EXPECT_NE(refusal(peaks, 4, 2).find("watch.every = true"), std::string::npos);
  Policy momentum = make_policy("lpmm");
  momentum.accumulate_in_momentum = true;
  EXPECT_NE(refusal(momentum, 4, 2), "");
  EXPECT_EQ(refusal(make_policy("lpmm"), 4, 2), "");
  EXPECT_THROW(check_slots(make_policy("lpmm"), 4, {4, 2, 0, 2}), UsageError) << "a stage of 2";
}

}  // namespace
}  // namespace lpmm
