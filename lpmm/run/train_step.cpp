#include "lpmm/run/train_step.h"

#include <chrono>
#include <cmath>

namespace lpmm {
namespace {

using Clock = std::chrono::steady_clock;

// Seconds since `from`, which becomes now.
double lap(Clock::time_point& from) {
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - from).count();
  from = now;
  return seconds;
}

}  // namespace

StepResult train_step(Program& program, ModelMemory& memory, Buffers& buffers, Prefetcher& batches,
                      const StepOptions& options) {
  StepResult result;
  auto clock = Clock::now();
  memory.begin_step(options.step, options.want_stats);
  buffers.begin();
  for (int k = 0; k < memory.microbatches(); ++k) {
    const Batch& batch = batches.next();
    result.data_seconds += lap(clock);
    if (memory.failed()) continue;  // the data position moves on all the same
    const BatchResult of_batch = program.train(memory, buffers, batch, k);
    result.meter += of_batch;
    if (!std::isfinite(of_batch.loss_sum)) memory.fail("the loss");
    result.compute_seconds += lap(clock);
    if (options.after_microbatch) options.after_microbatch();
  }
  result.report = memory.commit(options.learning_rate);
  if (result.report.applied) buffers.commit();
  result.update_seconds = lap(clock);
  return result;
}

}  // namespace lpmm
