// The shares of a step, of which each process may compute one.
#include "lpmm/memory/step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/cpu_packed.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/model_memory.h"
#include "tests/lpmm/memory/drawn_values.h"
#include "tests/lpmm/memory/stored_bytes.h"

namespace lpmm {
namespace {

constexpr int kMicrobatches = 4;

ModelMemory memory_of_shares(PackedDevice& device, const char* preset) {
  OptimizerConfig sgd;
  sgd.clip_norm = 1e9;
  return {{{"w", {4, 64}}, {"b", {70}}}, make_policy(preset), sgd, 3, kMicrobatches, device};
}
std::vector<float> gathered(const ModelMemory& memory, int tensor) {
  const kernels::RoleView v = memory.view(tensor, Role::kAccumulator);
  std::vector<float> values(static_cast<std::size_t>(v.elements));
  memory.device().decode(v, 0, v.elements, values.data());
  return values;
}

// Microbatch k has gradients of 2^k, so that sums are exact.
void fold_powers(const ModelMemory& memory, Step& step, int k) {
  for (int i = 0; i < memory.tensors(); ++i) {
    const auto n = static_cast<std::size_t>(memory.info(i).elements());
    step.fold(i, 0, std::vector<float>(n, std::ldexp(1.0F, k)), k);
  }
}

TEST(Share, SharesAddUpToTheStep) {
  CpuPackedDevice device(1);
  const double root = std::sqrt(4 * 64 + 70);
  float sum = 0;
  for (const Share& share : {Share{}, Share{0, 1}, Share{1, 2}, Share{3}}) {
    ModelMemory memory = memory_of_shares(device, "fp32");
    Step step = memory.begin_step({.share = share});
    const Share taken = step.share();
    float expected = 0;
    for (int k = taken.first; k < taken.first + taken.count; ++k) {
      fold_powers(memory, step, k);
      expected += std::ldexp(1.0F, k) / kMicrobatches;
    }
    EXPECT_EQ(gathered(memory, 0), std::vector<float>(4 * 64, expected));
    EXPECT_EQ(gathered(memory, 1), std::vector<float>(70, expected));
    EXPECT_NEAR(std::move(step).commit().gradient_norm, root * expected, 1e-5 * root);
    sum += share.count == 0 && share.first == 0 ? -expected : expected;
  }
  EXPECT_EQ(sum, 0);
}

TEST(Share, RefusesMicrobatchesOfOthersAndAnyAfterItsLast) {
  CpuPackedDevice device(1);
  ModelMemory memory = memory_of_shares(device, "fp32");
  Step step = memory.begin_step({.share = {1, 2}});
  EXPECT_THROW(fold_powers(memory, step, 0), UsageError);
  EXPECT_THROW(fold_powers(memory, step, 3), UsageError);
  fold_powers(memory, step, 2);  // the last of the share, not of the step
  EXPECT_THROW(fold_powers(memory, step, 1), UsageError);
}

TEST(Share, LiesWithinTheStep) {
  CpuPackedDevice device(1);
  ModelMemory memory = memory_of_shares(device, "fp32");
  constexpr int kMost = std::numeric_limits<int>::max();
  for (const Share& share : {Share{4}, Share{-1}, Share{-1, 2}, Share{0, 5}, Share{2, 3}, Share{0, -1},
                             Share{kMost}, Share{kMost, kMost}, Share{1, kMost}}) {
    EXPECT_THROW(memory.begin_step({.share = share}), UsageError) << share.first << " " << share.count;
  }
  EXPECT_EQ(memory.last_step(), 0U);
  EXPECT_EQ(memory.begin_step({.share = {3}}).share().count, 1);
}

// A process folds with the noise that the whole step would have.
TEST(Share, HasTheNoiseOfItsMicrobatches) {
  CpuPackedDevice device(1);
  for (const char* preset : {"lpmm", "lpmm-min"}) {
    ModelMemory part = memory_of_shares(device, preset), whole = memory_of_shares(device, preset);
    Step of_part = part.begin_step({.step = 1, .share = {2, 2}}), of_whole = whole.begin_step({.step = 1});
    for (int k = 0; k < kMicrobatches; ++k) {
      for (int i = 0; i < part.tensors(); ++i) {
        const auto gradient = gradient_of(part, i, 1, k);
        if (k >= 2) of_part.fold(i, 0, gradient, k);
        of_whole.fold(i, 0, k >= 2 ? gradient : std::vector<float>(gradient.size()), k);
      }
    }
    const double norm = std::move(of_part).commit().gradient_norm;
    EXPECT_EQ(norm, std::move(of_whole).commit().gradient_norm);
    EXPECT_GT(norm, 0);
    EXPECT_EQ(stored_bytes(part), stored_bytes(whole));
  }
}

}  // namespace
}  // namespace lpmm
