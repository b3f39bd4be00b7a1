#include "lpmm/memory/roles.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "kernels/orthogonal.h"
#include "lpmm/base/error.h"
#include "lpmm/base/text.h"

namespace lpmm {
namespace {

// Why gradients cannot be folded into the momentum; empty where they can.
std::string no_accumulation(const OptimizerConfig& config) {
  const RuleRow& row = rule_row(config.rule);
  const std::string_view why = row.no_accumulation(config.settings);
  if (!why.empty() && !row.may_accumulate) {
    std::vector<std::string_view> others;
    for (const std::string_view name : rule_names()) {
      if (rule_row(RuleName::find(name).value()).may_accumulate) others.push_back(name);
    }
    return fmt::format("{}; it takes optimizer.rule = {}", why, fmt::join(others, " or "));
  }
  if (!why.empty() || !clips(config)) return std::string(why);
  return "clipping needs the norm of the gradient by itself; it takes optimizer.clip_norm = 0 and "
         "optimizer.percentile_clip = 0";
}

}  // namespace

bool uses(const OptimizerConfig& config, const TensorTraits& tensor, Role state) {
  return rule_row(config.rule).uses(config.settings, tensor, state);
}
bool uses(const OptimizerConfig& config, Role state) {
  const TensorTraits kinds[] = {{2, 2, false}, {1, 2, true}};  // the kinds that rules tell apart
  return std::any_of(std::begin(kinds), std::end(kinds),
                     [&](const TensorTraits& tensor) { return uses(config, tensor, state); });
}

bool is_frozen(const OptimizerConfig& config, const std::string& tensor) {
  if (config.frozen) return true;
  bool frozen = false;
  for (const ParameterGroup& g : config.groups) {
    if (matches_pattern(g.pattern, tensor)) frozen = g.frozen;
  }
  return frozen;
}

bool has_role(const Policy& policy, const OptimizerConfig& config, const TensorInfo& tensor, Role role) {
  if (role == Role::kParameter) return true;
  if (is_frozen(config, tensor.name)) return false;
  if (role == Role::kCompensation) return has_compensation(specs_for(policy, tensor));
  if (role != Role::kAccumulator) return uses(config, tensor.traits(), role);
  return !folds_into_momentum(policy, config, tensor) && (!policy.apply_at_once || tensor.is_shared);
}

RowShares shares_of(const OptimizerConfig& config, const TensorInfo& tensor) {
  return rule_row(config.rule).shares(config.settings, tensor.traits());
}

std::int64_t values_of(const OptimizerConfig& config, const TensorInfo& tensor, Role role) {
  const std::int64_t values = tensor.values(role);
  return kRoleRows[role].extent == Extent::kRows ? shares_of(config, tensor).places(values) : values;
}

TensorPlan plan_tensor(const Policy& policy, const OptimizerConfig& config, const TensorInfo& tensor) {
  const RoleSpecs specs = specs_for(policy, tensor);
  TensorPlan plan{};
  for (const Role role : kEveryRole) {
    if (!has_role(policy, config, tensor, role)) continue;
    plan[role] = {specs[role], nullptr, nullptr, values_of(config, tensor, role)};
    if (kRoleRows[role].extent == Extent::kRows) plan[role]->shares = shares_of(config, tensor);
  }
  return plan;
}

void keep_own(std::span<TensorPlan> plans, const Shares& shares, int rank) {
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const int tensor = static_cast<int>(i);
    const std::int64_t own = shares.count(tensor, rank);
    for (const Role role : kEveryRole) {
      if (!plans[i][role] || role == Role::kAccumulator) continue;
      if (role == Role::kParameter && !shares.divides_parameter(tensor)) continue;
      // Values of rows belong to tensors that have one owner.
      if (is_per_element(role) || own == 0) plans[i][role]->elements = own;
    }
  }
}

std::optional<kernels::RoleView> plan_average(const Policy& policy, const OptimizerConfig& config,
                                              const TensorInfo& tensor) {
  if (policy.average == 0 || is_frozen(config, tensor.name)) return {};
  return kernels::RoleView{average_spec_for(policy, tensor), nullptr, nullptr, tensor.elements()};
}

double kept_average(double most, std::int64_t t) {
  return std::min(most, static_cast<double>(t - 1) / static_cast<double>(t + 8));
}

bool can_accumulate(const OptimizerConfig& config) {
  return no_accumulation(config).empty();
}

void check_momentum(const Policy& policy, const OptimizerConfig& config) {
  const RuleRow& row = rule_row(config.rule);
  if (policy.error_feedback && !row.no_feedback.empty()) {
    throw UsageError(fmt::format("memory.error_feedback is not for {}: {}; set memory.error_feedback = false",
                                 row.name, row.no_feedback));
  }
  if (policy.error_feedback && row.momentum_kept(config.settings) == 0) {
    throw UsageError(fmt::format(
        "memory.error_feedback brings rounding errors back through the momentum, and {} has none: "
        "set optimizer.{} above 0, or memory.error_feedback = false",
        row.name, row.momentum_setting));
  }
  if (const std::string why = no_accumulation(config); policy.accumulate_in_momentum && !why.empty()) {
    throw UsageError(
        fmt::format("memory.accumulator = \"momentum\" is not for {} as it is set: {}. Or give "
                    "memory.accumulator a spec, int8:block128:sr",
                    row.name, why));
  }
}

