// Schedules, the checks on settings, and what rules are made of them.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <string_view>

#include "lpmm/base/error.h"
#include "lpmm/memory/roles.h"
#include "lpmm/memory/schedule.h"
#include "tests/lpmm/said.h"

namespace lpmm {
namespace {

TEST(Schedule, ReachesItsEnds) {
  ScheduleConfig s;
  EXPECT_EQ(schedule_factor(s, 0, 100), 1);
  s.kind = ScheduleKind::kCosine;
  EXPECT_EQ(schedule_factor(s, 0, 100), 1);
  EXPECT_NEAR(schedule_factor(s, 50, 100), 0.5, 1e-15);
  EXPECT_NEAR(schedule_factor(s, 100, 100), 0, 1e-15);
  s.final_scale = 0.1;
  EXPECT_NEAR(schedule_factor(s, 25, 100), 0.1 + 0.9 * (1 + std::sqrt(0.5)) / 2, 1e-15);
  EXPECT_NEAR(schedule_factor(s, 1000, 100), 0.1, 1e-15);
  s.kind = ScheduleKind::kLinear;
  EXPECT_NEAR(schedule_factor(s, 50, 100), 0.55, 1e-15);
  s.kind = ScheduleKind::kStep;
  s.milestones = {0.5, 0.75};
  s.gamma = 0.5;
  EXPECT_EQ(schedule_factor(s, 49, 100), 1);
  EXPECT_EQ(schedule_factor(s, 50, 100), 0.5);
  EXPECT_EQ(schedule_factor(s, 75, 100), 0.25);
}

TEST(Schedule, WarmUpGoesInFrontOfAnyKind) {
  ScheduleConfig s;
  s.warmup_steps = 4;
  for (const ScheduleKind kind : {ScheduleKind::kConstant, ScheduleKind::kCosine, ScheduleKind::kLinear,
                                  ScheduleKind::kInverseSquareRoot}) {
    s.kind = kind;
    EXPECT_DOUBLE_EQ(schedule_factor(s, 0, 104), 0.2);
    EXPECT_DOUBLE_EQ(schedule_factor(s, 3, 104), 0.8);
    EXPECT_DOUBLE_EQ(schedule_factor(s, 4, 104), 1);
  }
  EXPECT_DOUBLE_EQ(schedule_factor(s, 16, 104), 0.5);  // sqrt(4 / (4 + 12))
  s.kind = ScheduleKind::kCosine;
  EXPECT_NEAR(schedule_factor(s, 54, 104), 0.5, 1e-15);
  s.warmup_steps = 200;  // longer than the run
  EXPECT_LT(schedule_factor(s, 103, 104), 1);
}

TEST(Optimizer, SettingsOutOfRangeAreRefused) {
  using Change = std::function<void(OptimizerConfig&)>;
  for (const Change& change : {
           Change([](OptimizerConfig& c) { c.learning_rate = -1; }),
           Change([](OptimizerConfig& c) { c.learning_rate = NAN; }),
           Change([](OptimizerConfig& c) { c.weight_decay = -1e-4; }),
           Change([](OptimizerConfig& c) { c.settings["momentum"] = 1; }),
           Change([](OptimizerConfig& c) { c.settings["dampening"] = 1.5; }),
           Change([](OptimizerConfig& c) { c.settings["nesterov"] = true; }),
           Change([](OptimizerConfig& c) {
             c.settings["momentum"] = 0.9, c.settings["dampening"] = 0.1, c.settings["nesterov"] = true;
           }),
           Change([](OptimizerConfig& c) { c.rule = "adam", c.settings["beta1"] = 1; }),
           Change([](OptimizerConfig& c) { c.rule = "adam", c.settings["beta2"] = -0.1; }),
           Change([](OptimizerConfig& c) { c.rule = "adam", c.settings["epsilon"] = 0; }),
           Change([](OptimizerConfig& c) { c.clip_norm = INFINITY; }),
           Change([](OptimizerConfig& c) {
             c.groups = {{"", 1, 0}};
           }),
           Change([](OptimizerConfig& c) {
             c.groups = {{"*", -1, 0}};
           }),
       }) {
    OptimizerConfig config;
    EXPECT_NO_THROW(check_optimizer(config));
    change(config);
    EXPECT_THROW(check_optimizer(config), UsageError);
  }
}

TEST(Optimizer, StatesOfEachRule) {
  OptimizerConfig c;
  EXPECT_FALSE(uses(c, Role::kMomentum));
  c.settings["momentum"] = 0.9;
  EXPECT_TRUE(uses(c, Role::kMomentum));
  EXPECT_FALSE(uses(c, Role::kVariance));
  c = {.rule = "adamw"};
  EXPECT_TRUE(uses(c, Role::kMomentum) && uses(c, Role::kVariance));
  EXPECT_FALSE(uses(c, Role::kSlowMomentum));
  c.rule = "rmsprop";
  c.settings = {};
  EXPECT_FALSE(uses(c, Role::kMomentum) || uses(c, Role::kSlowMomentum));
  c.settings = {{"momentum", 0.5}, {"centered", 1}};
  EXPECT_TRUE(uses(c, Role::kMomentum) && uses(c, Role::kVariance) && uses(c, Role::kSlowMomentum));
  c.rule = "ademamix";
  c.settings = {{"beta1", 0}};
  EXPECT_FALSE(uses(c, Role::kMomentum));
}

TEST(Optimizer, LaterGroupsWin) {
  OptimizerConfig c;
  c.weight_decay = 0.5;
  c.groups = {{"*", 2, 0.25}, {"*.bias", 0.5, -1}};
  const auto rule = [&](const char* tensor) {
    return std::get<Sgd>(make_rule(c, {tensor, {2, 2}}, 1, 1, 1, false));
  };
  EXPECT_EQ(rule("a.weight").learning_rate, 2);
  EXPECT_EQ(rule("a.weight").coupled_decay, 0.25F);
  EXPECT_EQ(rule("a.bias").learning_rate, 0.5F);
  EXPECT_EQ(rule("a.bias").coupled_decay, 0.5F);
}

// With feedback momentum keeps the speed it gave the parameter; after an update that moved nothing that is
// none of it, but the rule still has a momentum.
TEST(Optimizer, VectorsMayBeLeftOutOfWeightDecay) {
  OptimizerConfig c;
  c.weight_decay = 0.1;
  const TensorInfo matrix{.name = "w", .shape = {4, 3}}, bias{.name = "b", .shape = {3}},
      row{.name = "r", .shape = {1, 1, 5}};
  for (const TensorInfo* t : {&matrix, &bias, &row}) EXPECT_EQ(group_of(c, *t).weight_decay, 0.1);
  c.decay_vectors = false;
  EXPECT_EQ(group_of(c, matrix).weight_decay, 0.1);
  EXPECT_EQ(group_of(c, bias).weight_decay, 0);
  EXPECT_EQ(group_of(c, row).weight_decay, 0);
  c.groups = {{.pattern = "b", .weight_decay = 0.2}};  // who names a tensor means it
  EXPECT_EQ(group_of(c, bias).weight_decay, 0.2);
}

TEST(Optimizer, FeedbackShrinksTheMomentumWhereTheRateRises) {
  OptimizerConfig c;
  c.settings["momentum"] = 0.9;
  const auto momentum = [&](double rate, double last) {
    return std::get<Sgd>(make_rule(c, {"a", {2, 2}}, rate, 2, 1, true, last)).momentum;
  };
  EXPECT_FLOAT_EQ(momentum(0.1, kNoLearningRate), 0.9F);
  EXPECT_FLOAT_EQ(momentum(0.1, 0.2), 0.9F);
  EXPECT_FLOAT_EQ(momentum(0.2, 0.1), 0.45F);
  EXPECT_GT(momentum(0.1, 0), 0);
  EXPECT_LT(momentum(0.1, 0), 1e-20F);
}

TEST(Optimizer, SettingsOfAnotherRuleAreRefused) {
  const std::string error = said([] {
    check_optimizer({.rule = "adam", .settings = {{"beta1", 0.9}, {"momentum", 0.9}}});
  });
  for (const char* part :
       {"optimizer.momentum", "no setting of adam, which has beta1, beta2, epsilon", "one of sgd"}) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  }
}

// The default rate of each rule is that of its reference.
TEST(Optimizer, ARateThatIsNotGivenIsTheRules) {
  const std::map<std::string_view, double> rates = {
      {"sgd", 1e-3},       {"adam", 1e-3},     {"adamw", 1e-3},     {"lion", 1e-4},
      {"lamb", 1e-3},      {"rmsprop", 0.01},  {"lars", 1},         {"lars_clip", 0.01},
      {"adagrad", 0.01},   {"ademamix", 1e-3}, {"adam_mini", 1e-3}, {"adamw_factored", 1e-3},
      {"adafactor", 0.01}, {"muon", 1e-3}};
  EXPECT_EQ(rates.size(), rule_names().size());
  OptimizerConfig c;
  for (const auto& [name, rate] : rates) {
    c.rule = RuleName::find(name).value();  // in whatever order they are set
    EXPECT_EQ(peak_rate(c), rate) << name;
    EXPECT_NO_THROW(check_optimizer(c)) << name;
  }
  c.learning_rate = 0.5;
  EXPECT_EQ(peak_rate(c), 0.5);
}

}  // namespace
}  // namespace lpmm
