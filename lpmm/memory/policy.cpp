#include "lpmm/memory/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kernels/formats/maps.h"
#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/memory/optimizer_config.h"

namespace lpmm {
namespace {

struct Resolved {
  RoleSpecs specs;
  std::string why_exempt;  // empty: it is not
};

// Returns the reason for an exemption, before overrides are applied.
std::string why_exempt_by_size(const Policy& policy, const TensorInfo& tensor) {
  if (tensor.shape.size() <= 1) return "one dimension";
  if (tensor.elements() >= policy.min_elements) return "";
  return fmt::format("fewer than memory.min_elements = {}", policy.min_elements);
}

Resolved resolve(const Policy& policy, const TensorInfo& tensor) {
  Resolved r{policy.specs, why_exempt_by_size(policy, tensor)};
  for (const Role role : kEveryRole) {
    if (tensor.fp32_states && is_state(role)) r.specs[role] = {};
  }
  for (const PolicyOverride& o : policy.overrides) {
    if (!matches_pattern(o.pattern, tensor.name)) continue;
    r.why_exempt = o.exempt ? fmt::format("memory.override \"{}\"", o.pattern) : "";
    for (const Role role : kEveryElementRole) {
      if (o.specs[role]) r.specs[role] = *o.specs[role];
    }
  }
  if (!r.why_exempt.empty()) r.specs = {};  // a default Codec is fp32
  for (Spec& spec : r.specs) spec = fit_spec(spec, tensor.traits());
  return r;
}

// Over so many steps that each one adds little to what is stored.
bool is_slow_average(Role role) {
  return role == Role::kVariance || role == Role::kSlowMomentum;
}

// `what` it is: "memory.momentum".
void check_spec(const Spec& spec, Role role, const std::string& what) {
  const bool unsigned_map = !is_signed(spec.format.map);
  const auto refuse = [&](const std::string& why, const std::string& instead) {
    throw UsageError(fmt::format("{} = \"{}\": {}; use {}", what, to_string(spec), why, instead));
  };
  const bool is_signed_role = kRoleRows[role].is_signed;
  if (is_signed_role && unsigned_map) {
    refuse("the role has negative values and the format has none",
           map_choices([](const MapRow& m) { return m.is_signed && m.map != Map::kUlp; }));
  }
  // e4m3 is what a variance of fp8 is, in torchao as elsewhere.
  const auto may_be_unsigned = [](const MapRow& m) {
    return !m.is_signed || (m.coding == Coding::kNumber && m.map != Map::kUlp) || m.map == Map::kE4m3;
  };
  if (spec.format.map == Map::kUlp && role != Role::kCompensation) {
    refuse("it is a share of what rounding a parameter can take",
           "another format, or give it as compensation");
  }
  if (!is_signed_role && !may_be_unsigned(row_of(spec.format.map))) {
    refuse("the role is never negative and the format spends a sign on it", map_choices(may_be_unsigned));
  }
  if (!can_round(spec.format.map, spec.rounding)) {
    refuse(fmt::format("{} rounds for 1 / sqrt of a value, and the format has 0", to_string(spec.rounding)),
           "sr");
  }
  if (role == Role::kAccumulator && spec.step_mode == StepMode::kSticky) {
    refuse("an accumulator's step starts afresh at every update", "moving");
  }
  if (spec.step_mode == StepMode::kSticky && !has_sticky_steps(spec.format)) {
    refuse("its step would be dropped when the block is written again", "moving");
  }
  if (!is_state(role) && divides_first(spec)) {
    refuse("steps of rows and steps in fp32 are for states", "blockN with steps of 16 bits");
  }
  if (is_slow_average(role) && spec.step_mode == StepMode::kSticky && spec.rounding == Rounding::kNearest) {
    refuse("nearest rounding with a sticky step freezes a slow average", "sr or ar, or moving");
  }
}

void check_average(const Spec& spec) {
  check_spec(spec, Role::kParameter, "memory.average");
  if (spec.format.map == Map::kFp32 || spec.rounding != Rounding::kNearest) return;
  throw UsageError(
      fmt::format("memory.average = \"{}\": nearest rounding takes back what a step adds to an average, "
                  "which stays where "
                  "it is; use sr or qr",
                  to_string(spec)));
}

// Steps of rows are chosen when all of a tensor's new values are known.
void check_whole(const Policy& policy, const Spec& spec, Role role, const std::string& what) {
  if (has_blocks(spec)) return;
  const auto refuse = [&](std::string_view why, std::string_view instead) {
    throw UsageError(fmt::format("{} = \"{}\": {} needs whole tensors, but {}; use {}", what, to_string(spec),
                                 scaling_name(spec), why, instead));
  };
  if (policy.apply_at_once) refuse("memory.accumulator = \"none\" updates part by part", "blockN");
  if (role != Role::kMomentum) return;
  if (policy.accumulate_in_momentum)
    refuse("gradients are accumulated in the momentum part by part", "blockN");
  if (policy.error_feedback)
    refuse("errors are fed back while it is stored", "blockN, or memory.error_feedback = false");
}

// The two terms of a parameter, of all tensors or, where it is named, of one that has specs of its own.
void check_compensation(const Policy& policy, const RoleSpecs& specs, const std::string& tensor) {
  if (!has_compensation(specs)) return;
  const Spec &parameter = specs[Role::kParameter], &compensation = specs[Role::kCompensation];
  const bool is_one = !tensor.empty();
  const auto refuse = [&](const std::string& why, std::string_view instead) {
    throw UsageError(fmt::format(
        "{}compensation = \"{}\"{}: {}; {}, or {}", is_one ? "" : "memory.", to_string(compensation),
        is_one ? fmt::format(" of tensor {}", tensor) : "", why, instead,
        is_one ? "add compensation = \"none\" to its override" : "use memory.compensation = \"none\""));
  };
  if (parameter.format.map == Map::kFp32)
    refuse("fp32 parameters lose nothing that could be kept", "pack them");
  if (compensation.format.map == Map::kUlp && parameter.format.map != Map::kBf16) {
    refuse(fmt::format("its unit is that of a bf16 number, and the parameter is {}",
                       to_string(parameter.format)),
           "use bf16:rn, or a compensation in blocks, int8:block128:rn");
  }
  if (policy.error_feedback) {
    refuse("error feedback would give back what it keeps a second time", "use memory.error_feedback = false");
  }
}

void check(const Policy& policy, std::span<const TensorInfo> tensors) {
  for (const Role r : kEveryElementRole) {
    const auto check_one = [&](const Spec& spec, const std::string& what) {
      check_spec(spec, r, what);
      check_whole(policy, spec, r, what);
    };
    check_one(policy.specs[r], fmt::format("memory.{}", to_string(r)));
    for (const PolicyOverride& o : policy.overrides) {
      if (o.specs[r]) check_one(*o.specs[r], fmt::format("override \"{}\", {}", o.pattern, to_string(r)));
    }
  }
  check_average(policy.average_spec);
  check_compensation(policy, policy.specs, "");
  for (const TensorInfo& t : tensors) check_compensation(policy, specs_for(policy, t), t.name);
  for (const PolicyOverride& o : policy.overrides) {
    const bool changes =
        std::any_of(o.specs.begin(), o.specs.end(), [](const auto& s) { return s.has_value(); });
    if (o.exempt == changes) {
      throw UsageError(fmt::format("override \"{}\" must either be exempt or give specs", o.pattern));
    }
    if (policy.accumulate_in_momentum && o.specs[Role::kAccumulator]) {
      throw UsageError(
          fmt::format("override \"{}\" gives an accumulator, but gradients are accumulated in "
                      "the momentum; give a momentum",
                      o.pattern));
    }
    if (!matches_any(o.pattern, tensors)) {
      throw UsageError(
          fmt::format("override \"{}\" matches no tensor{}", o.pattern, near_tensors(o.pattern, tensors)));
    }
    const bool has_accumulator = std::any_of(tensors.begin(), tensors.end(), [&](const TensorInfo& t) {
      return t.is_shared && matches_pattern(o.pattern, t.name);
    });
    if (policy.apply_at_once && o.specs[Role::kAccumulator] && !tensors.empty() && !has_accumulator) {
      throw UsageError(
          fmt::format("override \"{}\" gives an accumulator, but gradients are applied at "
                      "once, and only tied tensors may have one",
                      o.pattern));
    }
  }
}

}  // namespace

bool has_compensation(const RoleSpecs& specs) {
  return specs[Role::kCompensation].format.map != Map::kFp32;
}

Spec parse_spec(Role role, std::string_view text) {
  if (role != Role::kCompensation) return parse_spec(text);
  if (text == kNoCompensation) return {};
  const Spec spec = parse_spec(text);
  if (spec.format.map == Map::kFp32) {
    throw UsageError(
        "bad spec: a compensation of fp32 makes parameters larger than fp32; use fp32 parameters");
  }
  return spec;
}

std::string to_string(Role role, const Spec& spec) {
  if (role == Role::kCompensation && spec == Spec{}) return std::string(kNoCompensation);
  return to_string(spec);
}

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

std::int64_t TensorInfo::values(Role role) const {
  const Extent extent = kRoleRows[role].extent;
  const std::int64_t all = elements();
  if (extent == Extent::kElements || shape.size() <= 1) return extent == Extent::kRows ? 1 : all;
  const auto first = std::find_if(shape.begin(), shape.end() - 2, [](std::int64_t e) { return e != 1; });
  return extent == Extent::kRows ? *first : *first == 0 ? 0 : all / *first;
}

TensorTraits TensorInfo::traits() const {
  if (shape.size() <= 1) return {1, elements(), true};
  const std::int64_t rows = shape.front();
  return {rows, rows == 0 ? 0 : elements() / rows, false, kind == TensorKind::kHidden, parts, heads};
}

void set_rounding(Policy& policy, Rounding rounding) {
  const auto turn = [&](Spec& spec, Role role) {
    if (spec.format.map == Map::kFp32) return;
    spec.rounding = rounding;
    if (rounding == Rounding::kNearest && is_slow_average(role)) {
      spec.step_mode = StepMode::kMoving;
    }
  };
  for (const Role r : kEveryElementRole) {
    turn(policy.specs[r], r);
    for (PolicyOverride& o : policy.overrides) {
      if (o.specs[r]) turn(*o.specs[r], r);
    }
  }
}

Spec average_spec_for(const Policy& policy, const TensorInfo& tensor) {
  return is_exempt(policy, tensor) ? Spec{} : fit_spec(policy.average_spec, tensor.traits());
}

RoleSpecs specs_for(const Policy& policy, const TensorInfo& tensor) {
  return resolve(policy, tensor).specs;
}

bool is_exempt(const Policy& policy, const TensorInfo& tensor) {
  return !why_exempt(policy, tensor).empty();
}

std::string why_exempt(const Policy& policy, const TensorInfo& tensor) {
  return resolve(policy, tensor).why_exempt;
}

bool matches_any(std::string_view pattern, std::span<const TensorInfo> tensors) {
  return tensors.empty() || std::any_of(tensors.begin(), tensors.end(),
                                        [&](const auto& t) { return matches_pattern(pattern, t.name); });
}

std::string near_tensors(std::string_view pattern, std::span<const TensorInfo> tensors) {
  std::vector<std::string_view> names;
  for (const TensorInfo& t : tensors) names.push_back(t.name);
  return did_you_mean_or_some(pattern, names);
}

void check_policy(const Policy& policy, const OptimizerConfig& optimizer,
                  std::span<const TensorInfo> tensors) {
  try {
    check(policy, tensors);
  } catch (const UsageError& e) {
    throw UsageError(fmt::format("illegal policy for {}: {}", optimizer.rule.text(), e.what()));
  }
}

}  // namespace lpmm