void check_slots(const Policy& policy, int microbatches, const Sharding& sharding) {
  const auto [slots, ranks, rank, stage] = sharding;
  if (stage != 1 && stage != 3) {
    throw UsageError(fmt::format(
        "ranks.stage = {}: it is 1 (states lie with who owns them) or 3 (parameters too)", stage));
  }
  if (slots < 1 || microbatches % slots != 0) {
    throw UsageError(
        fmt::format("ranks.slots = {} does not divide train.microbatches = {}: a slot has whole microbatches",
                    slots, microbatches));
  }
  if (ranks < 1 || slots % ranks != 0) {
    std::vector<int> divisors;
    for (int n = 1; n <= slots; ++n) {
      if (slots % n == 0) divisors.push_back(n);
    }
    throw UsageError(fmt::format("{} ranks do not divide ranks.slots = {}: use {}", ranks, slots,
                                 fmt::join(divisors, ", ")));
  }
  if (slots == 1) return;
  if (policy.accumulate_in_momentum) {
    throw UsageError(fmt::format(
        "memory.accumulator = \"momentum\" has one sum of gradients, but ranks.slots = {} needs one "
        "for each slot: give memory.accumulator a spec, soft4:block128:sr, or set ranks.slots = 1",
        slots));
  }
  if (policy.keeps_peaks) {
    throw UsageError(fmt::format(
        "watch.every = true keeps codes of every parameter in one place, which ranks.slots = {} divides: set "
        "watch.every = false, or ranks.slots = 1",
        slots));
  }
}

std::int64_t peak_bytes(const TensorInfo& tensor) {
  return code_bytes(kPeakFormat, tensor.elements());
}

int peaks_of(const Policy& policy, const OptimizerConfig& config, const TensorInfo& tensor) {
  if (!policy.keeps_peaks || is_frozen(config, tensor.name)) return 0;
  if (policy.apply_at_once && !tensor.is_shared) return 0;
  if (uses(config, tensor.traits(), Role::kRowVariance)) return 0;
  if (kernels::is_orthogonal(make_rule(config, tensor, peak_rate(config), 1, 1, false))) return 0;
  return uses(config, tensor.traits(), Role::kVariance) ? kPeaks : 1;
}

void check_peaks(const Policy& policy, const OptimizerConfig& config) {
  if (!policy.keeps_peaks) return;
  const auto refuse = [](const std::string& why, std::string_view instead) {
    throw UsageError(
        fmt::format("watch.every = true measures every update before it is made, but {}; set watch.every = "
                    "false, or {}",
                    why, instead));
  };
  if (policy.apply_at_once) {
    refuse("with memory.accumulator = \"none\" gradients are applied at once",
           "give memory.accumulator a spec, int8:block128:sr");
  }
  if (uses(config, TensorTraits{2, 2}, Role::kRowVariance)) {
    refuse(fmt::format("{} makes the variances of rows in the update", config.rule.text()),
           "choose another optimizer.rule");
  }
}

std::int64_t count_unseen(const Policy& policy, const OptimizerConfig& config,
                          std::span<const TensorInfo> tensors) {
  if (!policy.apply_at_once) return 0;
  return std::count_if(tensors.begin(), tensors.end(),
                       [&](const TensorInfo& t) { return !t.is_shared && !is_frozen(config, t.name); });
}

void check_at_once(const Policy& policy, const OptimizerConfig& config, int microbatches) {
  if (!policy.apply_at_once) return;
  const RuleRow& row = rule_row(config.rule);
  const auto refuse = [&](const std::string& why, const std::string& instead) {
    throw UsageError(fmt::format(
        "memory.accumulator = \"none\" updates with {} as soon as a gradient is known, but {}. Either "
        "{}, or give memory.accumulator a spec, int8:block128:sr",
        row.name, why, instead));
  };
  if (policy.accumulate_in_momentum) {
    refuse("gradients are accumulated in the momentum", "do not accumulate them there");
  }
  if (microbatches > 1) {
    refuse(fmt::format("the gradients of {} microbatches must be added up first", microbatches),
           "set train.microbatches = 1");
  }
  if (clips(config)) {
    refuse("clipping needs the norms of whole gradients first",
           "set optimizer.clip_norm = 0 and optimizer.percentile_clip = 0");
  }
  if (!row.needs_whole_tensors(config.settings)) return;
  for (const SettingRow& s : row.settings) {
    GivenSettings without = config.settings;
    without[s.key] = s.usual;
    if (row.needs_whole_tensors(without)) continue;
    refuse(fmt::format("optimizer.{} needs whole gradients of tensors first", s.key.text()),
           fmt::format("set optimizer.{} = {}", s.key.text(), s.usual));
  }
  refuse(fmt::format("{} needs whole gradients of tensors first", row.name), "choose another optimizer.rule");
}

bool folds_into_momentum(const Policy& policy, const OptimizerConfig& config, const TensorInfo& tensor) {
  return policy.accumulate_in_momentum && rule_row(config.rule).accumulates(tensor.traits());
}

double fold_weight(const OptimizerConfig& config, bool into_momentum, std::int64_t t, int microbatches) {
  if (!into_momentum) return 1.0 / microbatches;
  return rule_row(config.rule).accumulated_weight(config.settings, t, microbatches);
}

std::uint32_t fold_stream(bool into_momentum, int microbatch, int contribution) {
  const auto m = static_cast<std::uint32_t>(microbatch), c = static_cast<std::uint32_t>(contribution);
  return into_momentum ? noise_stream(Role::kMomentum, m + 1, c) : noise_stream(Role::kAccumulator, m, c);
}

}  // namespace lpmm
