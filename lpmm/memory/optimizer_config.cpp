#include "lpmm/memory/optimizer_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/memory/clipping.h"
#include "lpmm/memory/roles.h"

namespace lpmm {
namespace {

void require(bool ok, std::string_view name, double value, std::string_view range) {
  if (!ok) throw UsageError(fmt::format("optimizer.{} is {}, but must be {}", name, value, range));
}

}  // namespace

double peak_rate(const OptimizerConfig& config) {
  return config.learning_rate.value_or(rule_row(config.rule).learning_rate);
}

void check_rate(double learning_rate) {
  if (learning_rate >= 0 && std::isfinite(learning_rate)) return;
  throw UsageError(
      fmt::format("the learning rate of a step is {}, but must be a number from 0 on", learning_rate));
}

bool has_setting(const OptimizerConfig& config, SettingKey key) {
  return find_setting(rule_row(config.rule), key) != nullptr;
}

std::string why_no_setting(const std::string& setting, SettingKey key, RuleName rule,
                           const std::string& rule_text) {
  std::vector<std::string_view> own;
  for (const SettingRow& s : rule_row(rule).settings) own.push_back(s.key.text());
  return fmt::format("{} is no setting of {}, which has {}; it is one of {}{}", setting, rule_text, join(own),
                     join(rules_with(key)), did_you_mean(nearest_name(key.text(), own)));
}

double setting(const OptimizerConfig& config, SettingKey key) {
  const SettingRow* const found = find_setting(rule_row(config.rule), key);
  if (found == nullptr) {
    throw std::logic_error(fmt::format("{} has no setting {}", config.rule.text(), key.text()));
  }
  const double* given = config.settings.find(key.text());
  return given != nullptr ? *given : found->usual;
}

void check_optimizer(const OptimizerConfig& c) {
  const double rate = peak_rate(c);
  require(kFromZero.holds(rate), "learning_rate", rate, kFromZero.text);
  require(kFromZero.holds(c.weight_decay), "weight_decay", c.weight_decay, kFromZero.text);
  require(kFromZero.holds(c.clip_norm), "clip_norm", c.clip_norm, kFromZero.text);
  require(c.percentile_clip >= 0 && c.percentile_clip < GradientHistory::kLength, "percentile_clip",
          c.percentile_clip, "0 (none) to 99");
  const auto require_product = [](const char* name, double product) {
    require(product <= kMostScalar, name, product, "at most 1e30");
  };
  require_product("learning_rate times optimizer.weight_decay", rate * c.weight_decay);
  const RuleRow& row = rule_row(c.rule);
  for (const GivenSettings::Given& given : c.settings.all()) {
    if (has_setting(c, given.key)) continue;
    throw UsageError(why_no_setting(fmt::format("optimizer.{}", given.key.text()), given.key, c.rule,
                                    std::string(row.name)));
  }
  for (const SettingRow& s : row.settings) {
    require(s.range.holds(setting(c, s.key)), s.key.text(), setting(c, s.key),
            fmt::format("{} with {}", s.range.text, row.name));
  }
  if (const std::string_view problem = row.problem(c.settings); !problem.empty()) {
    throw UsageError(fmt::format("optimizer.{} (optimizer.rule is {})", problem, row.name));
  }
  for (const ParameterGroup& g : c.groups) {
    if (g.pattern.empty()) {
      throw UsageError("optimizer.group.pattern is empty, but must be a pattern on tensor names");
    }
    require(kFromZero.holds(g.learning_rate_scale), "group.learning_rate_scale", g.learning_rate_scale,
            kFromZero.text);
    require(g.weight_decay < 0 ? std::isfinite(g.weight_decay) : kFromZero.holds(g.weight_decay),
            "group.weight_decay", g.weight_decay, "0, or 1e-30 to 1e30, or negative for the optimizer's own");
    const double scaled = rate * g.learning_rate_scale;
    require_product("learning_rate times optimizer.group.learning_rate_scale", scaled);
    require_product("learning_rate of a group times its weight_decay",
                    scaled * (g.weight_decay < 0 ? c.weight_decay : g.weight_decay));
  }
}

bool clips(const OptimizerConfig& config) {
  return config.clip_norm > 0 || config.percentile_clip > 0;
}

void check_groups(const OptimizerConfig& config, std::span<const TensorInfo> tensors) {
  for (const ParameterGroup& g : config.groups) {
    if (matches_any(g.pattern, tensors)) continue;
    throw UsageError(fmt::format("optimizer.group: \"{}\" matches no tensor{}", g.pattern,
                                 near_tensors(g.pattern, tensors)));
  }
  const auto frozen = [&](const TensorInfo& t) { return is_frozen(config, t.name); };
  if (!config.frozen && !tensors.empty() && std::all_of(tensors.begin(), tensors.end(), frozen)) {
    throw UsageError("optimizer.group: all tensors are frozen, nothing is left to train");
  }
}

TensorGroup group_of(const OptimizerConfig& c, const TensorInfo& tensor) {
  const bool is_vector = std::ranges::count_if(tensor.shape, [](std::int64_t size) { return size > 1; }) <= 1;
  const double usual = is_vector && !c.decay_vectors ? 0 : c.weight_decay;
  TensorGroup found{1, usual};
  for (const ParameterGroup& g : c.groups) {
    if (!matches_pattern(g.pattern, tensor.name)) continue;
    found = {g.learning_rate_scale, g.weight_decay < 0 ? usual : g.weight_decay};
  }
  return found;
}

Rule make_rule(const OptimizerConfig& c, const TensorInfo& tensor, double learning_rate, std::int64_t t,
               double clip, bool error_feedback, double last_learning_rate) {
  constexpr double kLeastKept = 1e-30;  // above 0, which would mean a rule without momentum
  const TensorGroup group = group_of(c, tensor);
  RuleStep step;
  step.weight_decay = group.weight_decay;
  step.learning_rate = learning_rate * group.learning_rate_scale;
  step.update = t;
  step.clip = clip;
  step.error_feedback = error_feedback;
  if (error_feedback && learning_rate > last_learning_rate) {
    step.kept = std::max(last_learning_rate / learning_rate, kLeastKept);
  }
  step.tensor = tensor.traits();
  return rule_row(c.rule).make(c.settings, step);
}

}  // namespace lpmm
