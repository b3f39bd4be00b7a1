// The table of rules, and what gates_test.cpp does not reach: sizes at the ends of fp32, norms of 0, bounds,
// vectors.
#include "lpmm/memory/rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/model_memory.h"
#include "lpmm/memory/roles.h"
#include "tests/lpmm/memory/one_tensor.h"
#include "tests/normal_values.h"

namespace lpmm {
namespace {

TEST(RuleTable, EveryRowIsWhole) {
  std::set<std::string_view> names;
  for (const std::string_view name : rule_names()) {
    const OptimizerConfig c = of_rule(name);
    const RuleRow& row = rule_row(c.rule);
    EXPECT_EQ(row.name, name);
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_FALSE(row.help.empty()) << name;
    EXPECT_FALSE(row.settings.empty()) << name;
    for (const SettingRow& s : row.settings) {
      EXPECT_TRUE(s.range.holds(s.usual)) << name << " " << s.key.text();
      EXPECT_FALSE(s.help.empty()) << name << " " << s.key.text();
      EXPECT_EQ(setting(c, s.key), s.usual);
    }
    EXPECT_NO_THROW(check_optimizer(c)) << name;
    EXPECT_FALSE(uses(c, Role::kParameter) || uses(c, Role::kAccumulator)) << name;
    EXPECT_EQ(make_rule(c, {"w", {2, 2}}, 0.1, 1, 1, false).index(), c.rule.index()) << name;
  }
  EXPECT_EQ(RuleName::find("sdg"), std::nullopt);
  EXPECT_EQ(SettingKey::find("betta"), std::nullopt);
}

// A config knows a key before it knows the rule.
TEST(RuleTable, AKeyIsTheSameInEveryRule) {
  for (const std::string_view name : rule_names()) {
    for (const SettingRow& s : rule_row(of_rule(name).rule).settings) {
      const auto& all = all_settings();
      const auto first = std::find_if(all.begin(), all.end(), [&](const auto& a) { return a.key == s.key; });
      ASSERT_NE(first, all.end()) << s.key.text();
      EXPECT_EQ(first->is_switch, s.is_switch) << name << " " << s.key.text();
      EXPECT_EQ(first->range, s.range) << name << " " << s.key.text();
    }
  }
}

// Rules share keys; what is not given is each rule's own default.
TEST(RuleTable, DefaultsAreTheRulesOwn) {
  EXPECT_EQ(setting(of_rule("adamw"), "beta2"), 0.999);
  EXPECT_EQ(setting(of_rule("lion"), "beta2"), 0.99);
  EXPECT_EQ(setting(of_rule("lion", {{"beta2", 0.5}}), "beta2"), 0.5);
  EXPECT_THROW(setting(of_rule("lion"), "epsilon"), std::logic_error);
}

// A setting becomes an fp32 scalar: what is 0 or infinite there is no such setting.
TEST(RuleTable, SettingsAreNumbersThatFp32Holds) {
  for (const std::string_view name : rule_names()) {
    for (const SettingRow& s : rule_row(of_rule(name).rule).settings) {
      for (const double value : {1e-320, 1e-46, 1e-31, 1e31, 1e39, 1e300, HUGE_VAL, std::nan("")}) {
        OptimizerConfig c = of_rule(name);
        c.settings[s.key] = value;
        EXPECT_THROW(check_optimizer(c), UsageError) << name << " " << s.key.text() << " " << value;
      }
    }
  }
  OptimizerConfig c = of_rule("adamw");
  for (const double rate : {1e-31, 1e31}) {
    c.learning_rate = rate;
    EXPECT_THROW(check_optimizer(c), UsageError) << rate;
  }
  c.learning_rate = 1e20;
  c.weight_decay = 1e20;
  EXPECT_THROW(check_optimizer(c), UsageError);
  c.weight_decay = 0;
  EXPECT_NO_THROW(check_optimizer(c));
  c.groups = {{.pattern = "*", .learning_rate_scale = 1e20}};
  EXPECT_THROW(check_optimizer(c), UsageError);
}

TEST(RuleTable, WhatARuleCannotDoIsRefusedWithItsReason) {
  std::vector<std::string_view> accumulating;
  for (const std::string_view name : rule_names()) {
    if (rule_row(of_rule(name).rule).may_accumulate) accumulating.push_back(name);
  }
  const std::string others = fmt::format("{}", fmt::join(accumulating, " or "));
  for (const std::string_view name : rule_names()) {
    const OptimizerConfig c = of_rule(name, {{"momentum", 0.9}, {"beta1", 0.9}});
    const RuleRow& row = rule_row(c.rule);
    EXPECT_EQ(can_accumulate(c), row.no_accumulation(c.settings).empty()) << name;
    for (const bool feedback : {true, false}) {
      Policy policy = make_policy("lpmm");
      (feedback ? policy.error_feedback : policy.accumulate_in_momentum) = true;
      const std::string_view why = feedback ? row.no_feedback : row.no_accumulation(c.settings);
      try {
        check_momentum(policy, c);
        EXPECT_TRUE(why.empty()) << name;
      } catch (const UsageError& e) {
        EXPECT_FALSE(why.empty()) << name;
        EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
        const bool names_others = std::string(e.what()).find(others) != std::string::npos;
        EXPECT_EQ(names_others, !feedback && !row.may_accumulate) << e.what();
      }
    }
  }
}

TEST(RuleTable, ErrorFeedbackAsksForTheRulesOwnMomentum) {
  Policy policy = make_policy("lpmm");
  policy.error_feedback = true;
  for (const std::string_view name : rule_names()) {
    const RuleRow& row = rule_row(of_rule(name).rule);
    EXPECT_EQ(row.momentum_setting.empty(), !row.no_feedback.empty()) << name;
    if (row.momentum_setting.empty()) continue;
    OptimizerConfig c = of_rule(name);
    c.settings[SettingKey::find(row.momentum_setting).value()] = 0;
    try {
      check_momentum(policy, c);
      ADD_FAILURE() << name;
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find("optimizer." + std::string(row.momentum_setting)),
                std::string::npos)
          << e.what();
    }
    c.settings[SettingKey::find(row.momentum_setting).value()] = 0.5;
    EXPECT_NO_THROW(check_momentum(policy, c)) << name;
  }
}

const std::vector<std::int64_t> kShapes[] = {{7, 300}, {7, 5, 3}, {16}, {1, 1}};

TEST(RuleTable, NothingMovesWithoutGradientsAndDecay) {
  for (const std::string_view name : rule_names()) {
    for (const auto& shape : kShapes) {
      Fp32 still(of_rule(name, {{"momentum", 0.9}}), shape, 2.0F);
      EXPECT_EQ(still.run(3, 0.0F, 0.125), 2.0F) << name;
      for (const Role role : kEveryRole) {
        if (!is_state(role) || still.memory.view(0, role).codes == nullptr) continue;
        EXPECT_LE(still.state(role), 1e-30F)
            << name << " " << to_string(role) << ": Adafactor's epsilon at most";
      }
    }
  }
}

// Beside these gradients every epsilon is nothing.
TEST(RuleTable, StepsDoNotDependOnTheSizeOfGradients) {
  const std::set<std::string_view> kBySize = {"sgd", "lars_clip"};
  for (const std::string_view name : rule_names()) {
    for (const auto& shape : kShapes) {
      const auto end = [&](float gradient) {
        Fp32 w(of_rule(name, {{"momentum", 0.5}, {"adapt_vectors", 1}}), shape, 1.0F);
        w.run(2, -gradient, 0.125);
        return w.run(2, 3 * gradient, 0.125);
      };
      const float usual = end(1), large = end(0x1p56F);
      ASSERT_TRUE(std::isfinite(large)) << name;
      if (!kBySize.contains(name)) {
        EXPECT_NEAR(large, usual, 1e-5)
            << name << ": name it in kBySize where its steps are as large as gradients";
      }
    }
  }
}

TEST(RuleTable, StepsThatAreAShareOfTheTensorAreThatAtAnySize) {
  for (const char* name : {"lamb", "lars", "adafactor"}) {
    for (const auto& shape : kShapes) {
      const auto share = [&](float size) {
        Fp32 w(of_rule(name, {{"adapt_vectors", 1}, {"trust_coefficient", 0.25}}), shape, size);
        return w.run(2, 0.25F, 0.125) / size;
      };
      EXPECT_NEAR(share(0x1p90F), share(2), 1e-6) << name;
    }
  }
}

TEST(Lamb, TheRatioIsOneWhereANormIsZero) {
  Fp32 zero(of_rule("lamb"), {4, 4}, 0.0F);
  EXPECT_NEAR(zero.run(1, 1.0F, 0.125), -0.125, 1e-6);
  // Only decay: u = decay * p, so that the ratio takes it out again.
  OptimizerConfig c = of_rule("lamb");
  c.weight_decay = 0.01;
  Fp32 decays(c, {4, 4}, 2.0F);
  EXPECT_NEAR(decays.run(1, 0.0F, 0.125), 1.75, 1e-6);
}

// u is 1 everywhere: the ratio is phi(|p|) over the root of the number of
// elements.
TEST(Lamb, ATensorCountsAsLongAsItsBoundsAllow) {
  const double root = std::sqrt(2100.0);
  const auto step = [&](float size, GivenSettings settings) {
    settings["epsilon"] = 1e-12;
    Fp32 w(of_rule("lamb", settings), {7, 300}, size);
    return (size - w.run(1, 0.25F, 0.125)) / 0.125;
  };
  EXPECT_NEAR(step(2, {{"min_weight_norm", 4 * root}}), 4, 1e-5);
  EXPECT_NEAR(step(2, {{"max_weight_norm", 0.5 * root}}), 0.5, 1e-5);
  EXPECT_NEAR(step(2, {{"min_weight_norm", root}, {"max_weight_norm", 3 * root}}), 2, 1e-5);
  EXPECT_NEAR(step(2, {{"min_weight_norm", 3 * root}, {"max_weight_norm", 3 * root}}), 3, 1e-5);
  EXPECT_NEAR(step(0x1p60F, {{"max_weight_norm", root * 0x1p59}}) / 0x1p59, 1, 1e-5);
  EXPECT_NEAR(step(1e-6F, {{"min_weight_norm", 1e-5 * root}}) / 1e-5, 1, 1e-5);
}

TEST(Lamb, ALeastNormIsThatOfATensorOfZerosToo) {
  Fp32 zero(of_rule("lamb", {{"min_weight_norm", 2}}), {4, 4}, 0.0F);
  EXPECT_NEAR(zero.run(1, 1.0F, 0.125), -0.125 * 2 / 4, 1e-6);
  Fp32 still(of_rule("lamb", {{"min_weight_norm", 2}}), {4, 4}, 0.0F);
  EXPECT_EQ(still.run(3, 0.0F, 0.125), 0.0F);
  Fp32 bias(of_rule("lamb", {{"min_weight_norm", 64}, {"max_weight_norm", 64}}), {16}, 2.0F);
  EXPECT_NEAR(bias.run(1, 1.0F, 0.125), 1.875, 1e-6) << "vectors have no ratio";
}

TEST(Lamb, BoundsThatCrossAreRefused) {
  const auto message = [](const GivenSettings& settings) { return refusal_of(of_rule("lamb", settings)); };
  EXPECT_NE(message({{"min_weight_norm", 2}, {"max_weight_norm", 1}}).find("above max_weight_norm"),
            std::string::npos);
  EXPECT_NE(message({{"max_weight_norm", -1}}).find("max_weight_norm is -1"), std::string::npos);
  EXPECT_EQ(message({{"min_weight_norm", 2}}), "");
  EXPECT_EQ(message({{"min_weight_norm", 2}, {"max_weight_norm", 2}}), "");
}

TEST(Lamb, VectorsTakeAdamsStepsUnlessTheyAreAskedFor) {
  Fp32 bias(of_rule("lamb"), {16}, 2.0F);
  EXPECT_NEAR(bias.run(1, 1.0F, 0.125), 1.875, 1e-6);
  Fp32 asked(of_rule("lamb", {{"adapt_vectors", 1}}), {16}, 2.0F);
  EXPECT_NEAR(asked.run(1, 1.0F, 0.125), 1.75, 1e-6);
}

// Norms are over the tensor, not over tiles: many tiles whose sizes differ by
// decades, any number of threads.
TEST(Lamb, NormsAreOverTheWholeTensorForAnyThreads) {
  const std::int64_t n = 37 * 1024;
  std::vector<float> start(static_cast<std::size_t>(n), 1e-4F);
  start[0] = 4;  // the norm is this one's
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 3}) {
    CpuDevice device(threads);
    ModelMemory memory({{"w", {37, 1024}}}, make_policy("fp32"), of_rule("lamb", {{"epsilon", 1e-12}}), 1, 1,
                       device);
    memory.initialize(0, 0, start);
    Step this_step = memory.begin_step({1, 0.5});
    this_step.fold(0, 0, std::vector<float>(start.size(), 1.0F), 0);
    EXPECT_TRUE(std::move(this_step).commit().applied);
    std::vector<float>& w = results.emplace_back(start.size());
    memory.decode(0, 0, w);
    const double norm = std::sqrt(16 + 1e-8 * static_cast<double>(n - 1));
    EXPECT_NEAR(w.back(), 1e-4 - 0.5 * norm / std::sqrt(static_cast<double>(n)), 1e-7);
    EXPECT_EQ(w, results.front());
  }
}

