#include "lpmm/run/train_step.h"

#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>
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

}  // namespace

StepResult train_step(Program& program, ModelMemory& memory, Buffers& buffers, Prefetcher& batches,
                      const StepOptions& options, const std::function<void()>& after_microbatch) {
  StepResult result;
  auto clock = Clock::now();
  std::vector<PendingLoss> losses;
  Step step = memory.begin_step(options);
  buffers.begin();
  const Share share = step.share();
  if (share.count != memory.microbatches()) throw std::logic_error("train_step: batches know no share");
  for (int k = 0; k < share.count; ++k) {
    const Batch& batch = batches.next();
    result.data_seconds += lap(clock);
    losses.push_back(program.train(memory, step, buffers, batch, k));
    result.compute_seconds += lap(clock);
    if (after_microbatch) after_microbatch();
  }
  if (!step.failed()) {
    for (const PendingLoss& loss : losses) result.meter += loss.read();
    if (const std::string buffer = buffers.failed_proposal(); !buffer.empty()) step.fail(buffer);
  }
  result.compute_seconds += lap(clock);
  result.report = std::move(step).commit();
  if (result.report.applied) buffers.commit();
  result.update_seconds = lap(clock);
  return result;
}

}  // namespace lpmm
