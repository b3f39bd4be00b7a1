// One training step: forward and backward of every microbatch, then the update. It is a transaction: what the
// first NaN or Inf of a loss, a gradient or a statistic marks as failed changes nothing that persists.
#pragma once

#include <functional>

#include "lpmm/data/batch.h"
#include "lpmm/memory/model_memory.h"
#include "lpmm/program/program.h"
#include "lpmm/run/run_progress.h"

namespace lpmm {

struct StepResult {
  StepReport report;
  Meter meter;  // of all microbatches, where none failed
  // The time this step took: waiting for batches, forward and backward, update.
  double data_seconds = 0, compute_seconds = 0, update_seconds = 0;
  double seconds() const { return data_seconds + compute_seconds + update_seconds; }
};

// Takes the memory's own microbatches of a step (ModelMemory::own_microbatches) from `batches`; a failed step
// takes them all the same. `after_microbatch`, where it is not empty, may look at the accumulators.
StepResult train_step(Program& program, ModelMemory& memory, Buffers& buffers, Prefetcher& batches,
                      const StepOptions& options, const std::function<void()>& after_microbatch = {});

}  // namespace lpmm
