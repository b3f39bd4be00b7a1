#include "lpmm/memory/step_results.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>
#include <utility>

namespace lpmm {

void StepResults::clear() {
  folds_.clear();
  losses_.clear();
  findings_.clear();
  checked_ = 0;
}

kernels::FoldResult* StepResults::next_fold(int tensor, std::int64_t first, std::int64_t count,
                                            bool has_square_sum) {
  kernels::FoldResult* result = folds_.next();
  findings_.push_back({tensor, first, count, has_square_sum, result, nullptr});
  return result;
}
kernels::LossResult* StepResults::next_loss() {
  kernels::LossResult* loss = losses_.next();
  findings_.push_back({kLoss, 0, 0, false, nullptr, loss});
  return loss;
}

std::optional<int> StepResults::next_failure() {
  device_.synchronize();
  while (checked_ < findings_.size()) {
    const Finding& f = findings_[checked_++];
    if (!(f.loss != nullptr ? std::isfinite(f.loss->sum) : f.fold->finite)) return f.tensor;
  }
  return {};
}

GradientSquares StepResults::gradient_squares(std::span<const kernels::RoleView> accumulators) {
  std::vector<std::pair<std::size_t, const double*>> terms;  // tensor, sum of a range
  const auto add_gap = [&](std::size_t tensor, std::int64_t from, std::int64_t to) {
    if (from >= to) return;
    double* sum = &folds_.next()->square_sum;
    device_.square_sum(accumulators[tensor], from, to - from, sum);
    terms.emplace_back(tensor, sum);
  };
  std::vector<Finding> sums;
  std::copy_if(findings_.begin(), findings_.end(), std::back_inserter(sums),
               [](const Finding& f) { return f.has_square_sum; });
  std::sort(sums.begin(), sums.end(), [](const Finding& a, const Finding& b) {
    return std::tie(a.tensor, a.first) < std::tie(b.tensor, b.first);
  });
  auto sum = sums.begin();
  for (std::size_t i = 0; i < accumulators.size(); ++i) {
    if (accumulators[i].codes == nullptr) continue;  // frozen
    std::int64_t done = 0;
    for (; sum != sums.end() && sum->tensor == static_cast<int>(i); ++sum) {
      add_gap(i, done, sum->first);
      terms.emplace_back(i, &sum->fold->square_sum);
      done = sum->first + sum->count;
    }
    add_gap(i, done, accumulators[i].elements);
  }
  device_.synchronize();
  GradientSquares out{std::vector<double>(accumulators.size()), 0};
  for (const auto& [tensor, term] : terms) {
    out.tensor[tensor] += *term;
    out.all += *term;
  }
  return out;
}

}  // namespace lpmm
