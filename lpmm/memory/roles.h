// The roles of a tensor under a policy and an optimizer, and the further uses of its momentum.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "kernels/noise.h"
#include "kernels/packed.h"
#include "lpmm/memory/optimizer_config.h"
#include "lpmm/memory/policy.h"
#include "lpmm/memory/slots/shares.h"

namespace lpmm {

// Returns true if the rule keeps this state of the tensor, or of any tensor.
bool uses(const OptimizerConfig& config, const TensorTraits& tensor, Role state);
bool uses(const OptimizerConfig& config, Role state);
bool is_frozen(const OptimizerConfig& config, const std::string& tensor);
// Returns true if a tensor has memory for the role: frozen tensors have it for the parameter alone.
bool has_role(const Policy& policy, const OptimizerConfig& config, const TensorInfo& tensor, Role role);

// The rows of the tensor that share a variance of rows, and the number of values of a role.
RowShares shares_of(const OptimizerConfig& config, const TensorInfo& tensor);
std::int64_t values_of(const OptimizerConfig& config, const TensorInfo& tensor, Role role);

// The storage of a tensor, whoever has the memory for it: views without addresses, and nothing for roles that
// it lacks.
using TensorPlan = RoleArray<std::optional<kernels::RoleView>>;
TensorPlan plan_tensor(const Policy& policy, const OptimizerConfig& config, const TensorInfo& tensor);
// Leaves of each tensor's states what a rank owns, and of parameters that ranks have parts of.
void keep_own(std::span<TensorPlan> plans, const Shares& shares, int rank);

// The average of a tensor's weights (Policy::average) as a plan has it: a view without addresses; nothing
// where it has none.
std::optional<kernels::RoleView> plan_average(const Policy& policy, const OptimizerConfig& config,
                                              const TensorInfo& tensor);
// The share of itself that an average keeps at update `t` (1-based): (t - 1) / (t + 8), and no more than
// `most`. So the first update copies the weights, and a short run's average does not hold those it began with
// (TensorFlow's ExponentialMovingAverage, with num_updates = t - 2).
double kept_average(double most, std::int64_t t);

inline constexpr int kMostMicrobatches = (1 << 14) - 1;  // the noise stream has room for these and the update
// Returns true if its momentum can take gradients before the update: SGD's and Muon's, without Nesterov and
// clipping, which need the gradient by itself and its norm.
bool can_accumulate(const OptimizerConfig& config);
// Throws UsageError where a policy asks of the momentum what this optimizer's cannot do.
void check_momentum(const Policy& policy, const OptimizerConfig& config);
// The bytes of one of the codes that the watch keeps of each element (kernels/peaks.h), and how many there
// are of a tensor; 0 where the policy keeps none, or its updates are not known before they are made: it is
// frozen, its gradients are applied at once, its variances are of rows, or its step is an orthogonal matrix.
std::int64_t peak_bytes(const TensorInfo& tensor);
int peaks_of(const Policy& policy, const OptimizerConfig& config, const TensorInfo& tensor);
// Throws UsageError where the watch cannot measure the rule's updates.
void check_peaks(const Policy& policy, const OptimizerConfig& config);
// The same where gradients are applied at once, in steps of so many microbatches.
void check_at_once(const Policy& policy, const OptimizerConfig& config, int microbatches);
// The same where microbatches form slots, or ranks share them.
void check_slots(const Policy& policy, int microbatches, const Sharding& sharding);
// Counts the tensors that the watch does not see updated: their gradients are applied at once.
std::int64_t count_unseen(const Policy& policy, const OptimizerConfig& config,
                          std::span<const TensorInfo> tensors);
// Returns true if gradients of this tensor are folded into its momentum.
bool folds_into_momentum(const Policy& policy, const OptimizerConfig& config, const TensorInfo& tensor);
// The factor of each of K gradients where it is folded in update `t` (1-based): 1/K; into a momentum, which
// the update then multiplies by mu, 1/mu of that.
double fold_weight(const OptimizerConfig& config, bool into_momentum, std::int64_t t, int microbatches);
// The noise of a contribution there, apart from the update's own.
std::uint32_t fold_stream(bool into_momentum, int microbatch, int contribution);

}  // namespace lpmm
