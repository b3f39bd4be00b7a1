#include "lpmm/run/train_step.h"

#include <chrono>
#include <string>
#include <vector>

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

StepResult run_step(Program& program, ModelMemory& memory, Buffers& buffers, Prefetcher& batches,
                    const StepOptions& options) {
  StepResult result;
  auto clock = Clock::now();
  std::vector<PendingLoss> losses;
  memory.begin_step(options.step, options.want_stats, options.want_watch, options.learning_rate);
  buffers.begin();
  for (int k = 0; k < memory.microbatches(); ++k) {
    const Batch& batch = batches.next();
    result.data_seconds += lap(clock);
    losses.push_back(program.train(memory, buffers, batch, k));
    result.compute_seconds += lap(clock);
    if (options.after_microbatch) options.after_microbatch();
  }
  if (!memory.failed()) {
    for (const PendingLoss& loss : losses) result.meter += loss.read();
    if (const std::string buffer = buffers.failed_proposal(); !buffer.empty()) memory.fail(buffer);
  }
  result.compute_seconds += lap(clock);
  result.report = memory.commit(options.learning_rate);
  if (result.report.applied) buffers.commit();
  result.update_seconds = lap(clock);
  return result;
}

}  // namespace

StepResult train_step(Program& program, ModelMemory& memory, Buffers& buffers, Prefetcher& batches,
                      const StepOptions& options) {
  try {
    return run_step(program, memory, buffers, batches, options);
  } catch (...) {
    memory.abandon_step();
    throw;
  }
}

}  // namespace lpmm
