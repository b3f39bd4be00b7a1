// PackedVector in a loop of one's own, beside the same loop in fp32.
#include "lpmm/memory/packed_vector.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lpmm/base/error.h"
#include "tests/normal_values.h"

namespace lpmm {
namespace {

// Least squares towards `target` with decaying steps: where 300 updates lead.
std::vector<float> fit(const OptimizerConfig& optimizer, std::string_view preset,
                       const std::vector<float>& target) {
  PackedVector w(std::vector<float>(target.size()), preset, optimizer, 7, 2);
  for (int step = 0; step < 300; ++step) {
    const std::vector<float> now = w;
    std::vector<float> gradient(now.size());
    for (std::size_t i = 0; i < now.size(); ++i) gradient[i] = now[i] - target[i];
    w.step(gradient, optimizer.learning_rate * (1 - step / 300.0));
  }
  return w;
}

TEST(PackedVector, ReachesWhatFullPrecisionReaches) {
  const auto target = normal_values(1000, 3, 1);
  const OptimizerConfig sgd = {.learning_rate = 0.1, .settings = {{"momentum", 0.9}}};
  const OptimizerConfig adam = {.rule = "adam", .learning_rate = 0.05};
  for (const OptimizerConfig& optimizer : {sgd, adam}) {
    for (const char* preset : {"fp32", "lpmm", "lpmm-compact", "lpmm-min"}) {
      const std::vector<float> found = fit(optimizer, preset, target);
      double error = 0;
      for (std::size_t i = 0; i < found.size(); ++i) error += std::abs(found[i] - target[i]) / 1000;
      // A code of 8 bits is about 0.025 wide here.
      EXPECT_LT(error, std::string_view(preset) == "fp32" ? 1e-3 : 0.02) << preset;
    }
  }
}

TEST(PackedVector, RefusesAGradientThatIsNotFinite) {
  PackedVector w(std::vector<float>(100, 1.0F), "lpmm",
                 {.learning_rate = 0.1, .settings = {{"momentum", 0.9}}});
  std::vector<float> gradient(100, 1.0F);
  gradient[50] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> before = w;
  EXPECT_THROW(w.step(gradient), RunError);
  EXPECT_EQ(static_cast<std::vector<float>>(w), before);
  gradient[50] = 1;
  w.step(gradient);
  EXPECT_NE(static_cast<std::vector<float>>(w), before);
  EXPECT_EQ(w.size(), 100);
}

}  // namespace
}  // namespace lpmm
