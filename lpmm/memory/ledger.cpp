#include "lpmm/memory/ledger.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "kernels/orthogonal.h"
#include "kernels/sums.h"
#include "lpmm/memory/memory_state.h"

namespace lpmm {
namespace {

constexpr std::int64_t kHistoryBytes = sizeof(GradientHistory);

}  // namespace

std::int64_t Ledger::model_memory() const {
  return std::accumulate(role_codes.begin(), role_codes.end(), std::int64_t{0}) +
         std::accumulate(role_steps.begin(), role_steps.end(), std::int64_t{0}) + exempt + averages + peaks +
         buffers;
}

double Ledger::bits_per_parameter() const {
  return parameters == 0 ? 0.0 : 8.0 * static_cast<double>(model_memory()) / static_cast<double>(parameters);
}

Ledger memory_ledger(std::span<const TensorInfo> tensors, const Policy& policy,
                     const OptimizerConfig& optimizer, const Sharding& sharding) {
  Ledger ledger;
  std::vector<TensorPlan> plans;
  for (const TensorInfo& t : tensors) plans.push_back(plan_tensor(policy, optimizer, t));
  std::optional<Shares> shares;
  if (sharding.ranks > 1) {
    shares.emplace(tensors, policy, optimizer, sharding);
    keep_own(plans, *shares, sharding.rank);
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo& t = tensors[i];
    const TensorPlan& plan = plans[i];
    ledger.parameters += t.elements();
    for (const Role r : kEveryRole) {
      if (!plan[r]) continue;
      const int copies = r == Role::kAccumulator ? sharding.own_slots() : 1;
      const std::int64_t codes = copies * code_bytes(plan[r]->codec.format, plan[r]->elements);
      (is_exempt(policy, t) ? ledger.exempt : ledger.role_codes[r]) += codes;
      ledger.role_steps[r] += copies * step_bytes(plan[r]->codec, plan[r]->elements);
    }
    if (const auto average = plan_average(policy, optimizer, t)) {
      const std::int64_t own =
          sharding.ranks > 1 ? shares->count(static_cast<int>(i), sharding.rank) : t.elements();
      (is_exempt(policy, t) ? ledger.exempt : ledger.averages) +=
          code_bytes(average->codec.format, own) + step_bytes(average->codec, own);
    }
    if (has_history(optimizer, t.name)) ledger.buffers += kHistoryBytes;
    ledger.peaks += peaks_of(policy, optimizer, t) * peak_bytes(t);
  }
  return ledger;
}

std::int64_t update_workspace_bytes(std::span<const TensorInfo> tensors, const OptimizerConfig& optimizer,
                                    const PackedDevice& device) {
  std::int64_t most = 0;
  for (const TensorInfo& t : tensors) {
    if (is_frozen(optimizer, t.name)) continue;
    const Rule rule = make_rule(optimizer, t, peak_rate(optimizer), 1, 1, false);
    most = std::max(most, kernels::update_workspace_bytes(device, rule));
  }
  return most;
}

std::int64_t first_pass_bytes(std::span<const TensorInfo> tensors, const Policy& policy,
                              const OptimizerConfig& optimizer) {
  std::int64_t most = 0;
  for (const TensorInfo& t : tensors) {
    const RoleSpecs specs = specs_for(policy, t);
    std::int64_t bytes = 0;
    for (const Role role : kEveryRole) {
      if (!has_role(policy, optimizer, t, role)) continue;
      if (role == Role::kColumnVariance)
        bytes += column_sum_bytes(t.values(Role::kRowVariance), t.values(role));
      if (!has_blocks(specs[role])) {
        bytes += static_cast<std::int64_t>(sizeof(float)) * steps_of(specs[role], t.elements());
      }
    }
    most = std::max(most, bytes);
  }
  return most;
}

Ledger ModelMemory::ledger() const {
  std::vector<TensorInfo> infos;
  for (const MemoryState::Tensor& t : state_->tensors) infos.push_back(t.info);
  Ledger ledger = memory_ledger(infos, state_->policy, state_->optimizer, sharding());
  ledger.workspace = state_->workspace_bytes +
                     slot_workspace_bytes(infos, state_->policy, state_->optimizer, sharding(), device());
  return ledger;
}

}  // namespace lpmm
