// What the updates of a step are about to do, read before they are made (WatchStats of kernels/packed.h).
#pragma once

#include <span>
#include <vector>

#include "kernels/orthogonal.h"
#include "lpmm/memory/shared_results.h"

namespace lpmm {

class UpdateWatch {
 public:
  explicit UpdateWatch(Device& device) : device_(device), results_(device) {}
  void begin_step(bool wanted) {
    wanted_ = wanted;
    results_.clear();
    seen_.clear();
    stats_.clear();
  }
  // Of updates that follow.
  void look_at(std::span<const kernels::TensorUpdate> updates) {
    for (const kernels::TensorUpdate& update : updates) {
      if (!wanted_) return;
      seen_.push_back(results_.next());
      // Variances of rows are made anew, and steps made orthogonal, by the update itself: before it there is
      // nothing to look at, and such tensors have zeros.
      const bool has_rows = update.args.roles[Role::kRowVariance].codes != nullptr;
      if (!has_rows && !kernels::is_orthogonal(update.rule)) device_.watch(update, seen_.back());
    }
  }
  // Once the device is synchronized: update i was of tensor updated[i], of so many.
  void read(std::span<const int> updated, std::size_t tensors) {
    if (!wanted_) return;
    stats_.assign(tensors, {});
    for (std::size_t i = 0; i < seen_.size(); ++i) stats_[static_cast<std::size_t>(updated[i])] = *seen_[i];
  }
  std::span<const kernels::WatchStats> stats() const { return stats_; }

 private:
  Device& device_;
  bool wanted_ = false;
  SharedResults<kernels::WatchStats> results_;
  std::vector<kernels::WatchStats*> seen_;
  std::vector<kernels::WatchStats> stats_;  // by tensor
};

}  // namespace lpmm
