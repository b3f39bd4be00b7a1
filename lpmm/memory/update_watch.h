// What the updates of a step do (WatchStats of kernels/packed.h).
#pragma once

#include <span>
#include <vector>

#include "kernels/orthogonal.h"
#include "lpmm/memory/step_results.h"

namespace lpmm {

class UpdateWatch {
 public:
  explicit UpdateWatch(PackedDevice& device) : device_(device), results_(device), sums_(device) {}
  void begin_step(bool wanted) {
    wanted_ = wanted;
    results_.clear();
    sums_.clear();
    seen_.clear();
    stats_.clear();
  }
  // Updates that follow will tell.
  void look_at(std::span<kernels::TensorUpdate> updates) {
    for (kernels::TensorUpdate& update : updates) {
      if (!wanted_) return;
      Seen& seen = seen_.emplace_back(Seen{results_.next()});
      update.watched = seen.stats;
      if (kernels::is_orthogonal(update.rule)) look_at_gradient(update, seen);
    }
  }
  // Once the device is synchronized: update i was of tensor updated[i], of so many.
  void read(std::span<const int> updated, std::size_t tensors) {
    if (!wanted_) return;
    stats_.assign(tensors, {});
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      kernels::WatchStats& stats = stats_[static_cast<std::size_t>(updated[i])] = *seen_[i].stats;
      if (!seen_[i].is_orthogonal) continue;
      const double *sum = seen_[i].gradient, scale = seen_[i].gradient_scale;
      stats.squares[static_cast<std::size_t>(Watched::kGradient)] = sum == nullptr ? 0 : scale * scale * *sum;
    }
  }
  std::span<const kernels::WatchStats> stats() const { return stats_; }

 private:
  struct Seen {
    kernels::WatchStats* stats;
    bool is_orthogonal = false;  // then the gradient's sum of squares is here; null: it is in the momentum
    double* gradient = nullptr;
    double gradient_scale = 1;
  };

  void look_at_gradient(const kernels::TensorUpdate& update, Seen& seen) {
    seen.is_orthogonal = true;
    seen.gradient_scale = std::get<Muon>(update.rule).gradient_scale;
    const kernels::RoleView& gradient = update.args.roles[Role::kAccumulator];
    if (gradient.codes == nullptr) return;
    seen.gradient = sums_.next();
    device_.square_sum(gradient, 0, gradient.elements, seen.gradient);
  }

  PackedDevice& device_;
  bool wanted_ = false;
  SharedResults<kernels::WatchStats> results_;
  SharedResults<double> sums_;
  std::vector<Seen> seen_;
  std::vector<kernels::WatchStats> stats_;  // by tensor
};

}  // namespace lpmm
