#include "lpmm/program/op.h"

#include <fmt/format.h>

#include "lpmm/base/error.h"
#include "lpmm/program/program_plan.h"

namespace lpmm {

std::byte* Op::data(const RunState& run, int value) const {
  return plan->at(run, plan->data_slot(value, run.block));
}
std::byte* Op::gradient(const RunState& run, int value) const {
  return plan->at(run, plan->value(value).gradient);
}
std::byte* Op::saved_data(const RunState& run) const {
  return plan->at(run, run.block >= 0 ? saved_again : saved);
}
std::byte* Op::waiting_data(const RunState& run) const {
  return plan->at(run, waiting);
}
void Op::fold_vector(RunState& run, int tensor, std::span<const float> gradient) const {
  if (folds_later()) return run.step->fold_later(tensor, 0, gradient, run.microbatch);
  run.step->fold(tensor, 0, gradient, run.microbatch);
}

void hand_out(RunState& run, ValueType compute, const std::byte* values, int channels, float* room) {
  if (run.outputs == nullptr) return;
  const std::int64_t count = run.batch.count * channels;
  Device& device = run.device;
  device.to_float(compute, count, values, room);
  run.outputs->resize(static_cast<std::size_t>(count));
  device.download(run.outputs->data(), room, 4 * count);
}

std::int64_t check_labels(const Batch& batch, std::int64_t rows, std::int64_t classes, bool may_lack) {
  if (std::ssize(batch.labels) != rows) {
    throw RunError(fmt::format("a batch has {} labels, {} were expected", batch.labels.size(), rows));
  }
  std::int64_t count = 0;
  for (const std::int32_t label : batch.labels) {
    if (label >= classes || (label < 0 && !may_lack)) {
      throw RunError(fmt::format("a batch has the label {}: there are {}, from 0 on", label, classes));
    }
    count += label >= 0 ? 1 : 0;
  }
  return count;
}

}  // namespace lpmm
