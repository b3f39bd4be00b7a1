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

// What is called in a step, where it is not empty.
struct StepCalls {
  std::function<void()> after_microbatch = {};  // may look at the accumulators
  // All ranks come to it. What those that send exchange here, and not after the step, does not wait for the
  // parameters that they send each other behind the next one.
  std::function<void()> before_update = {};
};

// Takes the memory's own microbatches of a step (ModelMemory::own_microbatches) from `batches`; a failed step
// takes them all the same.
StepResult train_step(Program& program, ModelMemory& memory, Buffers& buffers, Prefetcher& batches,
                      const StepOptions& options, const StepCalls& calls = {});

}  // namespace lpmm
