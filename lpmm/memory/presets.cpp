// The named policies.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/memory/optimizer_config.h"
#include "lpmm/memory/policy.h"
#include "lpmm/memory/roles.h"
#include "lpmm/memory/rules.h"

namespace lpmm {
namespace {

struct Preset {
  std::string_view name;
  // Parameter, accumulator, momentum, variance, slow momentum, compensation.
  std::array<std::string_view, kElementRoles> specs;
  bool feedback_with_sgd = false;  // 8-bit parameters lose in long runs of SGDM, with Adam nothing
  std::int64_t min_elements = 0;
  // Where gradients can be accumulated in the momentum (not with Nesterov or clipping), they are, with these
  // and error feedback; empty: never.
  std::string_view sgd_parameter = {}, sgd_momentum = {};
  std::string_view sum_variance = {};  // of rules whose variance is a sum; empty: as of others
};

// States as another library or paper has them, to compare with: weights and gradients are fp32, and a slow
// momentum is stored as the other one.
constexpr Preset peer(std::string_view name, std::string_view momentum, std::string_view variance,
                      std::int64_t min_elements) {
  return {name, {"fp32", "fp32", momentum, variance, momentum, "none"}, false, min_elements};
}

// Everything the presets decide. lpmm/memory/README.md says whose the peers are. Everything included,
// a parameter takes 28.77 (lpmm), 24.91 (lpmm-compact), 16.95 (lpmm-min) and 12.81 (lpmm-nano) bits with SGDM
// and ResNet-20, 36.46, 32.59, 20.60 and 16.61 with AdamW and GPT-2 124M.
constexpr std::array<Preset, 16> kPresets = {{
    {kPlainPreset, {"fp32", "fp32", "fp32", "fp32", "fp32", "none"}},
    peer("bnb8", "de8:block256:step32:rn", "ude8:block256:step32:rn", 4096),
    peer("states8", "de8:block256:rn", "ude8:block256:rn", 0),
    peer("bnb8-2048", "de8:block2048:step32:rn", "ude8:block2048:step32:rn", 4096),
    peer("ao-fp8", "e4m3:block256:step32:rn:floored", "e4m3:block256:step32:rn:floored", 4096),
    peer("adam-mini8", "int8:block256:step32:sr", "fp32", 0),
    peer("muon8", "int8:block2048:step32:rn", "fp32", 0),
    peer("thu4", "de4:block128:step32:rn", "lin04:rank1:step32:rn", 4097),
    peer("thu4-factor", "de4:block128:step32:rn", "lin04:block128:step32:rn", 4097),
    peer("ao4", "de4:block128:step32:rn:floored", "lin04:block128:step32:rn:floored", 4096),
    peer("solo2", "de4:block128:step32:rn", "log02:block128:sr", 128),
    {"flash",
     {"bf16:rn", "bf16:rn", "soft8:block64:step32:rn", "sqrt8:block64:step32:rn", "soft8:block64:step32:rn",
      "ulp8:rn"}},
    {"lpmm",
     {"int12:block256:sr:sticky", "int8:block128:sr", "int8:block256:sr", "sqrt08:block128:sr:sticky",
      "int12:block256:qr:sticky", "none"}},
    {.name = "lpmm-compact",
     .specs = {"int8:block128:sr:sticky", "int8:block128:sr", "int8:block128:sr", "sqrt08:block128:sr:sticky",
               "int12:block128:qr:sticky", "none"},
     .feedback_with_sgd = true},
    {.name = "lpmm-min",
     .specs = {"int8:block128:sr:sticky", "soft4:block128:sr", "soft4:block128:sr",
               "sqrt04:block128:ar:sticky", "int12:block128:qr:sticky", "none"},
     .feedback_with_sgd = true,
     .sum_variance = "sqrt04:block128:sr:sticky"},
    {.name = "lpmm-nano",
     .specs = {"int7:block128:qr:sticky", "soft3:block128:sr", "soft4:block128:qr", "sqrt02:block128:sr",
               "int12:block128:qr:sticky", "none"},
     .sgd_parameter = "int7:block128:sr:sticky",
     .sgd_momentum = "int5:block64:sr",
     .sum_variance = "sqrt04:block128:sr:sticky"},
}};
static_assert(std::all_of(kPresets.begin(), kPresets.end(),
                          [](const Preset& p) {
                            return std::none_of(p.specs.begin(), p.specs.end(),
                                                [](std::string_view spec) { return spec.empty(); });
                          }),
              "every preset has a spec for every role");

const Preset& find_preset(std::string_view preset) {
  const auto found =
      std::find_if(kPresets.begin(), kPresets.end(), [&](const Preset& p) { return p.name == preset; });
  if (found == kPresets.end()) {
    throw UsageError(fmt::format("unknown preset \"{}\": there are {}{}", preset, join(preset_names()),
                                 did_you_mean(nearest_name(preset, preset_names()))));
  }
  return *found;
}

}  // namespace

std::span<const std::string_view> preset_names() {
  static constexpr auto kNames = [] {
    std::array<std::string_view, kPresets.size()> names;
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = kPresets[i].name;
    return names;
  }();
  return kNames;
}

Policy make_policy(std::string_view preset) {
  const Preset& found = find_preset(preset);
  Policy policy;
  policy.preset = preset;
  policy.min_elements = found.min_elements;
  for (const Role role : kEveryElementRole) {
    policy.specs[role] = parse_spec(role, found.specs[static_cast<std::size_t>(role)]);
  }
  return policy;
}

Policy make_policy(std::string_view preset, const OptimizerConfig& optimizer) {
  const Preset& found = find_preset(preset);
  Policy policy = make_policy(preset);
  policy.error_feedback =
      found.feedback_with_sgd && optimizer.rule == RuleName::of<Sgd>() && uses(optimizer, Role::kMomentum);
  if (!found.sgd_momentum.empty() && optimizer.rule == RuleName::of<Sgd>() && can_accumulate(optimizer)) {
    policy.specs[Role::kParameter] = parse_spec(found.sgd_parameter);
    policy.specs[Role::kMomentum] = parse_spec(found.sgd_momentum);
    policy.accumulate_in_momentum = policy.error_feedback = true;
  }
  if (!found.sum_variance.empty() && rule_row(optimizer.rule).variance_grows) {
    policy.specs[Role::kVariance] = parse_spec(found.sum_variance);
  }
  return policy;
}

}  // namespace lpmm
