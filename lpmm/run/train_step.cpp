#include "lpmm/run/train_step.h"

#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lpmm/ranks/ranks.h"

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
                      const StepOptions& options, const StepCalls& calls) {
  StepResult result;
  auto clock = Clock::now();
  std::vector<PendingLoss> losses;
  Step step = memory.begin_step(options);
  buffers.begin();
  const Share share = step.share();
  if (share.count != memory.own_microbatches().count) {
    throw std::logic_error("train_step: batches know no share");
  }
  const bool is_apart = memory.sharding().slots > 1;  // microbatches of other slots are not known here
  std::vector<float> proposed;
  for (int k = share.first; k < share.first + share.count; ++k) {
    const Batch& batch = batches.next();
    result.data_seconds += lap(clock);
    if (is_apart) buffers.begin_apart();
    losses.push_back(program.train(memory, step, buffers, batch, k));
    if (is_apart) {
      const std::vector<float> now = buffers.proposed();
      proposed.insert(proposed.end(), now.begin(), now.end());
    }
    result.compute_seconds += lap(clock);
    if (calls.after_microbatch) calls.after_microbatch();
  }
  memory.ranks().now_in(memory.last_step(), "losses");
  if (!step.failed_anywhere()) {
    std::vector<BatchResult> read;
    for (const PendingLoss& loss : losses) read.push_back(loss.read());
    for (const BatchResult& loss : memory.ranks().all_of<BatchResult>(read)) result.meter += loss;
    if (is_apart) buffers.propose(memory.ranks().all_of<float>(proposed));
    if (const std::string buffer = buffers.failed_proposal(); !buffer.empty()) step.fail(buffer);
  }
  if (calls.before_update) calls.before_update();
  result.compute_seconds += lap(clock);
  result.report = std::move(step).commit();
  if (result.report.applied) buffers.commit();
  result.update_seconds = lap(clock);
  return result;
}

}  // namespace lpmm