// A gradient that is NaN leaves every rule's parameters and states as they
// were.
TEST(RuleTable, AFailedStepChangesNothing) {
  CpuDevice device(2);
  for (const std::string_view name : rule_names()) {
    for (const std::string_view preset : preset_names()) {
      ModelMemory memory({{"w", {9, 130}}}, make_policy(preset), of_rule(name, {{"momentum", 0.9}}), 1, 1,
                         device);
      const std::int64_t n = memory.info(0).elements();
      memory.initialize(0, 0, normal_values(n, 1, 0.1F));
      const auto all = [&] {
        std::vector<float> out;
        for (const Role role : kEveryRole) {
          const kernels::RoleView view = memory.view(0, role);
          if (view.codes == nullptr) continue;
          std::vector<float> x(static_cast<std::size_t>(view.elements));
          device.decode(view, 0, view.elements, x.data());
          out.insert(out.end(), x.begin(), x.end());
        }
        return out;
      };
      const auto step = [&](std::uint32_t number, float bad) {
        auto gradient = normal_values(n, 1 + number, 0.1F);
        gradient[5] += bad;
        Step this_step = memory.begin_step({number, 0.01});
        this_step.fold(0, 0, gradient, 0);
        return std::move(this_step).commit().applied;
      };
      EXPECT_TRUE(step(1, 0));
      const auto before = all();
      EXPECT_FALSE(step(2, NAN)) << name << " " << preset;
      EXPECT_EQ(all(), before) << name << " " << preset;
      EXPECT_TRUE(step(3, 0));
      EXPECT_NE(all(), before) << name << " " << preset;
    }
  }
}

}  // namespace
}  // namespace lpmm
