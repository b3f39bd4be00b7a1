#include "lpmm/memory/policy.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "lpmm/base/error.h"
#include "lpmm/memory/optimizer_config.h"

namespace lpmm {
namespace {

using enum Role;

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const UsageError& e) {
    return e.what();
  }
  return "no error";
}

PolicyOverride change(const char* pattern, Role role, const char* spec) {
  PolicyOverride o;
  o.pattern = pattern;
  o.specs[role] = parse_spec(role, spec);
  return o;
}

PolicyOverride exempt(const char* pattern) {
  PolicyOverride o;
  o.pattern = pattern;
  o.exempt = true;
  return o;
}

const TensorInfo kMatrix{"layer1.weight", {16, 32}};
const TensorInfo kBias{"layer1.bias", {16}};

TEST(Policy, PresetsHaveTheirBitsAndAreLegal) {
  const std::map<std::string_view, RoleArray<int>> kBits = {
      {"fp32", {32, 32, 32, 32, 32}}, {"lpmm", {12, 8, 8, 8, 12}},        {"lpmm-compact", {8, 8, 8, 8, 12}},
      {"lpmm-min", {8, 4, 4, 4, 12}}, {"lpmm-nano", {7, 3, 4, 2, 12}},    {"states8", {32, 32, 8, 8, 8}},
      {"bnb8", {32, 32, 8, 8, 8}},    {"bnb8-2048", {32, 32, 8, 8, 8}},   {"thu4", {32, 32, 4, 4, 4}},
      {"ao4", {32, 32, 4, 4, 4}},     {"thu4-factor", {32, 32, 4, 4, 4}}, {"ao-fp8", {32, 32, 8, 8, 8}},
      {"solo2", {32, 32, 4, 2, 4}},   {"muon8", {32, 32, 8, 32, 8}},      {"adam-mini8", {32, 32, 8, 32, 8}},
      {"flash", {16, 16, 8, 8, 8, 8}}};
  for (const std::string_view name : preset_names()) {
    ASSERT_TRUE(kBits.contains(name)) << name << ": add its bits to kBits";
    Policy policy = make_policy(name);
    for (const Role r : kEveryElementRole) {
      const bool is_none = r == kCompensation && !has_compensation(policy.specs);
      EXPECT_EQ(is_none ? 0 : policy.specs[r].format.bits, kBits.at(name)[r]) << name;
    }
    EXPECT_NO_THROW(check_policy(policy, OptimizerConfig(), {}));
    set_rounding(policy, Rounding::kNearest);
    EXPECT_NO_THROW(check_policy(policy, OptimizerConfig(), {})) << name << " rn";
  }
}

// `ar` and moving steps of few bits would lift it with every write.
TEST(Policy, AVarianceThatIsASumKeepsItsMean) {
  OptimizerConfig adagrad, adamw;
  adagrad.rule = RuleName::find("adagrad").value();
  adamw.rule = RuleName::find("adamw").value();
  for (const char* preset : {"lpmm", "lpmm-compact", "lpmm-min", "lpmm-nano"}) {
    const Spec spec = make_policy(preset, adagrad).specs[kVariance];
    EXPECT_TRUE(spec.rounding == Rounding::kStochastic && spec.step_mode == StepMode::kSticky) << preset;
    EXPECT_GE(spec.format.bits, 4) << preset;
    EXPECT_EQ(make_policy(preset, adamw).specs[kVariance], make_policy(preset).specs[kVariance]) << preset;
  }
}

TEST(Policy, UnknownPresetNamesTheNearest) {
  const std::string error = error_of([] { make_policy("lpmm-compat"); });
  EXPECT_NE(error.find("did you mean lpmm-compact?"), std::string::npos) << error;
  EXPECT_NE(error.find("states8"), std::string::npos) << error;
}

