#include "lpmm/memory/optimizer_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"

namespace lpmm {
namespace {

void require(bool ok, const char* name, double value, const char* range) {
  if (!ok) throw UsageError(fmt::format("optimizer: {} is {}, but must be {}", name, value, range));
}

}  // namespace

double schedule_factor(const ScheduleConfig& schedule, std::int64_t step, std::int64_t total) {
  const auto warmup = static_cast<double>(std::max<std::int64_t>(schedule.warmup_steps, 0));
  const auto at = static_cast<double>(step);
  if (at < warmup) return (at + 1) / (warmup + 1);
  const double length = static_cast<double>(total) - warmup;
  const double progress = length > 0 ? std::clamp((at - warmup) / length, 0.0, 1.0) : 1.0;
  const double f = schedule.final_scale;
  switch (schedule.kind) {
    case ScheduleKind::kConstant:
      return 1;
    case ScheduleKind::kStep: {
      const auto passed =
          std::count_if(schedule.milestones.begin(), schedule.milestones.end(),
                        [&](double milestone) { return at >= milestone * static_cast<double>(total); });
      return std::pow(schedule.gamma, static_cast<double>(passed));
    }
    case ScheduleKind::kCosine:
      return f + (1 - f) * (1 + std::cos(std::numbers::pi * progress)) / 2;
    case ScheduleKind::kLinear:
      return 1 - (1 - f) * progress;
    case ScheduleKind::kInverseSquareRoot: {
      const double scale = std::max(warmup, 1.0);
      return std::sqrt(scale / (scale + at - warmup));
    }
  }
  return 1;
}

void check_optimizer(const OptimizerConfig& c) {
  const auto finite_from_zero = [](double x) { return std::isfinite(x) && x >= 0; };
  const auto below_one = [](double x) { return x >= 0 && x < 1; };
  require(finite_from_zero(c.learning_rate), "learning_rate", c.learning_rate, "0 or more");
  require(finite_from_zero(c.weight_decay), "weight_decay", c.weight_decay, "0 or more");
  require(below_one(c.momentum), "momentum", c.momentum, "in [0, 1)");
  require(c.dampening >= 0 && c.dampening <= 1, "dampening", c.dampening, "in [0, 1]");
  require(!c.nesterov || (c.momentum > 0 && c.dampening == 0), "nesterov", 1,
          "off, or used with a momentum and no dampening");
  require(below_one(c.beta1), "beta1", c.beta1, "in [0, 1)");
  require(below_one(c.beta2), "beta2", c.beta2, "in [0, 1)");
  require(std::isfinite(c.epsilon) && c.epsilon > 0, "epsilon", c.epsilon, "above 0");
  require(finite_from_zero(c.clip_norm), "clip_norm", c.clip_norm, "0 (none) or more");
  for (const ParameterGroup& g : c.groups) {
    require(!g.pattern.empty(), "group.pattern", 0, "a pattern on tensor names");
    require(finite_from_zero(g.learning_rate_scale), "group.learning_rate_scale", g.learning_rate_scale,
            "0 or more");
    require(std::isfinite(g.weight_decay), "group.weight_decay", g.weight_decay,
            "0 or more, or negative for the optimizer's own");
  }
}

void check_groups(const OptimizerConfig& config, std::span<const TensorInfo> tensors) {
  for (const ParameterGroup& g : config.groups) {
    if (matches_any(g.pattern, tensors)) continue;
    throw UsageError(fmt::format("optimizer.group: \"{}\" matches no tensor; the nearest is \"{}\"",
                                 g.pattern, nearest_tensor(g.pattern, tensors)));
  }
  const auto frozen = [&](const TensorInfo& t) { return is_frozen(config, t.name); };
  if (!config.frozen && !tensors.empty() && std::all_of(tensors.begin(), tensors.end(), frozen)) {
    throw UsageError("optimizer.group: all tensors are frozen, nothing is left to train");
  }
}

Rule make_rule(const OptimizerConfig& c, const std::string& tensor, double learning_rate, std::int64_t t,
               double clip, bool error_feedback, double last_learning_rate) {
  constexpr double kLeastMoved = 1e-30;  // its inverse is an fp32 number
  constexpr double kLeastKept = 1e-30;   // above 0, which would mean a rule without momentum
  double decay = c.weight_decay, scale = 1;
  for (const ParameterGroup& g : c.groups) {
    if (!matches_pattern(g.pattern, tensor)) continue;
    scale = g.learning_rate_scale;
    decay = g.weight_decay < 0 ? c.weight_decay : g.weight_decay;
  }
  const double lr = learning_rate * scale;
  const bool rises = error_feedback && learning_rate > last_learning_rate;
  const double kept =
      rises ? std::max(last_learning_rate / learning_rate, kLeastKept) : 1;  // of the momentum
  if (c.rule == RuleName::kSgd) {
    Sgd sgd;
    sgd.learning_rate = static_cast<float>(lr);
    sgd.momentum = static_cast<float>(c.momentum * kept);
    sgd.gradient_weight = t <= 1 ? 1.0F : static_cast<float>(1 - c.dampening);
    sgd.coupled_decay = c.decoupled_decay ? 0.0F : static_cast<float>(decay);
    sgd.decay_factor = c.decoupled_decay ? static_cast<float>(1 - lr * decay) : 1.0F;
    sgd.nesterov = c.nesterov ? 1.0F : 0.0F;
    sgd.gradient_scale = static_cast<float>(clip);
    // A change of the momentum now moves the parameter by lr * mu / (1 - mu) of it later.
    const double moved = lr * c.momentum / (1 - c.momentum) * (c.nesterov ? c.momentum : 1);
    if (error_feedback && moved > kLeastMoved) sgd.feedback = static_cast<float>(1 / moved);
    return sgd;
  }
  const bool coupled = c.rule == RuleName::kAdam;
  const auto updates = static_cast<double>(t);
  Adam adam;
  adam.step_size = static_cast<float>(lr / (1 - std::pow(c.beta1, updates)));
  adam.beta1 = static_cast<float>(c.beta1 * kept);
  adam.one_minus_beta1 = static_cast<float>(1 - c.beta1);
  adam.beta2 = static_cast<float>(c.beta2);
  adam.one_minus_beta2 = static_cast<float>(1 - c.beta2);
  adam.variance_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(c.beta2, updates)));
  adam.epsilon = static_cast<float>(c.epsilon);
  adam.coupled_decay = coupled ? static_cast<float>(decay) : 0.0F;
  adam.decay_factor = coupled ? 1.0F : static_cast<float>(1 - lr * decay);
  adam.gradient_scale = static_cast<float>(clip);
  const double moved = lr / (1 - std::pow(c.beta1, updates)) * c.beta1 / (1 - c.beta1);
  if (error_feedback && moved > kLeastMoved) adam.feedback = static_cast<float>(1 / moved);
  return adam;
}

