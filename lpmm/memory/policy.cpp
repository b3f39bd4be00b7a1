#include "lpmm/memory/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kernels/maps.h"
#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/memory/optimizer_config.h"
#include "lpmm/memory/roles.h"

namespace lpmm {
namespace {

struct Preset {
  std::string_view name;
  RoleArray<std::string_view> specs;  // parameter, accumulator, momentum, variance
  bool feedback_with_sgd = false;     // 8-bit parameters lose in long runs of SGDM, with Adam nothing
  // Where gradients can be accumulated in the momentum (not with Nesterov or clipping), they are, with these
  // and error feedback; empty: never.
  std::string_view sgd_parameter = {}, sgd_momentum = {};
};

// Everything the presets decide. Everything included, a parameter takes 28.77 (lpmm), 24.91
// (lpmm-compact), 16.95 (lpmm-min) and 12.81 (lpmm-nano) bits with SGDM and ResNet-20, 36.46, 32.59, 20.60
// and 16.61 with AdamW and GPT-2 124M.
constexpr std::array<Preset, 6> kPresets = {{
    {"fp32", {"fp32", "fp32", "fp32", "fp32"}},
    {"states8", {"fp32", "fp32", "de8:block256:rn", "ude8:block256:rn"}},
    {"lpmm",
     {"int12:block256:sr:sticky", "int8:block128:sr", "int8:block256:sr", "sqrt08:block128:sr:sticky"}},
    {"lpmm-compact",
     {"int8:block128:sr:sticky", "int8:block128:sr", "int8:block128:sr", "sqrt08:block128:sr:sticky"},
     true},
    {"lpmm-min",
     {"int8:block128:sr:sticky", "soft4:block128:sr", "soft4:block128:sr", "sqrt04:block128:sr:sticky"},
     true},
    {"lpmm-nano",
     {"int7:block128:qr:sticky", "soft3:block128:sr", "soft4:block128:qr", "sqrt02:block128:sr"},
     false,
     "int7:block128:sr:sticky",
     "int5:block64:sr"},
}};

const Preset& find_preset(std::string_view preset) {
  const auto found =
      std::find_if(kPresets.begin(), kPresets.end(), [&](const Preset& p) { return p.name == preset; });
  if (found == kPresets.end()) {
    throw UsageError(fmt::format("unknown preset \"{}\"; did you mean \"{}\"? There are {}", preset,
                                 nearest_name(preset, preset_names()), join(preset_names())));
  }
  return *found;
}

struct Resolved {
  RoleSpecs specs;
  bool exempt;
};

Resolved resolve(const Policy& policy, const TensorInfo& tensor) {
  Resolved r{policy.specs, tensor.shape.size() <= 1};
  for (const PolicyOverride& o : policy.overrides) {
    if (!matches_pattern(o.pattern, tensor.name)) continue;
    r.exempt = o.exempt;
    for (std::size_t role = 0; role < kRoles; ++role) {
      if (o.specs[role]) r.specs[role] = *o.specs[role];
    }
  }
  if (policy.accumulate_in_momentum) {
    r.specs[Role::kAccumulator] = r.specs[Role::kMomentum];
  }
  if (r.exempt) r.specs = {};  // a default Codec is fp32
  return r;
}

void check_spec(const Spec& spec, Role role, const std::string& where) {
  const bool unsigned_map = !is_signed(spec.format.map);
  const auto refuse = [&](const std::string& why, const char* instead) {
    throw UsageError(fmt::format("illegal policy: {} \"{}\" of {}: {}; use {}", to_string(role),
                                 to_string(spec), where, why, instead));
  };
  if (role != Role::kVariance && unsigned_map) {
    refuse("the role has negative values and the format has none", "int, de, soft, bf16 or fp32");
  }
  if (role == Role::kVariance && !unsigned_map && is_packed(spec.format)) {
    refuse("the role is never negative and the format spends a sign on it",
           "ude, de0, lin0, sqrt0, bf16 or fp32");
  }
  if (role == Role::kAccumulator && spec.step_mode == StepMode::kSticky) {
    refuse("an accumulator's step starts afresh at every update", "moving");
  }
  if (spec.step_mode == StepMode::kSticky && !has_sticky_steps(spec.format)) {
    refuse("its step would be dropped when the block is written again", "moving");
  }
  if (role == Role::kVariance && spec.step_mode == StepMode::kSticky && spec.rounding == Rounding::kNearest) {
    refuse("nearest rounding with a sticky step freezes a slow average", "sr, or moving");
  }
}

}  // namespace

std::int64_t TensorInfo::elements() const {
  std::int64_t n = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || (extent > 0 && n > std::numeric_limits<std::int64_t>::max() / extent)) {
      throw UsageError(fmt::format("tensor {}: its shape is negative or too large", name));
    }
    n *= extent;
  }
  return n;
}

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
  std::transform(found.specs.begin(), found.specs.end(), policy.specs.begin(), parse_spec);
  return policy;
}

