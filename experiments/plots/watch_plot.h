// Draws a spike: a map of tensors over steps, and the losses with and without a tensor's updates.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiments/plots/chart.h"
#include "lpmm/run/watch/ranking.h"

namespace lpmm {

struct WatchPicture {
  std::int64_t spike = 0;
  std::vector<std::string> tensors;
  std::span<const UpdateStatistics> statistics;  // of the run
  std::span<const UpdateStatistics> without;     // those with updates left out; empty: not made
  std::string left_out;                          // the tensor without updates
  std::span<const Move> moves;                   // their tensors come first, from the top
};
// For each tensor and step, the measure that is furthest above its usual value, in doublings.
Picture watch_picture(const WatchPicture& of);

}  // namespace lpmm
