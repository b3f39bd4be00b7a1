// The results of the folds, losses and updates of one step, which a device writes and the host reads at the
// end.
#pragma once

#include <cstdint>
#include <iterator>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "kernels/orthogonal.h"
#include "kernels/packed_device.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/clipping.h"

namespace lpmm {

// Results that a device writes and the host reads, once it has synchronized.
template <class Result>
class SharedResults {
 public:
  explicit SharedResults(PackedDevice& device) : device_(device) {}
  // Forgets all of them; the device must have done its work.
  void clear() { used_ = 0; }
  // A fresh one. It stays where it is until clear().
  Result* next() {
    if (used_ == std::ssize(blocks_) * kBlock) {
      blocks_.push_back(device_.allocate_shared(kBlock * static_cast<std::int64_t>(sizeof(Result))));
      if (blocks_.back() == nullptr) throw RunError("no memory for the results of a step");
    }
    auto* block = reinterpret_cast<Result*>(blocks_[static_cast<std::size_t>(used_ / kBlock)].get());
    return new (block + used_++ % kBlock) Result;
  }

 private:
  static constexpr std::int64_t kBlock = 256;
  PackedDevice& device_;
  std::vector<DeviceMemory> blocks_;
  std::int64_t used_ = 0;
};

class StepResults {
 public:
  explicit StepResults(PackedDevice& device) : device_(device), folds_(device), losses_(device) {}
  void clear();
  // Room for what is asked for besides, a flag or a sum.
  kernels::FoldResult* next() { return folds_.next(); }
  // The result of a fold into elements first, ..., first + count - 1; the last fold into them has their
  // square sum.
  kernels::FoldResult* next_fold(int tensor, std::int64_t first, std::int64_t count, bool has_square_sum);
  kernels::LossResult* next_loss();

  static constexpr int kLoss = -1;
  // The tensor of the first fold that failed, or kLoss, of those that were not checked yet; waits for them.
  std::optional<int> next_failure();
  // The square sums of the accumulated gradient, of each tensor and of all. Tensors in order, ranges by their
  // place, gaps from what is stored: neither the order of the folds nor the threads matter. Null accumulators
  // are left out. No element has two last folds.
  GradientSquares gradient_squares(std::span<const kernels::RoleView> accumulators);

 private:
  // A fold, or a loss.
  struct Finding {
    int tensor;
    std::int64_t first, count;
    bool has_square_sum;
    const kernels::FoldResult* fold;
    const kernels::LossResult* loss;
  };
  PackedDevice& device_;
  SharedResults<kernels::FoldResult> folds_;
  SharedResults<kernels::LossResult> losses_;
  std::vector<Finding> findings_;
  std::size_t checked_ = 0;  // of them
};

// Statistics of the updates of a step (WatchStats of kernels/packed.h).
class UpdateWatch {
 public:
  // The statistics of an update of elements of a tensor from `first` on.
  struct Seen {
    int tensor = 0;
    std::int64_t first = 0;
    kernels::WatchStats stats;
  };
  explicit UpdateWatch(PackedDevice& device) : device_(device), results_(device), sums_(device) {}
  void begin_step(bool wanted) {
    wanted_ = wanted;
    results_.clear();
    sums_.clear();
    pending_.clear();
    stats_.clear();
  }
  bool is_wanted() const { return wanted_; }
  // An update that follows will tell.
  void measure(kernels::TensorUpdate& update, int tensor, std::int64_t first) {
    if (!wanted_) return;
    PendingUpdate& pending = pending_.emplace_back(PendingUpdate{tensor, first, results_.next()});
    update.watched = pending.stats;
    if (kernels::is_orthogonal(update.rule)) measure_gradient(update, pending);
  }
  // Reads the results, once the device is synchronized.
  std::vector<Seen> read() const {
    std::vector<Seen> seen;
    for (const PendingUpdate& pending : pending_) {
      kernels::WatchStats& stats =
          seen.emplace_back(Seen{pending.tensor, pending.first, *pending.stats}).stats;
      if (!pending.is_orthogonal) continue;
      const double *sum = pending.gradient, scale = pending.gradient_scale;
      stats.squares[static_cast<std::size_t>(Watched::kGradient)] = sum == nullptr ? 0 : scale * scale * *sum;
    }
    return seen;
  }
  // Takes what all updates did, in the order of tensors and of places there, of so many tensors.
  void set(std::span<const Seen> seen, std::size_t tensors) {
    if (!wanted_) return;
    stats_.assign(tensors, {});
    for (const Seen& s : seen) {
      kernels::WatchStats& of = stats_[static_cast<std::size_t>(s.tensor)];
      for (int k = 0; k < kWatched; ++k) of.squares[k] += s.stats.squares[k];
      of.update.raise(s.stats.update.bits, s.first + s.stats.update.element);
      of.ratio.raise(s.stats.ratio.bits, s.first + s.stats.ratio.element);
    }
  }
  std::span<const kernels::WatchStats> stats() const { return stats_; }

 private:
  struct PendingUpdate {
    int tensor;
    std::int64_t first;
    kernels::WatchStats* stats;
    bool is_orthogonal = false;  // then the gradient's sum of squares is here; null: it is in the momentum
    double* gradient = nullptr;
    double gradient_scale = 1;
  };

  void measure_gradient(const kernels::TensorUpdate& update, PendingUpdate& pending) {
    pending.is_orthogonal = true;
    pending.gradient_scale = std::get<Muon>(update.rule).gradient_scale;
    const kernels::RoleView& gradient = update.args.roles[Role::kAccumulator];
    if (gradient.codes == nullptr) return;
    pending.gradient = sums_.next();
    device_.square_sum(gradient, 0, gradient.elements, pending.gradient);
  }

  PackedDevice& device_;
  bool wanted_ = false;
  SharedResults<kernels::WatchStats> results_;
  SharedResults<double> sums_;
  std::vector<PendingUpdate> pending_;
  std::vector<kernels::WatchStats> stats_;  // by tensor
};

}  // namespace lpmm