TEST(Policy, OneDimensionalTensorsAreExemptUnlessNamed) {
  Policy policy = make_policy("lpmm");
  EXPECT_FALSE(is_exempt(policy, kMatrix));
  EXPECT_TRUE(is_exempt(policy, kBias));
  EXPECT_EQ(specs_for(policy, kBias), RoleSpecs{});
  EXPECT_EQ(specs_for(policy, kMatrix), policy.specs);
  policy.overrides = {change("*.bias", kParameter, "int16")};
  EXPECT_FALSE(is_exempt(policy, kBias));
  EXPECT_EQ(to_string(specs_for(policy, kBias)[kParameter]), "int16:block128:sr");
  EXPECT_EQ(specs_for(policy, kBias)[kMomentum], policy.specs[kMomentum]);
  // fp32 is a format like others: only 1-D tensors count as exempt.
  EXPECT_FALSE(is_exempt(make_policy("fp32"), kMatrix));
}

// 8-bit and 4-bit optimizers exempt small tensors, too, each at its own size.
TEST(Policy, SmallTensorsAreExemptUnlessNamed) {
  const TensorInfo small{"small", {4095, 1}}, limit{"limit", {64, 64}}, vector{"vector", {5000}};
  Policy policy = make_policy("lpmm");
  EXPECT_EQ(policy.min_elements, 0);
  EXPECT_FALSE(is_exempt(policy, small));
  policy.min_elements = 4096;
  EXPECT_EQ(why_exempt(policy, small), "fewer than memory.min_elements = 4096");
  EXPECT_EQ(specs_for(policy, small), RoleSpecs{});
  EXPECT_EQ(why_exempt(policy, limit), "");
  EXPECT_EQ(specs_for(policy, limit), policy.specs);
  EXPECT_EQ(why_exempt(policy, vector), "one dimension");
  policy.overrides = {change("small", kMomentum, "int16"), exempt("lim*")};
  EXPECT_FALSE(is_exempt(policy, small));
  EXPECT_EQ(to_string(specs_for(policy, small)[kMomentum]), "int16:block128:sr");
  EXPECT_EQ(why_exempt(policy, limit), "memory.override \"lim*\"");

  EXPECT_TRUE(is_exempt(make_policy("bnb8"), small));
  EXPECT_FALSE(is_exempt(make_policy("bnb8"), limit));
  EXPECT_FALSE(is_exempt(make_policy("bnb8-2048"), limit));
  EXPECT_FALSE(is_exempt(make_policy("ao4"), limit));
  EXPECT_TRUE(is_exempt(make_policy("thu4"), limit));  // up to 4,096 elements
  EXPECT_FALSE(is_exempt(make_policy("thu4"), {"w", {4097, 1}}));
  EXPECT_FALSE(is_exempt(make_policy("states8"), small));
}

// A model's wish is a default, which an override changes role by role.
TEST(Policy, StatesThatTheModelWantsInFp32AreUnlessNamed) {
  TensorInfo embedding{"wte.weight", {100, 64}};
  embedding.fp32_states = true;
  Policy policy = make_policy("lpmm-min");
  EXPECT_FALSE(is_exempt(policy, embedding));
  const RoleSpecs specs = specs_for(policy, embedding);
  EXPECT_EQ(specs[kParameter], policy.specs[kParameter]);
  EXPECT_EQ(specs[kAccumulator], policy.specs[kAccumulator]);
  EXPECT_EQ(to_string(specs[kMomentum]), "fp32");
  EXPECT_EQ(to_string(specs[kVariance]), "fp32");
  set_rounding(policy, Rounding::kNearest);
  EXPECT_EQ(to_string(specs_for(policy, embedding)[kVariance]), "fp32");
  policy.overrides = {change("wte*", kMomentum, "de8:block256:rn")};
  EXPECT_EQ(to_string(specs_for(policy, embedding)[kMomentum]), "de8:block256:rn");
  EXPECT_EQ(to_string(specs_for(policy, embedding)[kVariance]), "fp32");
}

