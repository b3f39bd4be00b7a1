// Averages of weights: what they are in fp32, that packed ones stay with them, and that nothing else changes.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/cpu.h"
#include "kernels/cuda/emulated.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/memory/roles.h"
#include "tests/lpmm/memory/one_tensor.h"
#include "tests/lpmm/memory/stored_bytes.h"
#include "tests/lpmm/scratch.h"
#include "tests/normal_values.h"
#include "tests/sanitized.h"

namespace lpmm {
namespace {

const std::vector<TensorInfo> kAveraged = {{"w", {40, 100}}, {"norm", {37}}, {"still", {20, 20}}};

Policy averaging(const char* preset, double average, const char* spec = nullptr) {
  Policy policy = make_policy(preset);
  policy.average = average;
  if (spec != nullptr) policy.average_spec = parse_spec(spec);
  return policy;
}

OptimizerConfig with_a_still_one() {
  OptimizerConfig config = of_rule("adamw");
  ParameterGroup still;
  still.pattern = "still";
  still.frozen = true;
  config.groups = {still};
  return config;
}

std::vector<float> read(const ModelMemory& memory, const kernels::RoleView& view) {
  std::vector<float> values(static_cast<std::size_t>(view.elements));
  const DeviceMemory room = memory.device().allocate(4 * view.elements);
  memory.device().decode(view, 0, view.elements, reinterpret_cast<float*>(room.get()));
  memory.device().download(values.data(), room.get(), 4 * view.elements);
  return values;
}

std::vector<std::uint8_t> bytes_of(const ModelMemory& memory, const kernels::RoleView& v) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(code_bytes(v.codec.format, v.elements))),
      steps(static_cast<std::size_t>(v.steps == nullptr ? 0 : step_bytes(v.codec, v.elements)));
  memory.device().download(bytes.data(), v.codes, std::ssize(bytes));
  memory.device().download(steps.data(), v.steps, std::ssize(steps));
  bytes.insert(bytes.end(), steps.begin(), steps.end());
  return bytes;
}

struct AveragedRun {
  ModelMemory memory;
  std::uint32_t number = 0;

  AveragedRun(PackedDevice& device, const Policy& policy, std::uint64_t seed = 3)
      : memory(kAveraged, policy, with_a_still_one(), seed, 1, device) {
    for (int i = 0; i < memory.tensors(); ++i) {
      memory.initialize(i, 0,
                        normal_values(memory.info(i).elements(), 1 + static_cast<std::uint64_t>(i), 0.1F));
    }
  }
  // Gradients of a drawn direction that turns slowly, and noise.
  bool step(double rate, float broken = 0) {
    Step this_step = memory.begin_step({++number, rate});
    for (int i = 0; i < memory.tensors(); ++i) {
      const std::int64_t n = memory.info(i).elements();
      std::vector<float> gradient = normal_values(n, 100 * number + static_cast<std::uint64_t>(i));
      gradient[0] += broken;
      const DeviceMemory room = memory.device().allocate(4 * n);
      this_step.fold(i, 0, {on_device(memory.device(), gradient.data(), n, room.get()), gradient.size()}, 0);
      this_step.fold_waiting();
      memory.device().synchronize();
    }
    return std::move(this_step).commit().applied;
  }
};

TEST(Average, FollowsTheWeightsByTheDecayOfEachUpdate) {
  EXPECT_EQ(kept_average(0.999, 1), 0);
  EXPECT_EQ(kept_average(0.999, 2), 0.1);
  EXPECT_EQ(kept_average(0.999, 100000), 0.999);
  CpuDevice device(1);
  AveragedRun run(device, averaging("fp32", 0.9));
  std::vector<double> expected(4000);
  std::int64_t updates = 0;
  for (int s = 0; s < 150; ++s) {
    // A step that fails is no update.
    if (run.step(1e-2, s % 40 == 7 ? std::nanf("") : 0.0F)) ++updates;
    const std::vector<float> w = read(run.memory, run.memory.view(0, Role::kParameter));
    if (s % 40 == 7) continue;
    const double kept = kept_average(0.9, updates);
    for (std::size_t i = 0; i < w.size(); ++i) expected[i] += (1 - kept) * (w[i] - expected[i]);
  }
  EXPECT_EQ(updates, 146);
  const std::vector<float> average = read(run.memory, run.memory.average(0));
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(average[i], expected[i], 1e-6) << i;
  EXPECT_EQ(run.memory.average(1).codec.format.map, Map::kFp32);
  EXPECT_EQ(run.memory.average(2).codes, nullptr);  // it is not trained
}

// No bias beside that of the weights themselves: over the elements of a tensor that moves, the mean
// difference to the average in fp32 is within four standard errors, and a difference is below two gaps or so.
TEST(Average, PackedStaysWithThatInFp32) {
  if (kSanitized) GTEST_SKIP() << kReleaseOnly;
  CpuDevice device(1);
  for (const char* spec :
       {"int8:block128:qr:sticky", "int8:block128:sr:sticky", "int12:block128:sr:sticky", "bf16:sr"}) {
    AveragedRun packed(device, averaging("lpmm-compact", 0.99, spec)),
        plain(device, averaging("lpmm-compact", 0.99, "fp32"));
    for (int s = 0; s < 600; ++s) {
      ASSERT_TRUE(packed.step(1e-3));
      ASSERT_TRUE(plain.step(1e-3));
    }
    ASSERT_EQ(stored_bytes(packed.memory), stored_bytes(plain.memory)) << "the run itself is the same";
    const std::vector<float> a = read(packed.memory, packed.memory.average(0)),
                             b = read(plain.memory, plain.memory.average(0)),
                             w = read(plain.memory, plain.memory.view(0, Role::kParameter));
    double sum = 0, squares = 0, apart = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double d = a[i] - b[i];
      sum += d;
      squares += d * d;
      apart += (w[i] - b[i]) * (w[i] - b[i]);
    }
    const auto n = static_cast<double>(a.size());
    // Draws of qr go on together, so errors of elements are not independent: a tenth of a gap.
    const bool is_quasi = parse_spec(spec).rounding == Rounding::kQuasiStochastic;
    EXPECT_LT(std::abs(sum / n), is_quasi ? 0.1 * 0.35 / 127 : 4 * std::sqrt(squares / n / n)) << spec;
    EXPECT_LT(std::sqrt(squares / n), 1.5 * 0.35 / 127)
        << spec;  // gaps of blocks whose largest is about 0.35
    EXPECT_GT(std::sqrt(apart / n), 0.001) << "the weights went on";
  }
}

