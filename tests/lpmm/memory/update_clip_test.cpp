// update_clip of Adam and AdamW (StableAdamW).
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu.h"
#include "tests/lpmm/memory/one_tensor.h"

namespace lpmm {
namespace {

constexpr double kNone = 1e-30;  // an epsilon that no root feels

OptimizerConfig clipped(std::string_view rule, double clip, const GivenSettings& settings = {},
                        double decay = 0) {
  OptimizerConfig c = of_rule(rule, settings);
  c.settings["update_clip"] = clip;
  c.weight_decay = decay;
  return c;
}

// A tensor's elements are averaged over, tensors are not: in each, `share` of the elements has a gradient.
TEST(UpdateClip, TheMeanIsOverATensor) {
  for (const int threads : {1, 3}) {
    CpuDevice device(threads);
    ModelMemory memory({{"half", {8, 1024}}, {"all", {3, 1000}}}, make_policy("fp32"),
                       clipped("adamw", 0.25, {{"epsilon", kNone}}), 1, 1, device);
    Step step = memory.begin_step({1, 0.5});
    std::vector<float> half(8 * 1024), all(3000, -3.0F);
    for (std::size_t i = 0; i < half.size(); i += 2) half[i] = 1e-3F;
    step.fold(0, 0, half, 0);
    step.fold(1, 0, all, 0);
    EXPECT_TRUE(std::move(step).commit().applied);
    memory.decode(0, 0, half);
    memory.decode(1, 0, all);
    EXPECT_NEAR(half[0], -0.5 * 0.25 / std::sqrt(0.5), 1e-6);
    EXPECT_EQ(half[1], 0.0F);
    EXPECT_NEAR(all[0], 0.5 * 0.25, 1e-6);
  }
}

}  // namespace
}  // namespace lpmm