TEST(Policy, LaterOverridesWin) {
  Policy policy = make_policy("lpmm");
  policy.overrides = {exempt("layer1.*"), change("layer1.weight", kParameter, "int10:sticky")};
  EXPECT_FALSE(is_exempt(policy, kMatrix));
  EXPECT_EQ(to_string(specs_for(policy, kMatrix)[kParameter]), "int10:block128:sr:sticky");
  EXPECT_TRUE(is_exempt(policy, kBias));
  policy.overrides.push_back(exempt("layer?.w*"));
  EXPECT_TRUE(is_exempt(policy, kMatrix));
}

TEST(Policy, RoundingTurnsEveryPackedRole) {
  Policy policy = make_policy("lpmm");
  policy.overrides = {change("*weight", kVariance, "sqrt04:sr:sticky")};
  set_rounding(policy, Rounding::kNearest);
  const RoleSpecs specs = specs_for(policy, kMatrix);
  for (const Spec& s : specs) EXPECT_EQ(s.rounding, Rounding::kNearest);
  EXPECT_EQ(specs[kVariance].step_mode, StepMode::kMoving);
  EXPECT_EQ(specs[Role::kSlowMomentum].step_mode, StepMode::kMoving);
  EXPECT_EQ(specs[kParameter].step_mode, StepMode::kSticky);
  Policy plain = make_policy("fp32");
  set_rounding(plain, Rounding::kStochastic);
  EXPECT_EQ(to_string(plain.specs[kParameter]), "fp32");
}

TEST(Policy, IllegalPoliciesAreRefused) {
  const auto with = [](PolicyOverride o) {
    Policy policy = make_policy("lpmm");
    policy.overrides = {std::move(o)};
    return error_of([&] { check_policy(policy, OptimizerConfig(), std::array{kMatrix, kBias}); });
  };
  EXPECT_EQ(with(change("*weight", kMomentum, "de8:rn")), "no error");
  EXPECT_NE(with(change("*weight", kParameter, "ude8"))
                .find("override \"*weight\", parameter = \"ude8:block128:sr\""),
            std::string::npos);
  EXPECT_NE(with(change("*weight", kMomentum, "sqrt08")).find("negative values"), std::string::npos);
  EXPECT_NE(with(change("*weight", kAccumulator, "lin04")).find("negative values"), std::string::npos);
  EXPECT_NE(with(change("*weight", kVariance, "int8")).find("ude, de0, lin0"), std::string::npos);
  EXPECT_NE(with(change("*weight", kVariance, "soft8")).find("never negative"), std::string::npos);
  for (const char* spec : {"nf4:sticky", "e4m3:rn"}) {
    EXPECT_EQ(with(change("*weight", kParameter, spec)), "no error");
    EXPECT_EQ(with(change("*weight", kMomentum, spec)), "no error");
  }
  EXPECT_NE(with(change("*weight", kVariance, "nf4"))
                .find("use ude, de0, lin0, sqrt0, sqrt, log0, e4m3, bf16 or fp32"),
            std::string::npos);
  EXPECT_EQ(with(change("*weight", kVariance, "e4m3:rn")), "no error");
  EXPECT_NE(with(change("*weight", kParameter, "de08")).find("use int, de, soft, nf4, e4m3, bf16 or fp32"),
            std::string::npos);
  EXPECT_NE(with(change("*weight", kAccumulator, "int8:sticky")).find("afresh"), std::string::npos);
  EXPECT_NE(with(change("*weight", kVariance, "sqrt08:rn:sticky")).find("freezes"), std::string::npos);
  EXPECT_NE(with(change("*weight", Role::kSlowMomentum, "int12:rn:sticky")).find("freezes"),
            std::string::npos);
  EXPECT_NE(with(change("*weight", Role::kSlowMomentum, "sqrt08")).find("negative values"),
            std::string::npos);
  EXPECT_EQ(with(change("*weight", kVariance, "log04:ur:sticky")), "no error");
  EXPECT_EQ(with(change("*weight", kVariance, "sqrt04:ar:sticky")), "no error");
  PolicyOverride zero = change("*weight", kVariance, "ude8:sr");
  zero.specs[kVariance]->rounding = Rounding::kUpdate;  // parse_spec refuses this
  EXPECT_NE(with(zero).find("the format has 0"), std::string::npos);
  PolicyOverride sticky = change("*weight", kVariance, "sqrt02:sr");
  sticky.specs[kVariance]->step_mode = StepMode::kSticky;  // parse_spec refuses this
  EXPECT_NE(with(sticky).find("dropped"), std::string::npos);
  EXPECT_NE(with(change("*wight", kParameter, "int8")).find("did you mean layer1.weight?"),
            std::string::npos);
  EXPECT_NE(with(PolicyOverride{"*weight", {}, false}).find("must either be exempt"), std::string::npos);
  Policy policy = make_policy("lpmm");
  policy.specs[kVariance] = parse_spec("int8");
  EXPECT_NE(error_of([&] {
              check_policy(policy, OptimizerConfig(), {});
            }).find("memory.variance = \"int8:block128:sr\""),
            std::string::npos);
}

