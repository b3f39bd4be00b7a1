// The statistics of one tensor's update (kernels/rules/watched.h), from its elements in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/packed.h"
#include "kernels/sums.h"

namespace lpmm::kernels {

// Sums of squares over the elements of a tensor. They come by units (kernels/sums.h), each once.
class SquareSums {
 public:
  SquareSums(std::size_t terms, std::int64_t elements)
      : units_(terms, std::vector<double>(static_cast<std::size_t>(units_of(elements)))) {}
  double* units(std::size_t term) { return units_[term].data(); }
  double take(std::size_t term) { return sum_as_tree(units(term), std::ssize(units_[term])); }  // once

 private:
  std::vector<std::vector<double>> units_;
};

// Receives the statistics of one run of tiles, which come in order. The same tile may come twice.
struct RunStatistics {
  double* squares[kWatched];  // of the tensor's units
  LargestElement update, ratio;
  PeakView peaks;  // do not fall here
};

class StatisticsByRun {
 public:
  StatisticsByRun(std::int64_t elements, std::int64_t runs, const PeakView& peaks)
      : squares_(kWatched, elements) {
    RunStatistics run = {};
    run.peaks = peaks;
    for (std::size_t k = 0; k < kWatched; ++k) run.squares[k] = squares_.units(k);
    runs_.assign(static_cast<std::size_t>(runs), run);
  }
  RunStatistics& run(std::size_t i) { return runs_[i]; }
  WatchStats take() {  // once
    WatchStats stats;
    for (const RunStatistics& run : runs_) {
      stats.update.raise(run.update.bits, run.update.element);
      stats.ratio.raise(run.ratio.bits, run.ratio.element);
    }
    for (std::size_t k = 0; k < kWatched; ++k) stats.squares[k] = squares_.take(k);
    return stats;
  }

 private:
  SquareSums squares_;
  std::vector<RunStatistics> runs_;
};

}  // namespace lpmm::kernels
