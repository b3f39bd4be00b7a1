// What the user says about the optimizer and the learning-rate schedule, and the host scalars of one step.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "kernels/noise.h"
#include "kernels/rules.h"
#include "lpmm/memory/policy.h"

namespace lpmm {

enum class RuleName : std::uint8_t { kSgd, kAdam, kAdamW };

// Settings that differ between tensors whose names match; later groups win.
struct ParameterGroup {
  std::string pattern;  // shell pattern on the tensor's name
  double learning_rate_scale = 1;
  double weight_decay = -1;  // negative: the optimizer's own
  bool frozen = false;       // stored, but neither accumulated nor updated
};

struct OptimizerConfig {
  RuleName rule = RuleName::kSgd;
  double learning_rate = 0.1;
  double weight_decay = 0;
  bool decoupled_decay = false;                       // sgd only; adam is coupled, adamw decoupled
  double momentum = 0;                                // sgd
  double dampening = 0;                               // sgd
  bool nesterov = false;                              // sgd
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // adam, adamw
  double clip_norm = 0;                               // global-norm clipping; 0: none
  std::vector<ParameterGroup> groups = {};
  bool frozen = false;  // all tensors are, as where a model is only evaluated
};

enum class ScheduleKind : std::uint8_t { kConstant, kStep, kCosine, kLinear, kInverseSquareRoot };

struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::kConstant;
  std::int64_t warmup_steps = 0;   // linear from 0, added in front of any kind
  double final_scale = 0;          // cosine and linear end at final_scale * learning_rate
  std::vector<double> milestones;  // step: shares of the run, 0..1
  double gamma = 0.1;              // step: factor at each milestone
};

// Factor on the learning rate for update `step` (0-based) of `total`, a pure function. Cosine reaches
// final_scale at step == total: lr(step) = f + (1-f) * (1 + cos(pi * step / total)) / 2 after warm-up.
double schedule_factor(const ScheduleConfig& schedule, std::int64_t step, std::int64_t total);

// Throws UsageError for values out of range.
void check_optimizer(const OptimizerConfig& config);
// Throws UsageError for a group that matches none of the tensors, and where all tensors are frozen.
void check_groups(const OptimizerConfig& config, std::span<const TensorInfo> tensors);

// Of the last update where there was none.
inline constexpr double kNoLearningRate = std::numeric_limits<double>::infinity();

// Scalars of update `t` (1-based count of updates of this run that were applied) for one tensor.
// `learning_rate` has the schedule applied; `clip` is the gradient factor. With `error_feedback` the factor
// is such that momentum brings the whole error back in time, at a constant rate (ECO, arXiv 2601.22101);
// where the rate rises above that of the last update, momentum keeps the speed it gave the parameter, not its
// own size, as what was fed back at a small rate would return multiplied. (Gradients that were accumulated in
// it shrink with it in that one update.)
Rule make_rule(const OptimizerConfig& config, const std::string& tensor, double learning_rate, std::int64_t t,
               double clip, bool error_feedback, double last_learning_rate = kNoLearningRate);
bool uses_momentum(const OptimizerConfig& config);
bool uses_variance(const OptimizerConfig& config);
bool is_frozen(const OptimizerConfig& config, const std::string& tensor);
// What a tensor has memory for: frozen ones have the parameter alone.
bool has_role(const Policy& policy, const OptimizerConfig& config, const std::string& tensor, Role role);

inline constexpr int kMostMicrobatches = (1 << 14) - 1;  // what the noise stream holds, and the update
inline constexpr double kLeastMomentum = 1e-6;           // that gradients are divided by
// Whether its momentum can take gradients before the update: SGD's, without Nesterov and clipping, which know
// the gradient by itself and its norm.
bool can_accumulate(const OptimizerConfig& config);
// Throws UsageError where a policy asks of the momentum what this optimizer's cannot do.
void check_momentum(const Policy& policy, const OptimizerConfig& config);
// The factor of each of K gradients where it is folded in update `t` (1-based): 1/K; into a momentum, which
// the update then multiplies by mu, 1/mu of that.
double fold_weight(const Policy& policy, const OptimizerConfig& config, std::int64_t t, int microbatches);
// The noise of a contribution there, apart from the update's own.
std::uint32_t fold_stream(const Policy& policy, int microbatch, int contribution);

}  // namespace lpmm
