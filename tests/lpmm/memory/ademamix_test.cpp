// AdEMAMix: its warm-ups, its feedback, and what packed slow momenta keep of an average over thousands of
// steps.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/roles.h"
#include "tests/lpmm/memory/one_tensor.h"
#include "tests/normal_values.h"
#include "tests/sanitized.h"

namespace lpmm {
namespace {

OptimizerConfig ademamix(const GivenSettings& settings = {}) {
  return of_rule("ademamix", settings);
}

// The steps in which a share halves, ln 2 / -ln beta, are those of beta1 at first, half-way between at half
// the warm-up, and those of beta3 from its end on.
TEST(AdEmaMix, HalfLivesOfTheSlowMomentumRiseLinearly) {
  const auto half_life = [](double beta) { return std::log(0.5) / std::log(beta); };
  AdEmaMix::Settings s;
  EXPECT_EQ(AdEmaMix::beta3_at(s, 1), s.beta3) << "without a warm-up";
  s.beta3_warmup = 1000;
  const double first = half_life(s.beta1), last = half_life(s.beta3);
  EXPECT_NEAR(AdEmaMix::beta3_at(s, 0), s.beta1, 1e-12);
  EXPECT_NEAR(half_life(AdEmaMix::beta3_at(s, 250)), 0.75 * first + 0.25 * last, 1e-6);
  EXPECT_NEAR(half_life(AdEmaMix::beta3_at(s, 500)), 0.5 * (first + last), 1e-6);
  EXPECT_EQ(AdEmaMix::beta3_at(s, 1000), s.beta3);
  EXPECT_EQ(AdEmaMix::beta3_at(s, 5000), s.beta3);
  EXPECT_EQ(AdEmaMix::make(s, {.update = 500}).beta3, static_cast<float>(AdEmaMix::beta3_at(s, 500)));
  s.beta1 = 0;  // its half-life is 0
  EXPECT_EQ(AdEmaMix::beta3_at(s, 0), 0);
  EXPECT_NEAR(half_life(AdEmaMix::beta3_at(s, 500)), 0.5 * last, 1e-6);
  s.beta3 = 0;
  for (const double update : {0.0, 500.0, 1000.0}) EXPECT_EQ(AdEmaMix::beta3_at(s, update), 0) << update;
}

TEST(AdEmaMix, ErrorFeedbackIsAdamWsAndIntoTheFastMomentum) {
  const auto rule = [&](std::string_view name) {
    return make_rule(of_rule(name, {{"beta1", 0.75}}), {"w", {2, 2}}, 0.2, 2, 1, true, 0.1);
  };
  const auto mix = std::get<AdEmaMix>(rule("ademamix"));
  const auto adamw = std::get<AdamW>(rule("adamw"));
  EXPECT_GT(mix.feedback, 0);
  EXPECT_EQ(mix.feedback, adamw.feedback);
  EXPECT_EQ(mix.beta1, adamw.beta1) << "it shrinks where the rate rises";
  Elements<float> x{}, y{};
  x[Role::kVariance] = y[Role::kVariance] = 4;
  mix.feed_back(0.5F, x);
  adamw.feed_back(0.5F, y);
  EXPECT_EQ(x[Role::kMomentum], y[Role::kMomentum]);
  EXPECT_EQ(x[Role::kSlowMomentum], 0.0F);
}

TEST(AdEmaMix, IllegalSettingsAreRefused) {
  const auto message = [](const GivenSettings& settings) { return refusal_of(ademamix(settings)); };
  EXPECT_NE(message({{"beta3", 0.5}}).find("beta3 is below beta1"), std::string::npos);
  EXPECT_NE(message({{"beta3", 1}}).find("beta3 is 1, but must be 0, or 1e-30 to below 1"),
            std::string::npos);
  EXPECT_NE(message({{"slow_weight", -1}}).find("slow_weight is -1, but must be 0, or 1e-30 to 1e30"),
            std::string::npos);
  EXPECT_NE(message({{"beta3_warmup", -1}}).find("beta3_warmup"), std::string::npos);
  EXPECT_EQ(message({{"beta1", 0}, {"beta3", 0.5}, {"slow_weight", 0}}), "");
}

// The distance of slow momenta after these steps from that of fp32, relative to it, by their spec.
std::vector<double> slow_errors(const std::vector<std::string>& specs, int steps) {
  const std::vector<TensorInfo> tensors = {{"w", {16, 128}}};
  CpuDevice device(2);
  std::vector<std::unique_ptr<ModelMemory>> all;
  for (const std::string& spec : specs) {
    Policy policy = make_policy("fp32");
    policy.specs[Role::kSlowMomentum] = parse_spec(spec);
    all.push_back(std::make_unique<ModelMemory>(tensors, policy, ademamix(), 3, 1, device));
  }
  const auto elements = static_cast<std::size_t>(tensors[0].elements());
  const std::vector<float> sizes = normal_values(tensors[0].elements(), 1, 0.01F);
  for (int s = 1; s <= steps; ++s) {
    std::vector<float> gradient = normal_values(tensors[0].elements(), 10 + static_cast<std::uint64_t>(s), 1);
    for (std::size_t i = 0; i < elements; ++i) gradient[i] = sizes[i] * (gradient[i] + 0.02F);
    for (const auto& memory : all) {
      Step step = memory->begin_step({static_cast<std::uint32_t>(s), 1e-6});
      step.fold(0, 0, gradient, 0);
      EXPECT_TRUE(std::move(step).commit().applied);
    }
  }
  std::vector<double> errors;
  std::vector<float> exact(elements), stored(elements);
  device.decode(all[0]->view(0, Role::kSlowMomentum), 0, tensors[0].elements(), exact.data());
  for (const auto& memory : all) {
    device.decode(memory->view(0, Role::kSlowMomentum), 0, tensors[0].elements(), stored.data());
    double error = 0, size = 0;
    for (std::size_t i = 0; i < elements; ++i) {
      error += (stored[i] - exact[i]) * (stored[i] - exact[i]);
      size += exact[i] * exact[i];
    }
    errors.push_back(std::sqrt(error / size));
  }
  return errors;
}

// A gradient's share of an average with beta3 = 0.9999 is far below a gap of 8 bits.
TEST(AdEmaMix, PresetsKeepTheSlowMomentumAndEightBitsDoNot) {
  if (kSanitized) GTEST_SKIP() << kReleaseOnly;
  std::vector<std::string> specs = {"fp32"};
  const std::vector<std::string> presets = {"lpmm", "lpmm-compact", "lpmm-min", "lpmm-nano"};
  for (const std::string& preset : presets) {
    specs.push_back(to_string(make_policy(preset).specs[Role::kSlowMomentum]));
  }
  const std::size_t others = specs.size();
  for (const char* spec : {"int8:block128:sr:sticky", "int8:block128:qr:sticky", "int8:block128:rn"}) {
    specs.emplace_back(spec);
  }
  specs.push_back(to_string(make_policy("states8").specs[Role::kSlowMomentum]));
  const std::vector<double> errors = slow_errors(specs, 1500);
  for (std::size_t i = 1; i < specs.size(); ++i) {
    if (i < others) {
      EXPECT_LT(errors[i], 0.05) << presets[i - 1];
    } else {
      EXPECT_GT(errors[i], 0.15) << specs[i];
    }
  }
}

}  // namespace
}  // namespace lpmm