// Steps of rows, or in fp32, are for states, and steps of rows for those that are written as a whole.
TEST(Policy, StepsOfRowsHaveTheirPlaces) {
  const auto with = [](Role role, const char* spec, const auto& change) {
    Policy policy = make_policy("lpmm");
    policy.specs[role] = parse_spec(spec);
    change(policy);
    return error_of([&] { check_policy(policy, OptimizerConfig(), std::array{kMatrix}); });
  };
  const auto nothing = [](Policy&) {};
  for (const char* spec : {"int8:row", "int8:rank1", "int8:block64:step32"}) {
    for (const Role role : {kParameter, kAccumulator}) {
      const std::string error = with(role, spec, nothing);
      EXPECT_NE(error.find("are for states; use blockN with steps of 16 bits"), std::string::npos) << error;
    }
    EXPECT_EQ(with(kMomentum, spec, nothing), "no error");
  }
  for (const char* spec : {"int8:row", "int8:rank1:step32"}) {
    const std::string name(spec, 8);
    const std::string in_momentum = with(kMomentum, spec, [](Policy& p) { p.accumulate_in_momentum = true; });
    EXPECT_NE(in_momentum.find("needs whole tensors, but gradients are accumulated"), std::string::npos)
        << in_momentum;
    const std::string fed = with(kMomentum, spec, [](Policy& p) { p.error_feedback = true; });
    EXPECT_NE(fed.find("memory.error_feedback = false"), std::string::npos) << fed;
    EXPECT_EQ(with(kMomentum, "int8:block64:step32", [](Policy& p) { p.error_feedback = true; }), "no error");
  }
  const std::string at_once = with(kVariance, "lin04:rank1", [](Policy& p) { p.apply_at_once = true; });
  EXPECT_NE(at_once.find("memory.accumulator = \"none\" updates part by part; use blockN"), std::string::npos)
      << at_once;
  Policy policy = make_policy("thu4");
  policy.min_elements = 0;
  const Spec kernel = specs_for(policy, {"c", {16, 3, 3, 5}})[kVariance];
  EXPECT_EQ(kernel.block, 45) << "a matrix of what a kernel puts out, and the rest";
  EXPECT_EQ(to_string(kernel), "lin04:rank1:step32:rn");
  policy.overrides = {change("v", kVariance, "lin04:rank1:rn")};
  EXPECT_EQ(to_string(specs_for(policy, {"v", {500}})[kVariance]), "lin04:block128:rn") << "a vector";
  EXPECT_THROW(specs_for(policy, {"w", {4, std::int64_t{1} << 31}}), UsageError);
}

