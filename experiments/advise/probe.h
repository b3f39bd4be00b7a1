// A short training in fp32 that measures what rounding theory asks for: the size of every tensor's blocks,
// updates and gradients.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/device.h"
#include "lpmm/base/progress.h"
#include "lpmm/data/batch.h"
#include "lpmm/memory/policy.h"
#include "lpmm/run/config.h"

namespace lpmm {

// Measurements on a sample of one tensor, at the peak learning rate.
struct TensorProbe {
  static constexpr std::int64_t kUnit = 64;  // elements of a block here; larger ones are made of several

  TensorInfo info;
  std::int64_t sampled = 0;  // elements looked at
  // For each block, means over the steps: the largest |parameter|, and the sums over elements of |update| and
  // update^2.
  std::vector<double> largest, moves, squares;
  double mean_gradient = 0;   // root mean square over elements of what the microbatches agree on
  double gradient_noise = 0;  // standard deviation of one microbatch's gradient around that
  int microbatches = 1;       // they were measured with
};

// Trains `steps` >= 4 steps with all memory in fp32, the first half of them to warm up to the peak rate,
// which is held. Two microbatches at least, so that their noise shows. Tensors that
// config.policy leaves in fp32 or that are frozen are left out. Throws UsageError where a batch cannot be
// halved, RunError where a gradient is not finite.
std::vector<TensorProbe> probe_training(const RunConfig& config, const DataSource& data, Device& device,
                                        std::int64_t steps, Progress& progress);

}  // namespace lpmm
