// The watch's measurements of one step: the loss, and statistics of every tensor's update. They are records
// of type watch in a run's log, and in its files below watch/.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lpmm/files/json.h"
#include "lpmm/memory/model_memory.h"

namespace lpmm {

struct UpdateStatistics {
  struct Tensor {
    float update = 0;       // |u| / |p|: how far the update goes, of how long the tensor is; 0 where p is 0
    float rms = 0;          // root of the mean of g^2 / max(v, epsilon^2), near 1 in quiet times; 0 without v
    float update_norm = 0;  // |u|
    float gradient_norm = 0;                      // of the accumulated gradient, clipped
    float largest_update = 0, largest_ratio = 0;  // |u|, and |g| / max(sqrt(v), epsilon)
    std::int64_t largest_update_at = 0, largest_ratio_at = 0;
    // <Q(x) - x, x> / |x|^2 of what was stored; NaN in steps whose changes were not counted.
    float momentum_bias = std::nanf(""), variance_bias = std::nanf("");
  };

  std::int64_t step = 0;
  double loss = std::nan("");   // of the step's batch; NaN where the step failed
  std::string failed;           // what was not finite; empty: the step was made
  std::vector<Tensor> tensors;  // empty: not measured
};

// Measures the last step of this memory.
UpdateStatistics measure_update(const ModelMemory& memory, std::int64_t step, double loss,
                                const std::string& failed);
// Adds the radial biases of a step whose changes were counted.
void add_bias(UpdateStatistics& statistics, std::span<const TensorStats> changes);

Json statistics_record(const UpdateStatistics& statistics);
// Throws RunError for a record that is none of a model of so many tensors.
UpdateStatistics parse_statistics(const Json& record, std::size_t tensors);

}  // namespace lpmm
