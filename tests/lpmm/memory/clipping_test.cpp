// Percentile clipping: the gate that bitsandbytes had for it, its edges, and the same bits anywhere.
#include "lpmm/memory/clipping.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu.h"
#include "kernels/cuda/emulated.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/model_memory.h"
#include "lpmm/memory/roles.h"
#include "tests/normal_values.h"

namespace lpmm {
namespace {

OptimizerConfig clipped(int percentile, double clip_norm = 0) {
  OptimizerConfig c;  // plain SGD: a step is rate * factor * gradient
  c.percentile_clip = percentile;
  c.clip_norm = clip_norm;
  return c;
}

// Their test of 2021: 1,000 steps of randn(4, 4), and clip is the 6th smallest of the last 100 norms.
TEST(Clipping, CutsToThePercentileOfTheLastHundredNorms) {
  CpuDevice device(1);
  ModelMemory memory({{"w", {4, 4}}}, make_policy("fp32"), clipped(5), 1, 1, device);
  std::vector<double> norms(100);
  int cut = 0;
  for (std::uint32_t t = 1; t <= 1000; ++t) {
    const std::vector<float> g = normal_values(16, t, 1);
    double square = 0;
    for (const float x : g) square += double{x} * x;
    const double norm = std::sqrt(square);
    if (t == 1) std::fill(norms.begin(), norms.end(), norm);
    norms[t % 100] = norm;
    std::vector<double> sorted = norms;
    std::sort(sorted.begin(), sorted.end());
    const double factor = norm < sorted[5] ? 1 : sorted[5] / norm;

    memory.initialize(0, 0, std::vector<float>(16));
    Step this_step = memory.begin_step({t, 1});
    this_step.fold(0, 0, g, 0);
    const StepReport report = std::move(this_step).commit();
    ASSERT_TRUE(report.applied);
    EXPECT_NEAR(report.gradient_norm, norm, 1e-9 * norm);
    EXPECT_EQ(report.clip_factor, 1);
    std::vector<float> w(16);
    memory.read(0, 0, w);
    for (std::size_t i = 0; i < 16; ++i) ASSERT_NEAR(w[i], -factor * g[i], 1e-6) << "step " << t;
    cut += static_cast<int>(report.clipped_tensors);
  }
  // About 94 of 100 norms are above the 6th smallest.
  EXPECT_NEAR(cut, 940, 30);
}

TEST(Clipping, FillsItsHistoryWithTheFirstGradient) {
  GradientHistory history;
  EXPECT_EQ(history.add(4, 1, 50), 1);
  for (const float x : history.squares()) EXPECT_EQ(x, 4);
  EXPECT_DOUBLE_EQ(history.add(16, 2, 50), 0.5);
  EXPECT_EQ(history.squares()[2], 16);  // the square sum before clipping
  EXPECT_EQ(history.squares()[1], 4);
  EXPECT_EQ(history.add(1, 3, 50), 1);
  EXPECT_EQ(history.add(9, 102, 99), 1);  // in place of the 16: the largest itself
  EXPECT_EQ(history.squares()[2], 9);
}

TEST(Clipping, TensorsWhoseGradientsWereZeroMayMove) {
  GradientHistory history;
  EXPECT_EQ(history.add(0, 1, 5), 1);
  EXPECT_EQ(history.add(7, 2, 5), 1);
}

// Square sums beyond fp32 stay numbers that a checkpoint can hold.
TEST(Clipping, HugeGradientsAreKept) {
  GradientHistory history;
  history.add(1, 1, 5);
  EXPECT_GT(history.add(1e300, 2, 5), 0);
  EXPECT_EQ(history.squares()[2], std::numeric_limits<float>::max());
  EXPECT_TRUE(GradientHistory::can_be(history.squares()));
  const std::vector<float> negative(100, -1.0F), nan(100, NAN), few(99, 1.0F), many(101, 1.0F);
  for (const auto& bad : {negative, nan, few, many}) EXPECT_FALSE(GradientHistory::can_be(bad));
}

// Histories first, each its own tensor's; the norm of what they leave is clip_norm's.
TEST(Clipping, TheCommonNormIsOfWhatHistoriesLeave) {
  CpuDevice device(1);
  ModelMemory memory({{"a", {1, 1}}, {"b", {1, 1}}}, make_policy("fp32"), clipped(50, 4), 1, 1, device);
  const auto step = [&](std::uint32_t t, float a, float b) {
    memory.initialize(0, 0, std::vector<float>{0});
    memory.initialize(1, 0, std::vector<float>{0});
    Step this_step = memory.begin_step({t, 1});
    this_step.fold(0, 0, std::vector<float>{a}, 0);
    this_step.fold(1, 0, std::vector<float>{b}, 0);
    return std::move(this_step).commit();
  };
  const auto weight = [&](int i) {
    std::vector<float> w(1);
    memory.read(i, 0, w);
    return w[0];
  };
  step(1, 3, 1);
  // a spikes: it is cut to 3, and 3 and 1 are below the norm 4. Without histories both would be cut.
  StepReport report = step(2, 300, 1);
  EXPECT_EQ(report.clipped_tensors, 1);
  EXPECT_EQ(report.clip_factor, 1);
  EXPECT_NEAR(report.gradient_norm, std::sqrt(90001.0), 1e-6);
  EXPECT_FLOAT_EQ(weight(0), -3);
  EXPECT_FLOAT_EQ(weight(1), -1);
  // Both within their histories but for the norm.
  ModelMemory other({{"a", {1, 1}}}, make_policy("fp32"), clipped(50, 2), 1, 1, device);
  Step this_step = other.begin_step({1, 1});
  this_step.fold(0, 0, std::vector<float>{3}, 0);
  report = std::move(this_step).commit();
  EXPECT_EQ(report.clipped_tensors, 0);
  EXPECT_NEAR(report.clip_factor, 2.0 / 3, 1e-6);
}

std::vector<float> history_of(const ModelMemory& memory, int tensor) {
  const auto squares = memory.gradient_history(tensor)->squares();
  return {squares.begin(), squares.end()};
}

// Weights, states and histories after steps of K = 2 with sums by ranges.
std::vector<float> after_steps(Device& device, std::string_view preset) {
  OptimizerConfig c = clipped(30, 0.5);
  c.rule = "adamw";
  ModelMemory memory({{"a", {33, 260}}, {"b", {37}}, {"c", {64, 80}}}, make_policy(preset), c, 3, 2, device);
  std::vector<float> out;
  for (int i = 0; i < memory.tensors(); ++i) {
    memory.initialize(i, 0, normal_values(memory.info(i).elements(), static_cast<std::uint32_t>(i), 0.1F));
  }
  for (std::uint32_t t = 1; t <= 12; ++t) {
    Step this_step = memory.begin_step({t, 0.01});
    for (int k = 0; k < 2; ++k) {
      for (int i = 0; i < memory.tensors(); ++i) {
        const std::int64_t n = memory.info(i).elements(), cut = std::min<std::int64_t>(n, 4096);
        const auto g = normal_values(n, 100 * t + static_cast<std::uint32_t>(10 * k + i), 0.01F);
        const DeviceMemory room = device.allocate(4 * n);
        device.upload(room.get(), g.data(), 4 * n);
        const auto* values = reinterpret_cast<const float*>(room.get());
        this_step.fold(i, 0, {values, static_cast<std::size_t>(cut)}, k);
        if (cut < n) this_step.fold(i, cut, {values + cut, static_cast<std::size_t>(n - cut)}, k);
        device.synchronize();
      }
    }
    EXPECT_TRUE(std::move(this_step).commit().applied);
  }
  for (int i = 0; i < memory.tensors(); ++i) {
    std::vector<float> w(static_cast<std::size_t>(memory.info(i).elements()));
    memory.read(i, 0, w);
    out.insert(out.end(), w.begin(), w.end());
    const std::vector<float> history = history_of(memory, i);
    out.insert(out.end(), history.begin(), history.end());
  }
  return out;
}

TEST(Clipping, GivesTheSameBitsForAnyThreadsAndDevice) {
  for (const char* preset : {"fp32", "lpmm-min", "bnb8"}) {
    CpuDevice one(1), three(3);
    kernels::EmulatedCuda emulated(2, false);
    const std::vector<float> wanted = after_steps(one, preset);
    EXPECT_TRUE(after_steps(three, preset) == wanted) << preset;
    EXPECT_TRUE(after_steps(emulated, preset) == wanted) << preset;
  }
}

TEST(Clipping, AFailedStepLeavesTheHistory) {
  CpuDevice device(1);
  ModelMemory memory({{"w", {4, 4}}}, make_policy("lpmm"), clipped(5), 1, 1, device);
  const auto step = [&](std::uint32_t t, float bad) {
    std::vector<float> g = normal_values(16, t, 1);
    g[3] += bad;
    Step this_step = memory.begin_step({t, 0.1});
    this_step.fold(0, 0, g, 0);
    return std::move(this_step).commit().applied;
  };
  EXPECT_TRUE(step(1, 0));
  EXPECT_TRUE(step(2, 0));
  const std::vector<float> before = history_of(memory, 0);
  EXPECT_FALSE(step(3, NAN));
  EXPECT_EQ(history_of(memory, 0), before);
  EXPECT_TRUE(step(4, 0));
  EXPECT_NE(history_of(memory, 0)[3], before[3]);  // the third update
}

TEST(Clipping, HistoriesAreCountedWhereTensorsAreTrained) {
  OptimizerConfig c = clipped(5);
  c.groups.push_back({.pattern = "held", .frozen = true});
  const std::vector<TensorInfo> tensors = {{"w", {4, 4}}, {"held", {4, 4}}, {"b", {4}}};
  CpuDevice device(1);
  const ModelMemory memory(tensors, make_policy("lpmm"), c, 1, 1, device);
  EXPECT_NE(memory.gradient_history(0), nullptr);
  EXPECT_EQ(memory.gradient_history(1), nullptr);
  EXPECT_EQ(memory.ledger().buffers, 2 * 400);
  EXPECT_EQ(memory_ledger(tensors, make_policy("lpmm"), c).buffers, 2 * 400);
  EXPECT_EQ(ModelMemory(tensors, make_policy("lpmm"), {}, 1, 1, device).ledger().buffers, 0);
}

TEST(Clipping, WhatItCannotBeIsRefused) {
  for (const int percentile : {-1, 100}) {
    EXPECT_THROW(check_optimizer(clipped(percentile)), UsageError) << percentile;
  }
  OptimizerConfig c = clipped(5);
  c.settings["momentum"] = 0.9;
  EXPECT_FALSE(can_accumulate(c));
  Policy policy = make_policy("lpmm");
  policy.accumulate_in_momentum = true;
  try {
    check_momentum(policy, c);
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("percentile_clip = 0"), std::string::npos) << e.what();
  }
  // lpmm-nano takes its other row then.
  EXPECT_FALSE(make_policy("lpmm-nano", c).accumulate_in_momentum);
}

// The fold that sees an element's gradient whole takes its square: one that came later would be left out of
// the norm.
TEST(Clipping, NothingIsFoldedAfterTheLastGradientOfAnElement) {
  CpuDevice device(1);
  const std::vector<float> one(256, 1.0F), half(128, 1.0F);
  const auto memory_of = [&](int percentile, double norm) {
    return ModelMemory({{"w", {2, 128}}}, make_policy("fp32"), clipped(percentile, norm), 1, 2, device);
  };
  for (const int percentile : {0, 50}) {
    ModelMemory memory = memory_of(percentile, percentile == 0 ? 0.1 : 0);
    Step this_step = memory.begin_step({1, 0});
    this_step.fold(0, 0, half, 1);
    EXPECT_THROW(this_step.fold(0, 0, one, 0), UsageError);
    EXPECT_THROW(this_step.fold(0, 0, half, 1), UsageError);
    EXPECT_THROW(this_step.fold_later(0, 0, half, 1, 1, false), UsageError);
    this_step.fold(0, 128, half, 0);  // for other elements it is the first
    this_step.fold(0, 128, half, 1);
    EXPECT_DOUBLE_EQ(std::move(this_step).commit().gradient_norm, std::sqrt(128 * 0.25 + 128 * 1.0));
    Step next = memory.begin_step({2, 0});
    next.fold(0, 0, one, 0);
    next.fold(0, 0, one, 1);
    EXPECT_DOUBLE_EQ(std::move(next).commit().gradient_norm, 16);
  }
  // If nothing is clipped, any order will do.
  ModelMemory memory = memory_of(0, 0);
  Step this_step = memory.begin_step({1, 1});
  this_step.fold(0, 0, one, 1);
  this_step.fold(0, 0, one, 0);
  EXPECT_TRUE(std::move(this_step).commit().applied);
  std::vector<float> w(256);
  memory.read(0, 0, w);
  for (const float x : w) EXPECT_EQ(x, -1);
}

}  // namespace
}  // namespace lpmm
