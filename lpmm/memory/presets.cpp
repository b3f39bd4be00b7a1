// The named policies.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/memory/optimizer_config.h"
#include "lpmm/memory/policy.h"
#include "lpmm/memory/roles.h"

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
};

// Everything the presets decide. bnb8 to flash keep memory as others do, so that one can compare:
// bitsandbytes (bnb8-2048: before version 0.44), the fused 4-bit AdamW of thu-ml, that of torchao, and
// FlashOptim. Everything included, a parameter takes 28.77 (lpmm), 24.91 (lpmm-compact), 16.95 (lpmm-min)
// and 12.81 (lpmm-nano) bits with SGDM and ResNet-20, 36.46, 32.59, 20.60 and 16.61 with AdamW and GPT-2
// 124M.
constexpr std::array<Preset, 11> kPresets = {{
    {kPlainPreset, {"fp32", "fp32", "fp32", "fp32", "fp32", "none"}},
    {"bnb8", {"fp32", "fp32", "de8:block256:rn", "ude8:block256:rn", "de8:block256:rn", "none"}, false, 4096},
    {"states8", {"fp32", "fp32", "de8:block256:rn", "ude8:block256:rn", "de8:block256:rn", "none"}},
    {"bnb8-2048",
     {"fp32", "fp32", "de8:block2048:rn", "ude8:block2048:rn", "de8:block2048:rn", "none"},
     false,
     4096},
    {"thu4",
     {"fp32", "fp32", "de4:block128:rn", "lin04:block128:rn", "de4:block128:rn", "none"},
     false,
     4097},
    {"ao4", {"fp32", "fp32", "de4:block128:rn", "lin04:block128:rn", "de4:block128:rn", "none"}, false, 4096},
    {"flash", {"bf16:rn", "bf16:rn", "soft8:block64:rn", "sqrt08:block64:rn", "soft8:block64:rn", "ulp8:rn"}},
    {"lpmm",
     {"int12:block256:sr:sticky", "int8:block128:sr", "int8:block256:sr", "sqrt08:block128:sr:sticky",
      "int12:block256:qr:sticky", "none"}},
    {"lpmm-compact",
     {"int8:block128:sr:sticky", "int8:block128:sr", "int8:block128:sr", "sqrt08:block128:sr:sticky",
      "int12:block128:qr:sticky", "none"},
     true},
    {"lpmm-min",
     {"int8:block128:sr:sticky", "soft4:block128:sr", "soft4:block128:sr", "sqrt04:block128:sr:sticky",
      "int12:block128:qr:sticky", "none"},
     true},
    {"lpmm-nano",
     {"int7:block128:qr:sticky", "soft3:block128:sr", "soft4:block128:qr", "sqrt02:block128:sr",
      "int12:block128:qr:sticky", "none"},
     false,
     0,
     "int7:block128:sr:sticky",
     "int5:block64:sr"},
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
    throw UsageError(fmt::format("unknown preset \"{}\"; did you mean \"{}\"? There are {}", preset,
                                 nearest_name(preset, preset_names()), join(preset_names())));
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
  return policy;
}

}  // namespace lpmm
