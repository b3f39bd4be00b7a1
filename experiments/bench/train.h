// Measures how fast a configuration trains: whole steps on batches that are loaded as in a run.
#pragma once

#include <cstdint>

#include "kernels/device.h"
#include "lpmm/base/progress.h"
#include "lpmm/data/batch.h"
#include "lpmm/run/config.h"

namespace lpmm {

struct TrainSpeed {
  double items_per_second = 0;  // images or tokens, over all measured steps
  double median_step_seconds = 0;
  double seconds = 0;          // all measured steps, the sum of:
  double data_seconds = 0;     // waiting for batches
  double compute_seconds = 0;  // forward, backward, folds
  double update_seconds = 0;   // clipping, update, clearing
};

// `steps` >= 1 measured steps after `warm_up` others; `progress` counts all of them.
TrainSpeed bench_train(const RunConfig& config, const DataSource& data, Device& device, std::int64_t steps,
                       std::int64_t warm_up, const ProgressCall& progress = {});

}  // namespace lpmm
