// Whole trajectories of ModelMemory: stored PyTorch figures, and the gate for underflow: learning rate 1e-5,
// one fixed batch.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/cpu.h"
#include "lpmm/memory/model_memory.h"
#include "lpmm/run/advice.h"
#include "tests/lpmm/memory/given.h"
#include "tests/normal_values.h"
#include "tests/sanitized.h"

namespace lpmm {
namespace {

std::vector<float> decode(const ModelMemory& memory, Role role) {
  const kernels::RoleView v = memory.view(0, role);
  std::vector<float> values(static_cast<std::size_t>(v.elements));
  memory.device().decode(v, 0, v.elements, values.data());
  return values;
}

void step(ModelMemory& memory, std::uint32_t number, const std::vector<float>& gradient,
          double learning_rate) {
  Step this_step = memory.begin_step({number, learning_rate, true});
  this_step.fold(0, 0, gradient, 0);
  ASSERT_TRUE(std::move(this_step).commit().applied);
}

nlohmann::json stored_cases(const std::string& name) {
  std::ifstream file(LPMM_SOURCE_DIR "/tests/golden/" + name);
  EXPECT_TRUE(file.is_open()) << name;
  return nlohmann::json::parse(file);
}

void expect_stored_trajectories(const std::string& name) {
  const auto cases = stored_cases(name);
  ASSERT_GT(cases.size(), 0U);
  CpuDevice device(1);
  for (const auto& stored : cases) {
    const auto& o = stored["options"];
    const std::string rule = stored["rule"];
    OptimizerConfig c;
    c.rule = RuleName::find(rule).value();
    c.weight_decay = o.value("weight_decay", 0.0);
    for (const auto& [name, value] : o.items()) {
      if (name == "betas") c.settings["beta1"] = value[0], c.settings["beta2"] = value[1];
      const auto key = SettingKey::find(name == "eps"        ? "epsilon"
                                        : name == "lr_decay" ? "learning_rate_decay"
                                                             : std::string_view(name));
      if (key) c.settings[*key] = value.is_boolean() ? (value.get<bool>() ? 1 : 0) : value.get<double>();
      ASSERT_TRUE(key || name == "betas" || name == "lr" || name == "weight_decay") << name;
    }
    const auto n = static_cast<int>(stored["parameters"][0].size());
    const auto shape = stored.value("shape", std::vector<std::int64_t>{1, n});
    const TensorInfo info{"w", shape, TensorKind::kHidden, stored.value("parts", std::int64_t{1}),
                          stored.value("heads", std::int64_t{0})};
    ModelMemory memory({info}, make_policy("fp32"), c, 1, 1, device);
    std::vector<float> values;
    for (int i = 0; i < n; ++i) values.push_back(static_cast<float>(i - 5) / 8);
    memory.initialize(0, 0, values);
    for (int s = 0; s < static_cast<int>(stored["parameters"].size()); ++s) {
      std::vector<float> gradient;
      for (int i = 0; i < n; ++i) gradient.push_back(static_cast<float>((s * 7 + i * 13) % 32 - 15) / 64);
      step(memory, static_cast<std::uint32_t>(s + 1), gradient, o["lr"]);
      memory.decode(0, 0, values);
      for (int i = 0; i < n; ++i) {
        const double expected =
            stored["parameters"][static_cast<std::size_t>(s)][static_cast<std::size_t>(i)];
        ASSERT_NEAR(values[static_cast<std::size_t>(i)], expected, 1e-6 + 1e-6 * std::abs(expected))
            << rule << " " << o << " step " << s << " element " << i;
      }
    }
  }
}

// tests/golden/make_trajectories.py
TEST(Trajectory, PyTorch) {
  if (kSanitized) GTEST_SKIP() << kReleaseOnly;
  expect_stored_trajectories("trajectories.json");
}

// tests/golden/make_rule_trajectories.py
TEST(Trajectory, OtherRulesAsInTheirPapers) {
  if (kSanitized) GTEST_SKIP() << kReleaseOnly;
  expect_stored_trajectories("rule_trajectories.json");
}

// tests/golden/make_timm_trajectories.py
TEST(Trajectory, Timm) {
  if (kSanitized) GTEST_SKIP() << kReleaseOnly;
  expect_stored_trajectories("timm_trajectories.json");
}

TEST(Trajectory, EveryRuleHasOne) {
  std::set<std::string> rules = {"muon"};  // in muon_trajectories.json, of muon_test.cpp
  for (const char* name : {"trajectories.json", "rule_trajectories.json", "timm_trajectories.json"}) {
    for (const auto& stored : stored_cases(name)) rules.insert(stored["rule"]);
  }
  for (const std::string_view rule : rule_names()) {
    EXPECT_TRUE(rules.contains(std::string(rule)))
        << rule << ": add its steps to tests/golden/make_rule_trajectories.py, or to one of those beside it";
  }
}

// A linear layer fitted to one fixed batch by AdamW with learning rate 1e-5: the loss after some steps, and
// what the ledger says about them. Nearest rounding loses these updates, stochastic rounding keeps their
// mean.
struct FixedBatch {
  double first_loss = 0, last_loss = 0;
  std::vector<TensorStats> stats;
  std::string expected, measured, stalled;
};

FixedBatch fit_fixed_batch(const Policy& policy, int steps) {
  constexpr int kIn = 64, kOut = 128, kBatch = 32;
  constexpr double kRate = 1e-5;
  CpuDevice device(1);
  OptimizerConfig c;
  c.rule = "adamw";
  c.weight_decay = 0.01;
  ModelMemory memory({{"w", {kOut, kIn}}}, policy, c, 2024, 1, device);
  memory.initialize(0, 0, normal_values(kIn * kOut, 1, 0.1F));
  const auto x = normal_values(kBatch * kIn, 2, 1), y = normal_values(kBatch * kOut, 3, 1);
  FixedBatch result;
  result.expected = underflow_warning(expect_lost_updates(memory, kRate), true);
  for (int s = 0; s <= steps; ++s) {
    const auto w = decode(memory, Role::kParameter);
    std::vector<float> gradient(w.size());
    double loss = 0;
    for (int b = 0; b < kBatch; ++b) {
      for (int o = 0; o < kOut; ++o) {
        float out = -y[static_cast<std::size_t>(b * kOut + o)];
        for (int i = 0; i < kIn; ++i) {
          out += w[static_cast<std::size_t>(o * kIn + i)] * x[static_cast<std::size_t>(b * kIn + i)];
        }
        loss += out * out / kBatch;
        for (int i = 0; i < kIn; ++i) {
          gradient[static_cast<std::size_t>(o * kIn + i)] +=
              out * x[static_cast<std::size_t>(b * kIn + i)] / kBatch;
        }
      }
    }
    (s == 0 ? result.first_loss : result.last_loss) = loss;
    if (s < steps) step(memory, static_cast<std::uint32_t>(s + 1), gradient, kRate);
  }
  result.stats = memory.take_stats();
  result.measured = underflow_warning(count_lost_updates(memory, result.stats), false);
  result.stalled = stall_warning(memory, result.stats);
  return result;
}

TEST(Trajectory, LearningRate1em5OnOneFixedBatch) {
  if (kSanitized) GTEST_SKIP() << kReleaseOnly;
  constexpr int kSteps = 20;
  const FixedBatch plain = fit_fixed_batch(make_policy("fp32"), kSteps);
  const double drop = plain.first_loss - plain.last_loss;
  EXPECT_GT(drop, 0.1);
  EXPECT_TRUE(plain.expected.empty() && plain.measured.empty() && plain.stalled.empty());
  for (const char* parameter :
       {"bf16", "int12:block128:sticky", "int12:block512:sticky", "int8:block128:sticky"}) {
    Policy policy = make_policy("fp32");
    policy.specs[Role::kParameter] = parse_spec(parameter);
    const FixedBatch sr = fit_fixed_batch(policy, kSteps);
    EXPECT_NEAR((sr.first_loss - sr.last_loss) / drop, 1, 0.1) << parameter;
    EXPECT_TRUE(sr.expected.empty() && sr.measured.empty() && sr.stalled.empty()) << parameter;
    set_rounding(policy, Rounding::kNearest);
    const FixedBatch rn = fit_fixed_batch(policy, kSteps);
    EXPECT_LT((rn.first_loss - rn.last_loss) / drop, 0.1) << parameter;
    EXPECT_NE(rn.expected.find("would lose about"), std::string::npos) << parameter;
    EXPECT_NE(rn.measured.find("nearest rounding loses"), std::string::npos) << rn.measured;
    if (std::string_view(parameter) == "bf16") continue;  // weights near 0 still move
    EXPECT_NE(rn.stalled.find("stand still"), std::string::npos) << parameter;
  }
}

// The second term keeps what nearest rounding takes from the parameter; its own losses are reported.
TEST(Trajectory, LearningRate1em5OnOneFixedBatchInTwoTerms) {
  if (kSanitized) GTEST_SKIP() << kReleaseOnly;
  constexpr int kSteps = 20;
  const FixedBatch plain = fit_fixed_batch(make_policy("fp32"), kSteps);
  for (const auto& [parameter, compensation] :
       {std::pair("bf16:rn", "ulp8:rn"), std::pair("int8:block128:rn:sticky", "int8:block128:sr")}) {
    Policy policy = make_policy("fp32");
    policy.specs[Role::kParameter] = parse_spec(parameter);
    policy.specs[Role::kCompensation] = parse_spec(compensation);
    const FixedBatch two = fit_fixed_batch(policy, kSteps);
    EXPECT_NEAR((two.first_loss - two.last_loss) / (plain.first_loss - plain.last_loss), 1, 0.1) << parameter;
    EXPECT_TRUE(two.expected.empty() && two.measured.empty() && two.stalled.empty()) << parameter;
  }
  CpuDevice device(1);
  OptimizerConfig c;
  c.rule = "adamw";
  ModelMemory memory({{"w", {64, 128}}}, make_policy("flash"), c, 1, 1, device);
  memory.initialize(0, 0, normal_values(64 * 128, 1, 0.1F));
  EXPECT_LT(expect_lost_updates(memory, 1e-5).share, kLostShare);
  EXPECT_GT(expect_lost_updates(memory, 1e-7).share, kLostShare);
  step(memory, 1, normal_values(64 * 128, 2, 1), 1e-5);
  EXPECT_LT(count_lost_updates(memory, memory.take_stats()).share, kLostShare);
  step(memory, 2, normal_values(64 * 128, 2, 1), 1e-7);
  const LostUpdates lost = count_lost_updates(memory, memory.take_stats());
  EXPECT_GT(lost.share, kLostShare);
  for (const std::string& warning :
       {underflow_warning(expect_lost_updates(memory, 1e-7), true), underflow_warning(lost, false)}) {
    EXPECT_NE(warning.find("more compensation bits"), std::string::npos) << warning;
  }
}

// Updates so small that stochastic rounding, too, moves none of 8,192 codes in a step.
TEST(Trajectory, ParametersThatStandStillUnderSrAreTold) {
  if (kSanitized) GTEST_SKIP() << kReleaseOnly;
  CpuDevice device(1);
  OptimizerConfig c;
  c.rule = "adamw";
  ModelMemory memory({{"w", {64, 128}}}, make_policy("lpmm-compact"), c, 1, 1, device);
  memory.initialize(0, 0, normal_values(64 * 128, 1, 0.1F));
  const auto gradient = normal_values(64 * 128, 2, 1);
  step(memory, 1, gradient, 1e-4);
  EXPECT_EQ(stall_warning(memory, memory.take_stats()), "");
  step(memory, 2, gradient, 1e-8);
  const std::string warning = stall_warning(memory, memory.take_stats());
  EXPECT_NE(warning.find("updates changed a code"), std::string::npos) << warning;
}

// Returns the warnings about one matrix.
std::string warnings(const Policy& policy, const OptimizerConfig& config) {
  const TensorInfo tensors[] = {{"w", {64, 128}}};
  return fmt::format("{}", fmt::join(storage_warnings(policy, config, tensors), "\n"));
}

TEST(Trajectory, VarianceOfFewBitsWithAZeroIsTold) {
  if (kSanitized) GTEST_SKIP() << kReleaseOnly;
  OptimizerConfig c;
  c.rule = "adamw";
  for (const auto& [spec, told] : {std::pair{"ude4:block128:sr", true},
                                   {"ude6:block128:sr", true},
                                   {"log04:block128:sr", false},
                                   {"ude8:block128:sr", false},
                                   {"de04:block128:sr", false},
                                   {"fp32", false}}) {
    Policy policy = make_policy("lpmm-min");
    policy.specs[Role::kVariance] = parse_spec(spec);
    const std::string warning = warnings(policy, c);
    EXPECT_EQ(warning.find("the variance of w is stored as ude") == 0, told) << spec;
    EXPECT_EQ(warning.find("use de0") != std::string::npos, told);
    EXPECT_EQ(warning.empty(), !told) << spec;
  }
  c.rule = "sgd";
  Policy policy = make_policy("lpmm-min");
  policy.specs[Role::kVariance] = parse_spec("ude4:block128:sr");
  EXPECT_EQ(warnings(policy, c), "");
}

// One step changes it by less than half the ratio of two levels.
TEST(Trajectory, AVarianceOfEqualRatiosRoundedToNearestIsTold) {
  if (kSanitized) GTEST_SKIP() << kReleaseOnly;
  for (const char* rule : {"adamw", "adagrad"}) {
    for (const auto& [spec, told] : {std::pair{"log04:block128:rn", true},
                                     {"log08:block64:rn", true},
                                     {"log04:block128:sr", false},
                                     {"log04:block128:qr:sticky", false},
                                     {"de08:block128:rn", false}}) {
      OptimizerConfig c;
      c.rule = RuleName::find(rule).value();
      Policy policy = make_policy("lpmm-min");
      policy.specs[Role::kVariance] = parse_spec(spec);
      const bool said = warnings(policy, c).find("loses nearly every change of it") != std::string::npos;
      EXPECT_EQ(said, told && c.rule == "adamw") << spec << " " << warnings(policy, c);
    }
  }
  Policy policy = make_policy("lpmm-min");
  policy.specs[Role::kVariance] = parse_spec("log08:block64:rn");
  OptimizerConfig c;
  c.rule = "adamw";
  EXPECT_NE(warnings(policy, c).find("adamw"), std::string::npos);
  EXPECT_NE(warnings(policy, c).find("use log08:block64:sr"), std::string::npos) << warnings(policy, c);
  c.groups = {{.pattern = "w", .frozen = true}};
  EXPECT_EQ(warnings(policy, c), "");
}

TEST(Trajectory, AGrowingVarianceThatRoundingDoesNotKeepIsTold) {
  if (kSanitized) GTEST_SKIP() << kReleaseOnly;
  for (const char* rule : {"adagrad", "adamw"}) {
    for (const auto& [spec, told] : {std::pair{"sqrt04:block128:sr", "lift"},
                                     {"bf16:rn", "nearest"},
                                     {"ude8:block256:rn", "nearest"},
                                     {"log08:block128:ur", "ur lifts"},
                                     {"sqrt08:block128:ar", "ar lifts"},
                                     {"log08:block128:sr", ""},
                                     {"bf16:sr", ""},
                                     {"sqrt08:block128:sr", ""},
                                     {"sqrt04:block128:qr:sticky", ""},
                                     {"fp32", ""}}) {
      OptimizerConfig c;
      c.rule = RuleName::find(rule).value();
      Policy policy = make_policy("lpmm-min");
      policy.specs[Role::kVariance] = parse_spec(spec);
      const std::string warning = warnings(policy, c);
      EXPECT_EQ(warning.empty(), c.rule == "adamw" || std::string_view(told).empty()) << spec;
      EXPECT_TRUE(warning.empty() || warning.find(told) != std::string::npos) << warning;
    }
  }
}

TEST(Trajectory, ASlowMomentumOfTooFewBitsIsTold) {
  if (kSanitized) GTEST_SKIP() << kReleaseOnly;
  const auto warning = [&](const char* spec, const OptimizerConfig& config) {
    Policy policy = make_policy("fp32");
    policy.specs[Role::kSlowMomentum] = parse_spec(spec);
    return warnings(policy, config);
  };
  OptimizerConfig mix, centred;
  mix.rule = "ademamix";
  centred.rule = "rmsprop";
  centred.settings["centered"] = 1;
  for (const auto& [spec, told] : {std::pair{"de8:block256:rn", "nearest rounding loses"},
                                   {"bf16:rn", "nearest rounding loses"},
                                   {"int8:block128:sr", "adds up to 23 %"},
                                   {"int12:block128:qr:sticky", ""},
                                   {"bf16:sr", "adds up to 11 %"},
                                   {"fp32", ""}}) {
    EXPECT_EQ(warning(spec, mix).empty(), std::string_view(told).empty()) << spec;
    EXPECT_NE(warning(spec, mix).find(told), std::string::npos) << warning(spec, mix);
    EXPECT_EQ(warning(spec, centred), "") << "it averages a hundred gradients";
  }
  mix.rule = "adamw";
  EXPECT_EQ(warning("de8:block256:rn", mix), "") << "it has none";
}

}  // namespace
}  // namespace lpmm
