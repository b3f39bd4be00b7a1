#include "lpmm/memory/ledger.h"

#include <algorithm>
#include <numeric>

#include "kernels/orthogonal.h"
#include "kernels/sums.h"
#include "lpmm/memory/memory_state.h"

namespace lpmm {
namespace {

constexpr std::int64_t kHistoryBytes = sizeof(GradientHistory);

// Counts one tensor; spec_of(role) is null where it has no such role.
template <class SpecOf>
void add_to(Ledger& ledger, const OptimizerConfig& optimizer, const TensorInfo& info, bool exempt,
            const SpecOf& spec_of) {
  ledger.parameters += info.elements();
  for (const Role r : kEveryRole) {
    const Spec* spec = spec_of(r);
    if (spec == nullptr) continue;
    const std::int64_t values = values_of(optimizer, info, r);
    (exempt ? ledger.exempt : ledger.role_codes[r]) += code_bytes(spec->format, values);
    ledger.role_steps[r] += step_bytes(*spec, values);
  }
}

}  // namespace

std::int64_t Ledger::model_memory() const {
  return std::accumulate(role_codes.begin(), role_codes.end(), std::int64_t{0}) +
         std::accumulate(role_steps.begin(), role_steps.end(), std::int64_t{0}) + exempt + peaks + buffers;
}

double Ledger::bits_per_parameter() const {
  return parameters == 0 ? 0.0 : 8.0 * static_cast<double>(model_memory()) / static_cast<double>(parameters);
}

Ledger memory_ledger(std::span<const TensorInfo> tensors, const Policy& policy,
                     const OptimizerConfig& optimizer) {
  Ledger ledger;
  for (const TensorInfo& t : tensors) {
    const RoleSpecs specs = specs_for(policy, t);
    add_to(ledger, optimizer, t, is_exempt(policy, t),
           [&](Role role) { return has_role(policy, optimizer, t, role) ? &specs[role] : nullptr; });
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
  Ledger ledger;
  ledger.workspace = state_->workspace_bytes;
  for (const State::Tensor& t : state_->tensors) {
    add_to(ledger, state_->optimizer, t.info, t.exempt, [&](Role role) {
      const bool counts = has_role(state_->policy, state_->optimizer, t.info, role);
      return counts ? &t.view[role].codec : nullptr;
    });
    ledger.peaks += t.peaks * peak_bytes(t.info);
  }
  for (const auto& history : state_->histories) {
    if (history) ledger.buffers += kHistoryBytes;
  }
  return ledger;
}

}  // namespace lpmm
