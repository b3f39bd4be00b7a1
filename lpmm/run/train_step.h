// One training step: forward and backward of every microbatch, then the update. It is a transaction: what the
// first NaN or Inf of a loss, a gradient or a statistic marks as failed changes nothing that persists.
#pragma once

#include <cstdint>
#include <functional>

#include "lpmm/data/batch.h"
#include "lpmm/memory/model_memory.h"
#include "lpmm/program/program.h"
#include "lpmm/run/run_progress.h"

namespace lpmm {

struct StepOptions {
  std::uint32_t step = 1;  // keys the noise: it never repeats
  double learning_rate = 0;
  bool want_stats = false;                 // count underflows
  bool want_watch = false;                 // look at what the update is about to do
  std::function<void()> after_microbatch;  // may look at the accumulators
};

struct StepResult {
  StepReport report;
  Meter meter;  // of all microbatches, where none failed
  // The time this step took: waiting for batches, forward and backward, update.
  double data_seconds = 0, compute_seconds = 0, update_seconds = 0;
  double seconds() const { return data_seconds + compute_seconds + update_seconds; }
};

// Takes as many microbatches from `batches` as the memory expects; a failed step takes them all the same. One
// that throws is abandoned: the memory's next step begins with nothing of it.
StepResult train_step(Program& program, ModelMemory& memory, Buffers& buffers, Prefetcher& batches,
                      const StepOptions& options);

}  // namespace lpmm