Policy make_policy(std::string_view preset, const OptimizerConfig& optimizer) {
  const Preset& found = find_preset(preset);
  Policy policy = make_policy(preset);
  policy.error_feedback =
      found.feedback_with_sgd && optimizer.rule == "sgd" && uses(optimizer, Role::kMomentum);
  if (!found.sgd_momentum.empty() && can_accumulate(optimizer)) {
    policy.specs[Role::kParameter] = parse_spec(found.sgd_parameter);
    policy.specs[Role::kMomentum] = parse_spec(found.sgd_momentum);
    policy.accumulate_in_momentum = policy.error_feedback = true;
  }
  return policy;
}

void set_rounding(Policy& policy, Rounding rounding) {
  const auto turn = [&](Spec& spec, std::size_t role) {
    if (!is_packed(spec.format) && spec.format.map != Map::kBf16) return;
    spec.rounding = rounding;
    if (rounding == Rounding::kNearest && role == static_cast<std::size_t>(Role::kVariance)) {
      spec.step_mode = StepMode::kMoving;
    }
  };
  for (std::size_t r = 0; r < kRoles; ++r) {
    turn(policy.specs[r], r);
    for (PolicyOverride& o : policy.overrides) {
      if (o.specs[r]) turn(*o.specs[r], r);
    }
  }
}

RoleSpecs specs_for(const Policy& policy, const TensorInfo& tensor) {
  return resolve(policy, tensor).specs;
}

bool is_exempt(const Policy& policy, const TensorInfo& tensor) {
  return resolve(policy, tensor).exempt;
}

bool matches_any(std::string_view pattern, std::span<const TensorInfo> tensors) {
  return tensors.empty() || std::any_of(tensors.begin(), tensors.end(),
                                        [&](const auto& t) { return matches_pattern(pattern, t.name); });
}

std::string nearest_tensor(std::string_view pattern, std::span<const TensorInfo> tensors) {
  std::vector<std::string_view> names;
  for (const TensorInfo& t : tensors) names.push_back(t.name);
  return std::string(nearest_name(pattern, names));
}

void check_policy(const Policy& policy, std::span<const TensorInfo> tensors) {
  for (std::size_t r = 0; r < kRoles; ++r) {
    check_spec(policy.specs[r], static_cast<Role>(r), fmt::format("preset {}", policy.preset));
    for (const PolicyOverride& o : policy.overrides) {
      if (o.specs[r])
        check_spec(*o.specs[r], static_cast<Role>(r), fmt::format("override \"{}\"", o.pattern));
    }
  }
  for (const PolicyOverride& o : policy.overrides) {
    const bool changes =
        std::any_of(o.specs.begin(), o.specs.end(), [](const auto& s) { return s.has_value(); });
    if (o.exempt == changes) {
      throw UsageError(
          fmt::format("illegal policy: override \"{}\" must either be exempt or give specs", o.pattern));
    }
    if (policy.accumulate_in_momentum && o.specs[Role::kAccumulator]) {
      throw UsageError(fmt::format(
          "illegal policy: override \"{}\" gives an accumulator, but gradients are accumulated in "
          "the momentum; give a momentum",
          o.pattern));
    }
    if (matches_any(o.pattern, tensors)) continue;
    throw UsageError(fmt::format("illegal policy: override \"{}\" matches no tensor; the nearest is \"{}\"",
                                 o.pattern, nearest_tensor(o.pattern, tensors)));
  }
}

}  // namespace lpmm
