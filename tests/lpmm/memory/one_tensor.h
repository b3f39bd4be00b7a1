// A rule's config, and one tensor in fp32 whose elements are alike, for closed forms.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/model_memory.h"
#include "tests/lpmm/memory/given.h"

namespace lpmm {

// Returns the configuration of a rule, with those of the settings that it has.
inline OptimizerConfig of_rule(std::string_view name, const GivenSettings& settings = {}) {
  OptimizerConfig c;
  c.rule = RuleName::find(name).value();
  for (const GivenSettings::Given& s : settings.all()) give(c, s.key, s.value);
  return c;
}

// Returns the error of check_optimizer(); empty if there is none.
inline std::string refusal_of(const OptimizerConfig& c) {
  try {
    check_optimizer(c);
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

// One tensor in fp32.
struct Fp32 {
  CpuDevice device{1};
  ModelMemory memory;
  std::uint32_t number = 0;

  Fp32(const OptimizerConfig& c, std::vector<std::int64_t> shape, float start)
      : memory({{"w", std::move(shape)}}, make_policy("fp32"), c, 1, 1, device) {
    memory.initialize(0, 0, std::vector<float>(size(), start));
  }
  std::size_t size() const { return static_cast<std::size_t>(memory.info(0).elements()); }
  // The first weight after `steps` steps of a constant gradient.
  float run(int steps, float gradient, double learning_rate) {
    for (int s = 0; s < steps; ++s) {
      Step step = memory.begin_step({++number, learning_rate});
      step.fold(0, 0, std::vector<float>(size(), gradient), 0);
      EXPECT_TRUE(std::move(step).commit().applied);
    }
    std::vector<float> w(size());
    memory.decode(0, 0, w);
    for (const float x : w) EXPECT_EQ(x, w[0]);
    return w[0];
  }
  float state(Role role) const {
    float x = 0;
    memory.device().decode(memory.view(0, role), 0, 1, &x);
    return x;
  }
  float momentum() const { return state(Role::kMomentum); }
};

}  // namespace lpmm
