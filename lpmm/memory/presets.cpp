// The named policies.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kernels/formats/presets.h"
#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/memory/optimizer_config.h"
#include "lpmm/memory/policy.h"
#include "lpmm/memory/roles.h"
#include "lpmm/memory/rules.h"

namespace lpmm {
namespace {

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
    policy.specs[role] = parse_spec(role, found.spec(role));
  }
  const bool is_plain = policy.specs[Role::kParameter].format.map == Map::kFp32;
  policy.average_spec = parse_spec(is_plain ? kPlainAverageSpec : kAverageSpec);
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
