// ModelMemory against the scalar specification, byte for byte.
#include "tests/lpmm/memory/oracle.h"
#include "kernels/cpu.h"
#include "tests/lpmm/memory/given.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "tests/sanitized.h"

namespace lpmm {
namespace {

// Tails of all kinds: below a block, below a group, several tiles and a bit, a 1-D tensor, one of one
// element; rows of several chunks.
const std::vector<TensorInfo> kTails = {
    {"conv", {5, 3, 3, 3}}, {"norm", {37}},       {"wide", {33, 260}},
    {"tile", {64, 64}},     {"one", {1, 1}},      {"block", {16, 12}, TensorKind::kHidden, 2, 2},
    {"long", {3, 4096, 1}}, {"chunks", {150, 7}}, {"tall", {1100, 3}}};

// Values over five decades, a few zeros. Every run takes the same: they are kept.
const std::vector<float>& draw_values(std::int64_t count, std::uint64_t seed, float scale) {
  static std::map<std::pair<std::int64_t, std::uint64_t>, std::vector<float>> drawn;
  std::vector<float>& values = drawn[{count, seed}];
  if (!values.empty()) return values;
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  values.resize(static_cast<std::size_t>(count));
  for (float& x : values) {
    x = scale * normal(random) * std::exp(2.0F * normal(random));
    if (random() % 16 == 0) x = 0;
  }
  return values;
}

OptimizerConfig optimizer(RuleName rule, double clip = 0) {
  OptimizerConfig c;
  c.rule = rule;
  give(c, "momentum", 0.9);
  c.weight_decay = 0.01;
  c.clip_norm = clip;
  return c;
}

void expect_equal(const ModelMemory& memory, const Oracle& oracle, const std::string& what) {
  for (int i = 0; i < memory.tensors(); ++i) {
    for (const Role role : kEveryRole) {
      const kernels::RoleView v = memory.view(i, role);
      const Oracle::Stored& o = oracle.stored(i, role);
      const std::string where = what + ", " + memory.info(i).name + " " + std::string(to_string(role));
      ASSERT_EQ(v.codes == nullptr, o.codes.empty()) << where;
      ASSERT_TRUE(std::equal(o.codes.begin(), o.codes.end(), v.codes)) << where;
      ASSERT_TRUE(std::equal(o.steps.begin(), o.steps.end(), v.steps)) << where << " steps";
    }
  }
}

// Four steps of K microbatches, equal after every fold and commit.
void run_both(const Policy& policy, const OptimizerConfig& config, int microbatches, int threads,
              const std::string& what) {
  CpuDevice device(threads);
  ModelMemory memory(kTails, policy, config, 7, microbatches, device);
  Oracle oracle(kTails, policy, config, 7, microbatches);
  for (int i = 0; i < memory.tensors(); ++i) {
    const auto& values = draw_values(memory.info(i).elements(), static_cast<std::uint64_t>(i), 0.1F);
    memory.initialize(i, 0, values);
    oracle.initialize(i, values);
  }
  expect_equal(memory, oracle, what + " at the start");
  std::int64_t clipped_tensors = 0;
  const std::uint32_t steps = kSanitized && config.percentile_clip == 0 ? 2 : 4;
  for (std::uint32_t step = 1; step <= steps; ++step) {
    const double lr = step == 3 ? 1e-8 : 0.1 / step;                // it rises as well
    Step this_step = memory.begin_step({step, lr, step % 2 == 0});  // counting changes no bit
    oracle.begin_step(step);
    for (int k = 0; k < microbatches; ++k) {
      for (int i = 0; i < memory.tensors(); ++i) {
        if (i == 3 && k == microbatches - 1) continue;  // its norm comes from what is stored
        const auto& gradient = draw_values(memory.info(i).elements(),
                                           1000 * step + 10 * static_cast<std::uint64_t>(k + 1) + i, 0.01F);
        this_step.fold(i, 0, gradient, k);
        oracle.fold(i, gradient, k);
      }
    }
    expect_equal(memory, oracle, what + " after the folds of step " + std::to_string(step));
    const StepReport a = std::move(this_step).commit(), b = oracle.commit(lr);
    EXPECT_TRUE(a.applied && b.applied);
    EXPECT_EQ(a.gradient_norm, b.gradient_norm) << what;
    EXPECT_EQ(a.clip_factor, b.clip_factor) << what;
    EXPECT_EQ(a.clip_factor<1, config.clip_norm> 0) << what << ": clipping is meant to act";
    EXPECT_EQ(a.clipped_tensors, b.clipped_tensors) << what;
    clipped_tensors += a.clipped_tensors;
    expect_equal(memory, oracle, what + " after step " + std::to_string(step));
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_EQ(clipped_tensors > 0, config.percentile_clip > 0) << what;
}

Policy odd_policy(const char* p, const char* a, const char* m, const char* v, const char* c = "none") {
  return {"odd",
          {parse_spec(p), parse_spec(a), parse_spec(m), parse_spec(v), parse_spec(m),
           parse_spec(Role::kCompensation, c)},
          {}};
}

// Under a sanitizer, where ways through the code count and not all their combinations: a sixth of them.
bool is_left_out(int row, int column) {
  return kSanitized && (row + column) % 6 != 0;
}

TEST(Oracle, EveryPresetRuleAndMicrobatchCount) {
  int presets = 0;
  for (const std::string_view preset : preset_names()) {
    ++presets;
    int rules = 0;
    const bool is_peer = preset != "fp32" && make_policy(preset).specs[Role::kAccumulator] == Spec{};
    for (const std::string_view name : rule_names()) {
      const RuleName rule = RuleName::find(name).value();
      ++rules;
      for (const int k : {1, 2, 4}) {
        if (is_peer && k != 2) continue;                          // microbatches are fp32's there
        if (k == ((presets + rules) % 2 == 0 ? 1 : 4)) continue;  // every preset and every rule has all three
        if (is_left_out(presets + rules, k)) continue;
        run_both(make_policy(preset), optimizer(rule, k == 4 ? 0.0 : 0.1), k, 1 + k % 3,
                 std::string(preset) + " rule " + std::string(rule.text()) + " K " + std::to_string(k));
      }
    }
  }
}

TEST(Oracle, ClippingByPercentiles) {
  for (const char* preset : {"fp32", "lpmm", "lpmm-min", "bnb8-2048", "ao4"}) {
    for (const double clip : {0.0, 0.1}) {
      OptimizerConfig config = optimizer(RuleName("adamw"), clip);
      config.percentile_clip = 40;
      run_both(make_policy(preset), config, 2, 2, fmt::format("percentiles, {}, norm {}", preset, clip));
    }
  }
}

TEST(Oracle, OtherRoundings) {
  for (const std::string_view preset : preset_names()) {
    for (const Rounding rounding : {Rounding::kNearest, Rounding::kQuasiStochastic}) {
      Policy policy = make_policy(preset);
      set_rounding(policy, rounding);
      run_both(policy, optimizer(RuleName("adamw")), 2, 2,
               std::string(preset) + " " + std::string(to_string(rounding)));
    }
  }
}

TEST(Oracle, ErrorFeedback) {
  for (const char* preset : {"lpmm", "lpmm-min", "states8"}) {
    Policy policy = make_policy(preset);
    policy.error_feedback = true;
    OptimizerConfig nesterov = optimizer(RuleName("sgd"), 0.1);
    nesterov.settings["nesterov"] = true;
    run_both(policy, nesterov, 2, 2, std::string(preset) + " feedback, sgd");
    for (const std::string_view name : rule_names()) {
      const RuleName rule = RuleName::find(name).value();
      if (rule == "sgd" || !rule_row(rule).no_feedback.empty()) continue;
      OptimizerConfig with_momentum = optimizer(rule);
      give(with_momentum, "beta1", 0.9);
      run_both(policy, with_momentum, 1, 3, fmt::format("{} feedback, {}", preset, name));
    }
  }
}

// Settings under which a rule does without a state: there is no such state then.
TEST(Oracle, SettingsOfTheRules) {
  for (const char* preset : {"lpmm", "lpmm-min"}) {
    for (const RuleName rule :
         {RuleName("sgd"), RuleName("rmsprop"), RuleName("lars"), RuleName("lars_clip")}) {
      OptimizerConfig plain = optimizer(rule);
      plain.settings["momentum"] = 0;
      run_both(make_policy(preset), plain, 2, 2, fmt::format("{} without momentum, {}", preset, rule.text()));
    }
    OptimizerConfig lars = optimizer(RuleName("lars"), 0.1);
    lars.settings["nesterov"] = lars.settings["trust_clip"] = lars.settings["adapt_vectors"] = 1;
    lars.settings["trust_coefficient"] = 0.5;
    run_both(make_policy(preset), lars, 1, 3, "lars, all switches on");
    for (const double momentum : {0.0, 0.9}) {
      OptimizerConfig centred = optimizer(RuleName("rmsprop"));
      centred.settings["centered"] = 1;
      centred.settings["momentum"] = momentum;
      run_both(make_policy(preset), centred, 2, 2, fmt::format("rmsprop, centred, momentum {}", momentum));
    }
    for (const RuleName rule : {RuleName("adam"), RuleName("adamw")}) {
      OptimizerConfig stable = optimizer(rule);
      stable.settings["update_clip"] = 0.5;
      run_both(make_policy(preset), stable, 1, 3, fmt::format("{}, clipped updates", rule.text()));
    }
    OptimizerConfig lamb = optimizer(RuleName("lamb"), 0.1);
    lamb.settings["trust_clip"] = 1;
    run_both(make_policy(preset), lamb, 2, 2, "lamb, clipped");
    lamb.settings["trust_clip"] = 0;
    lamb.settings["min_weight_norm"] = 0.1;
    lamb.settings["max_weight_norm"] = 0.3;
    run_both(make_policy(preset), lamb, 1, 3, "lamb between bounds");
    OptimizerConfig mix = optimizer(RuleName("ademamix"), 0.1);
    mix.settings["beta1"] = 0;
    mix.settings["slow_weight_warmup"] = mix.settings["beta3_warmup"] = 3;
    run_both(make_policy(preset), mix, 2, 2, "ademamix without beta1, warm-ups");
    OptimizerConfig muon = optimizer(RuleName("muon"), 0.1);
    muon.settings["momentum"] = 0;
    run_both(make_policy(preset), muon, 2, 3, "muon without momentum");
    OptimizerConfig adagrad = optimizer(RuleName("adagrad"));
    adagrad.settings["learning_rate_decay"] = 0.5;
    run_both(make_policy(preset), adagrad, 2, 1, "adagrad, falling rate");
    OptimizerConfig mini = optimizer(RuleName("adam_mini"), 0.1);
    mini.settings["per_head"] = 1;
    run_both(make_policy(preset), mini, 2, 3, "adam_mini, a variance per head");
    OptimizerConfig adafactor = optimizer(RuleName("adafactor"), 0.1);
    adafactor.settings["beta1"] = 0.9;
    adafactor.settings["clip_threshold"] = 0.5;
    run_both(make_policy(preset), adafactor, 2, 3, "adafactor with momentum");
    adafactor.settings["scale_parameter"] = adafactor.settings["relative_step"] = 0;
    run_both(make_policy(preset), adafactor, 1, 2, "adafactor, steps by the rate alone");
  }
}

TEST(Oracle, GradientsInTheMomentum) {
  for (const char* momentum :
       {"soft4:block64:qr", "int8:sr:sticky", "soft3:block256:rn", "bf16:sr", "fp32"}) {
    Policy policy = odd_policy("int8:block128:qr:sticky", "fp32", momentum, "fp32");
    policy.accumulate_in_momentum = true;
    for (const int k : {1, 2, 4}) {
      OptimizerConfig sgd = optimizer(RuleName("sgd"));
      sgd.settings["dampening"] = k == 2 ? 0.3 : 0;
      sgd.settings["decoupled_decay"] = k == 4;
      policy.error_feedback = k == 4;
      run_both(policy, sgd, k, 1 + k % 3, std::string(momentum) + " K " + std::to_string(k));
      policy.error_feedback = false;
      OptimizerConfig muon = optimizer(RuleName("muon"));
      muon.settings["nesterov"] = 0;
      run_both(policy, muon, k, 1 + k % 3, fmt::format("muon, {} K {}", momentum, k));
    }
  }
}

TEST(Oracle, VariancesWithARangeAndRoundedInTheUpdate) {
  for (const char* variance :
       {"log04:block128:sr:sticky", "log02:block64:sr", "log08:block256:ur", "log03:block128:rn",
        "sqrt04:block128:ur:sticky", "lin05:block64:ur", "sqrt04:block128:ar:sticky", "log03:block128:ar"}) {
    run_both(odd_policy("int8:block128:sr:sticky", "soft4:block128:sr", "soft5:block128:sr", variance),
             optimizer(RuleName("adamw"), 0.05), 2, 2, variance);
  }
}

// Steps that are not one bf16 number a block, with every rule: rows, columns, and fp32.
TEST(Oracle, StepsOfRowsAndInFp32) {
  const auto policy = [](const char* momentum, const char* variance) {
    Policy p = odd_policy("int8:block128:sr:sticky", "soft4:block128:sr", momentum, variance);
    p.specs[Role::kSlowMomentum] = parse_spec(momentum);
    return p;
  };
  for (const std::string_view name : rule_names()) {
    const RuleName rule = RuleName::find(name).value();
    run_both(policy("de8:block256:step32:rn", "ude8:block256:step32:rn"), optimizer(rule, 0.05), 1, 3,
             fmt::format("fp32 steps, {}", name));
    run_both(policy("de4:rank1:step32:rn", "lin04:rank1:rn"), optimizer(rule), 2, 1,
             fmt::format("rank 1, {}", name));
  }
  for (const char* variance : {"sqrt8:block64:rn", "sqrt4:row:sr", "lin03:rank1:step32:ur",
                               "e4m3:row:step32:rn", "de04:block64:step32:qr"}) {
    run_both(policy("soft8:row:qr", variance), optimizer(RuleName("adamw"), 0.05), 2, 3, variance);
  }
  Policy fed = policy("int8:block64:step32:sr", "lin04:rank1:rn");
  fed.error_feedback = true;
  run_both(fed, optimizer(RuleName("adamw")), 1, 2, "errors fed back to fp32 steps");
  Policy folded = policy("soft4:block64:step32:sr", "fp32");
  folded.accumulate_in_momentum = true;
  run_both(folded, optimizer(RuleName("sgd")), 2, 2, "gradients in a momentum with fp32 steps");
  Policy vectors = policy("de4:rank1:rn", "lin04:rank1:step32:rn");
  PolicyOverride named;
  named.pattern = "norm";
  named.specs[Role::kVariance] = parse_spec("lin04:rank1:step32:rn");
  vectors.overrides = {named};
  run_both(vectors, optimizer(RuleName("adamw")), 1, 2, "a vector has blocks");
}

// Parameters of two terms: every rule, with packed and plain ones; and gradients in the momentum.
TEST(Oracle, Compensation) {
  const Policy policies[] = {
      odd_policy("bf16:rn", "bf16:rn", "soft8:block64:rn", "sqrt08:block64:rn", "ulp8:rn"),
      odd_policy("int8:block128:sr:sticky", "soft4:block128:sr", "soft4:block128:sr",
                 "sqrt04:block128:sr:sticky", "int4:block64:sr"),
      odd_policy("bf16:sr", "fp32", "int8:block256:sr", "sqrt08:block128:sr", "ulp8:qr"),
      odd_policy("int5:block256:rn:sticky", "fp32", "fp32", "fp32", "soft4:block512:rn:sticky"),
      odd_policy("de8:block64:rn", "fp32", "fp32", "fp32", "bf16:sr"),
  };
  int count = 0;
  for (const Policy& policy : policies) {
    const std::string compensation = to_string(policy.specs[Role::kCompensation]);
    ++count;
    int rules = 0;
    for (const std::string_view name : rule_names()) {
      if (is_left_out(count, ++rules)) continue;
      run_both(policy, optimizer(RuleName::find(name).value(), 0.1), 2, 2,
               fmt::format("compensation {}, {}", compensation, name));
    }
    OptimizerConfig stable = optimizer(RuleName("adamw"));
    stable.settings["update_clip"] = 0.5;
    run_both(policy, stable, 1, 3, fmt::format("compensation {}, clipped updates", compensation));
    Policy in_momentum = policy;
    in_momentum.accumulate_in_momentum = true;
    run_both(in_momentum, optimizer(RuleName("sgd")), 2, 1,
             fmt::format("compensation {}, gradients in the momentum", compensation));
  }
  Policy some = make_policy("lpmm-compact");
  PolicyOverride with, without;
  with.pattern = "w*";
  with.specs[Role::kCompensation] = parse_spec("int4:block128:sr");
  without.pattern = "wide";
  without.specs[Role::kCompensation] = Spec{};
  some.overrides = {with, without};
  run_both(some, optimizer(RuleName("lion")), 2, 2, "compensation of some tensors");
}

TEST(Oracle, OddPolicies) {
  run_both(
      odd_policy("int5:block64:sr:sticky", "int7:block4096", "soft8:block64:sticky", "lin04:block512:sticky"),
      optimizer(RuleName("adam"), 0.05), 3, 2, "odd widths");
  run_both(odd_policy("int16:block1024:rn:sticky", "bf16:sr", "de4:block64:sr", "de04:block128:rn"),
           optimizer(RuleName("adamw")), 2, 3, "bf16 accumulator");
  run_both(odd_policy("bf16:sr", "int2:block64", "int3:block2048", "ude4:block64:sr"),
           optimizer(RuleName("adam"), 0.05), 1, 2, "bf16 parameters");
  run_both(odd_policy("de8:block128:sr", "soft4:block64", "bf16:rn", "bf16:sr"), optimizer(RuleName("adam")),
           2, 2, "dynamic parameters");
  Policy exempted = make_policy("lpmm-min");
  PolicyOverride keep, pack;
  keep.pattern = "w*";
  keep.exempt = true;
  pack.pattern = "norm";
  pack.specs[Role::kParameter] = parse_spec("int10:block64:sticky");
  exempted.overrides = {keep, pack};
  run_both(exempted, optimizer(RuleName("sgd"), 0.1), 2, 2, "overrides");
}

}  // namespace
}  // namespace lpmm