// Rounded as the weights were, an average would be off by what their rounding took, always to one side.
TEST(Average, HasDrawsOfItsOwn) {
  CpuDevice device(1);
  AveragedRun run(device, averaging("fp32", 0.9, "int4:block128:sr"));
  ASSERT_TRUE(run.step(1e-2));  // the first update copies the weights
  const std::vector<float> w = read(run.memory, run.memory.view(0, Role::kParameter));
  kernels::RoleView expected = run.memory.average(0);
  const DeviceMemory codes = device.allocate(code_bytes(expected.codec.format, expected.elements)),
                     steps = device.allocate(step_bytes(expected.codec, expected.elements));
  expected.codes = reinterpret_cast<std::uint8_t*>(codes.get());
  expected.steps = reinterpret_cast<std::uint16_t*>(steps.get());
  const auto encoded = [&](std::size_t tensor) {
    device.encode({expected,
                   0,
                   expected.elements,
                   w.data(),
                   {3, static_cast<std::uint32_t>(tensor), 1, noise_stream(Role::kParameter)}});
    return bytes_of(run.memory, expected);
  };
  EXPECT_NE(encoded(0), bytes_of(run.memory, run.memory.average(0)));
  EXPECT_EQ(encoded(kAveraged.size()), bytes_of(run.memory, run.memory.average(0)));
}

TEST(Average, IsTheSameOnEveryDeviceAndForAnyThreads) {
  CpuDevice one(1), four(4);
  kernels::EmulatedCuda emulated(2);
  const auto of = [&](PackedDevice& device, const char* preset) {
    AveragedRun run(device, averaging(preset, 0.9));
    for (int s = 0; s < 6; ++s) EXPECT_TRUE(run.step(1e-2));
    std::vector<std::uint8_t> all;
    for (int i = 0; i < 2; ++i) {
      const auto bytes = bytes_of(run.memory, run.memory.average(i));
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  };
  for (const char* preset : {"lpmm-min", "lpmm-nano", "fp32"}) {
    const auto expected = of(one, preset);
    EXPECT_GT(expected.size(), 4000U);
    EXPECT_EQ(of(four, preset), expected) << preset;
    EXPECT_EQ(of(emulated, preset), expected) << preset;
  }
}

TEST(Average, IsCountedSavedAndGoneOnWith) {
  CpuDevice device(1);
  const Policy policy = averaging("lpmm-min", 0.9);
  AveragedRun run(device, policy), rest(device, policy);
  const Ledger with = run.memory.ledger(),
               without = memory_ledger(kAveraged, averaging("lpmm-min", 0), with_a_still_one());
  const std::int64_t packed = 32 * (128 + 2);  // int8: blocks of 128 codes and a step
  EXPECT_EQ(with.averages, packed);
  EXPECT_EQ(with.exempt - without.exempt, 4 * 37);
  EXPECT_EQ(with.model_memory() - without.model_memory(), packed + 4 * 37);
  EXPECT_EQ(memory_ledger(kAveraged, policy, with_a_still_one()).averages, packed);

  const Scratch scratch;
  for (int s = 0; s < 5; ++s) ASSERT_TRUE(run.step(1e-2));
  run.memory.save(scratch / "memory");
  rest.memory.load(scratch / "memory");
  rest.number = run.number;
  for (int s = 0; s < 5; ++s) {
    ASSERT_TRUE(run.step(1e-2));
    ASSERT_TRUE(rest.step(1e-2));
  }
  EXPECT_EQ(bytes_of(rest.memory, rest.memory.average(0)), bytes_of(run.memory, run.memory.average(0)));
  AveragedRun other(device, averaging("lpmm-min", 0.99)), none(device, averaging("lpmm-min", 0));
  EXPECT_THROW(other.memory.load(scratch / "memory"), RunError);
  EXPECT_THROW(none.memory.load(scratch / "memory"), RunError);
}

TEST(Average, RefusesSpecsThatWouldFreezeIt) {
  const OptimizerConfig adamw = of_rule("adamw");
  for (const char* spec : {"int8:block128:rn", "int8:block128:rn:sticky", "bf16:rn", "sqrt08:block128:sr",
                           "int8:row:sr", "ulp8:rn"}) {
    EXPECT_THROW(check_policy(averaging("lpmm", 0.9, spec), adamw, {}), UsageError) << spec;
  }
  for (const char* spec : {"fp32", "bf16:sr", "int4:block128:sr:sticky", "soft4:block128:sr"}) {
    EXPECT_NO_THROW(check_policy(averaging("lpmm", 0.9, spec), adamw, {})) << spec;
  }
}

}  // namespace
}  // namespace lpmm
