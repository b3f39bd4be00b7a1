#include "lpmm/run/train_step.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>

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

// The first buffer whose proposal holds a NaN or Inf; empty where there is none.
std::string bad_buffer(Buffers& buffers) {
  for (int b = 0; b < static_cast<int>(buffers.infos().size()); ++b) {
    const auto values = buffers.proposal(b);
    if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) {
      return buffers.infos()[static_cast<std::size_t>(b)].name;
    }
  }
  return "";
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
  if (const std::string buffer = bad_buffer(buffers); !buffer.empty()) memory.fail(buffer);
  result.report = memory.commit(options.learning_rate);
  if (result.report.applied) buffers.commit();
  result.update_seconds = lap(clock);
  return result;
}

}  // namespace lpmm