// Two terms: the second has to be of something, in a unit that is there, and not be given back twice.
TEST(Policy, CompensationsThatCannotBeAreRefused) {
  const auto checked = [](const char* parameter, const char* compensation, bool feedback = false,
                          std::vector<PolicyOverride> overrides = {}) {
    Policy policy = make_policy("lpmm");
    policy.specs[kParameter] = parse_spec(parameter);
    policy.specs[kCompensation] = parse_spec(kCompensation, compensation);
    policy.error_feedback = feedback;
    policy.overrides = std::move(overrides);
    return error_of([&] { check_policy(policy, OptimizerConfig(), std::array{kMatrix, kBias}); });
  };
  for (const char* compensation : {"int8:block128:rn", "int4:sticky", "soft4", "de8:rn", "bf16", "none"}) {
    EXPECT_EQ(checked("int8:sticky", compensation), "no error");
    EXPECT_EQ(checked("bf16:rn", compensation), "no error");
  }
  EXPECT_EQ(checked("bf16:sr", "ulp8:rn"), "no error");
  EXPECT_EQ(checked("fp32", "none", true), "no error");
  EXPECT_NE(checked("fp32", "int8").find("fp32 parameters lose nothing"), std::string::npos);
  EXPECT_NE(checked("int8", "ulp8:rn").find("use bf16:rn, or a compensation in blocks"), std::string::npos);
  EXPECT_NE(checked("int8", "sqrt04").find("negative values"), std::string::npos);
  EXPECT_NE(checked("int8", "int8", true).find("a second time"), std::string::npos);
  for (const char* own : {"int8", "fp32"}) {
    const std::string why = checked("bf16:rn", "ulp8", false, {change("*weight", kParameter, own)});
    EXPECT_NE(why.find("of tensor layer1.weight"), std::string::npos) << why;
    EXPECT_NE(why.find("add compensation = \"none\" to its override"), std::string::npos) << why;
  }
  EXPECT_NE(checked("int8", "int4", false, {change("*weight", kParameter, "fp32")}).find("fp32 parameters"),
            std::string::npos);
  EXPECT_EQ(checked("bf16:rn", "ulp8", false,
                    {change("*weight", kParameter, "int8"), change("*weight", kCompensation, "none")}),
            "no error");
  EXPECT_EQ(checked("int8", "none", false, {change("*bias", kCompensation, "int8")}), "no error");
  EXPECT_EQ(checked("int8", "int4", false, {exempt("*weight")}), "no error");
  for (const Role role : {kParameter, kAccumulator, kMomentum, Role::kSlowMomentum}) {
    EXPECT_NE(
        checked("int8", "none", false, {change("*weight", role, "ulp8")}).find("share of what rounding"),
        std::string::npos);
  }
  EXPECT_THROW(parse_spec(kCompensation, "fp32"), UsageError);
  EXPECT_THROW(parse_spec(kParameter, "none"), UsageError);
  EXPECT_EQ(to_string(kCompensation, parse_spec(kCompensation, "none")), "none");
  EXPECT_EQ(to_string(kCompensation, parse_spec(kCompensation, "ulp8")), "ulp8:sr");
  EXPECT_EQ(to_string(kParameter, Spec{}), "fp32");
}

TEST(Policy, ShapesThatOverflowAreRefused) {
  EXPECT_EQ((TensorInfo{"a", {}}.elements()), 1);
  EXPECT_EQ((TensorInfo{"a", {3, 0, 5}}.elements()), 0);
  EXPECT_THROW((TensorInfo{"a", {std::int64_t{1} << 40, std::int64_t{1} << 40}}.elements()), UsageError);
  EXPECT_THROW((TensorInfo{"a", {-1, 4}}.elements()), UsageError);
}

TEST(TensorInfo, RulesSeeAMatrix) {
  const auto traits = [](std::vector<std::int64_t> shape) {
    const TensorTraits t = TensorInfo{"", std::move(shape)}.traits();
    return std::tuple(t.rows, t.columns, t.is_vector);
  };
  EXPECT_EQ(traits({5, 7}), std::tuple(5, 7, false));
  EXPECT_EQ(traits({16, 3, 3, 2}), std::tuple(16, 18, false)) << "a kernel: what it puts out, and the rest";
  EXPECT_EQ(traits({1, 7}), std::tuple(1, 7, false));
  EXPECT_EQ(traits({7}), std::tuple(1, 7, true));
  EXPECT_EQ(traits({}), std::tuple(1, 1, true));
  EXPECT_EQ(traits({0, 7}), std::tuple(0, 0, false));
}

}  // namespace
}  // namespace lpmm
