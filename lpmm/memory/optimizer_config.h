// The user's settings of the optimizer, and the host scalars of one step.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lpmm/memory/policy.h"
#include "lpmm/memory/rules.h"

namespace lpmm {

// Settings that differ between tensors whose names match; later groups win.
struct ParameterGroup {
  std::string pattern;  // shell pattern on the tensor's name
  double learning_rate_scale = 1;
  double weight_decay = -1;  // negative: the optimizer's own
  bool frozen = false;       // stored, but neither accumulated nor updated
};

// The settings of one tensor.
struct TensorGroup {
  double learning_rate_scale = 1, weight_decay = 0;
};

struct OptimizerConfig {
  RuleName rule = "sgd";
  std::optional<double> learning_rate = {};  // not given: the rule's own (peak_rate)
  double weight_decay = 0;
  bool decay_vectors = true;    // weight decay is also of tensors with one dimension: norms and biases
  GivenSettings settings = {};  // of the rule: {{"momentum", 0.9}}
  double clip_norm = 0;         // global-norm clipping; 0: none
  // Percentile clipping (clipping.h), of each tensor and before clip_norm; 1 to 99, 0: none.
  int percentile_clip = 0;
  std::vector<ParameterGroup> groups = {};
  bool frozen = false;  // all tensors are, as where a model is only evaluated
};

// Throws UsageError for values out of range, and for settings that the rule does not have.
void check_optimizer(const OptimizerConfig& config);
// Returns true if a step needs the norms of gradients before it updates anything.
bool clips(const OptimizerConfig& config);

// Throws UsageError for a group that matches none of the tensors, and where all tensors are frozen.
void check_groups(const OptimizerConfig& config, std::span<const TensorInfo> tensors);

// The learning rate that was given, else the rule's own: what a schedule begins with or rises to.
double peak_rate(const OptimizerConfig& config);
// Throws UsageError where it is not a number from 0 on: negative, NaN or infinite.
void check_rate(double learning_rate);

bool has_setting(const OptimizerConfig& config, SettingKey key);
// The message for a setting that the rule lacks; both are named as the user knows them.
std::string why_no_setting(const std::string& setting, SettingKey key, RuleName rule,
                           const std::string& rule_text);
// A setting as it was given, else the rule's default. Throws std::logic_error where the rule has no such
// setting.
double setting(const OptimizerConfig& config, SettingKey key);

// Stands for the learning rate of the last update before there was one.
inline constexpr double kNoLearningRate = std::numeric_limits<double>::infinity();

TensorGroup group_of(const OptimizerConfig& config, const TensorInfo& tensor);

// Scalars of update `t` (1-based count of updates of this run that were applied) for one tensor.
// `learning_rate` has the schedule applied; `clip` is the gradient factor. With `error_feedback` the factor
// is such that momentum brings the whole error back in time, at a constant rate (ECO, arXiv 2601.22101);
// where the rate rises above that of the last update, momentum keeps the speed it gave the parameter, not its
// own size, as what was fed back at a small rate would return multiplied. (Gradients that were accumulated in
// it shrink with it in that one update.)
Rule make_rule(const OptimizerConfig& config, const TensorInfo& tensor, double learning_rate, std::int64_t t,
               double clip, bool error_feedback, double last_learning_rate = kNoLearningRate);

}  // namespace lpmm