bool uses_momentum(const OptimizerConfig& config) {
  return config.rule != RuleName::kSgd || config.momentum > 0;
}

bool uses_variance(const OptimizerConfig& config) {
  return config.rule != RuleName::kSgd;
}

bool is_frozen(const OptimizerConfig& config, const std::string& tensor) {
  if (config.frozen) return true;
  bool frozen = false;
  for (const ParameterGroup& g : config.groups) {
    if (matches_pattern(g.pattern, tensor)) frozen = g.frozen;
  }
  return frozen;
}

bool has_role(const Policy& policy, const OptimizerConfig& config, const std::string& tensor, Role role) {
  if (role != Role::kParameter && is_frozen(config, tensor)) return false;
  if (role == Role::kAccumulator) return !policy.accumulate_in_momentum;
  if (role == Role::kMomentum) return uses_momentum(config);
  return role != Role::kVariance || uses_variance(config);
}

void check_momentum(const Policy& policy, const OptimizerConfig& config) {
  if (policy.error_feedback && (config.rule == RuleName::kSgd ? config.momentum : config.beta1) == 0) {
    throw UsageError(
        "memory.error_feedback brings rounding errors back through the momentum: set optimizer.momentum, or "
        "beta1 of adam, or turn it off");
  }
  if (!policy.accumulate_in_momentum || can_accumulate(config)) return;
  throw UsageError(fmt::format(
      "memory.accumulator is \"momentum\", which takes {}; or give the accumulator a spec of its own",
      config.rule != RuleName::kSgd || config.momentum < kLeastMomentum
          ? fmt::format("optimizer.rule = \"sgd\" with a momentum of {} or more", kLeastMomentum)
      : config.nesterov ? "optimizer.nesterov = false"
                        : "optimizer.clip_norm = 0"));
}

bool can_accumulate(const OptimizerConfig& config) {
  return config.rule == RuleName::kSgd && config.momentum >= kLeastMomentum && !config.nesterov &&
         config.clip_norm == 0;
}

double fold_weight(const Policy& policy, const OptimizerConfig& config, std::int64_t t, int microbatches) {
  if (!policy.accumulate_in_momentum) return 1.0 / microbatches;
  return (t <= 1 ? 1 : 1 - config.dampening) / (microbatches * config.momentum);
}

std::uint32_t fold_stream(const Policy& policy, int microbatch, int contribution) {
  const auto m = static_cast<std::uint32_t>(microbatch), c = static_cast<std::uint32_t>(contribution);
  return policy.accumulate_in_momentum ? noise_stream(Role::kMomentum, m + 1, c)
                                       : noise_stream(Role::kAccumulator, m, c);
}

}  // namespace lpmm
