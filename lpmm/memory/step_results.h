// What the folds and losses of one step have found, which a device writes and the host reads at the end.
#pragma once

#include <cstdint>
#include <iterator>
#include <new>
#include <optional>
#include <span>
#include <vector>

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
  // The tensor of the first fold that failed, or kLoss, of those that were not looked at yet; waits for them.
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
  std::size_t looked_at_ = 0;  // of them
};

}  // namespace lpmm
