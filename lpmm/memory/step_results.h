// What the folds and losses of one step have found, which a device writes and the host reads at the end.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lpmm/memory/clipping.h"
#include "lpmm/memory/shared_results.h"

namespace lpmm {

class StepResults {
 public:
  explicit StepResults(PackedDevice& device) : device_(device), folds_(device), losses_(device) {}
  void clear();
  // Room for what is asked for besides, a flag or a sum.
  kernels::FoldResult* next() { return folds_.next(); }
  // Of a fold into elements first, ..., first + count - 1; the last one into them has their square sum.
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
