// update_clip of Adam and AdamW (StableAdamW) against closed forms.
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

// g / sqrt(v^) is 1 or -1 everywhere while gradients are constant.
TEST(UpdateClip, TheRateIsDividedByWhatExceedsIt) {
  for (const std::string_view rule : {"adam", "adamw"}) {
    for (const float gradient : {1e-15F, -0.25F, 0x1p58F}) {
      for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{37, 1024}, {1, 1}, {5}}) {
        const auto steps = [&](double clip) {
          Fp32 w(clipped(rule, clip, {{"epsilon", kNone}}), shape, 1.0F);
          return (1 - w.run(2, gradient, 0.125)) / std::copysign(0.25, gradient);
        };
        EXPECT_NEAR(steps(0), 1, 1e-6) << "none";
        EXPECT_NEAR(steps(0.5), 0.5, 1e-6) << rule << " " << gradient;
        EXPECT_NEAR(steps(0.01), 0.01, 1e-6);
        EXPECT_NEAR(steps(2), 1, 1e-6) << "steps are not made longer";
      }
    }
  }
}

// Of a gradient that jumps to `jump` times itself, v^ still knows little.
TEST(UpdateClip, AJumpIsCut) {
  const double beta2 = 0.75, jump = 16;
  const GivenSettings settings = {{"beta1", 0}, {"beta2", beta2}, {"epsilon", kNone}};
  const double v = (beta2 * (1 - beta2) + (1 - beta2) * jump * jump) / (1 - beta2 * beta2);
  const double step = jump / std::sqrt(v);
  ASSERT_GT(step, 1.2);
  Fp32 whole(clipped("adamw", 0, settings), {9, 9}, 0.0F), cut(clipped("adamw", 1, settings), {9, 9}, 0.0F);
  EXPECT_NEAR(whole.run(1, 1, 0.125), -0.125, 1e-6);
  EXPECT_NEAR(cut.run(1, 1, 0.125), -0.125, 1e-6);
  EXPECT_NEAR(whole.run(1, static_cast<float>(jump), 0.125), -0.125 * (1 + step), 1e-6);
  EXPECT_NEAR(cut.run(1, static_cast<float>(jump), 0.125), -0.125 * 2, 1e-6);
}

// StableAdamW divides the rate that the decoupled decay is multiplied by as well; Adam's is in the gradient.
TEST(UpdateClip, TheDecayIsDividedToo) {
  Fp32 decoupled(clipped("adamw", 0.5, {{"epsilon", kNone}}, 0.25), {4, 4}, 16.0F);
  EXPECT_NEAR(decoupled.run(1, 1.0F, 0.5), 16 * (1 - 0.25 * 0.25) - 0.25, 1e-5);
  Fp32 alone(clipped("adamw", 0.5, {}, 0.25), {4, 4}, 16.0F);
  EXPECT_EQ(alone.run(1, 0.0F, 0.5), 14.0F) << "nothing exceeds it where gradients are 0";
  Fp32 coupled(clipped("adam", 0.5, {{"epsilon", kNone}}, 0.25), {4, 4}, 16.0F);
  EXPECT_NEAR(coupled.run(1, 0.0F, 0.5), 16 - 0.25, 1e-5) << "the decay is the gradient";
}

// A tensor's elements are averaged over, tensors are not: in each, `share` of the elements has a gradient.
TEST(UpdateClip, TheMeanIsOverATensor) {
  for (const int threads : {1, 3}) {
    CpuDevice device(threads);
    ModelMemory memory({{"half", {8, 1024}}, {"all", {3, 1000}}}, make_policy("fp32"),
                       clipped("adamw", 0.25, {{"epsilon", kNone}}), 1, 1, device);
    memory.begin_step(1);
    std::vector<float> half(8 * 1024), all(3000, -3.0F);
    for (std::size_t i = 0; i < half.size(); i += 2) half[i] = 1e-3F;
    memory.fold(0, 0, half, 0);
    memory.fold(1, 0, all, 0);
    EXPECT_TRUE(memory.commit(0.5).applied);
    memory.decode(0, 0, half);
    memory.decode(1, 0, all);
    EXPECT_NEAR(half[0], -0.5 * 0.25 / std::sqrt(0.5), 1e-6);
    EXPECT_EQ(half[1], 0.0F);
    EXPECT_NEAR(all[0], 0.5 * 0.25, 1e-6);
  }
}

// The ratio is g / max(sqrt(v^), epsilon), which the sum in the step's denominator is not.
TEST(UpdateClip, EpsilonIsTheLeastRoot) {
  Fp32 w(clipped("adamw", 0.125, {{"epsilon", 4}}), {2, 2}, 0.0F);
  EXPECT_NEAR(w.run(1, 1.0F, 0.5), -0.5 * (0.125 / 0.25) / 5, 1e-6);
  Fp32 tiny(clipped("adamw", 0.125, {{"epsilon", 1}}), {2, 2}, 0.0F);
  EXPECT_NEAR(tiny.run(1, 0.0625F, 0.5) * -2, 0.0625 / 1.0625, 1e-6) << "nothing exceeds it";
  Fp32 still(clipped("adam", 0.5), {4, 5}, 2.0F);
  EXPECT_EQ(still.run(3, 0.0F, 0.125), 2.0F);
}

}  // namespace
}  // namespace lpmm
