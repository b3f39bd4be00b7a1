#include "lpmm/program/ops/loss.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/compute.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/program/program_plan.h"
#include "lpmm/program/workspace.h"

namespace lpmm {
namespace {

enum class Told { kClass, kNumber, kClasses };

// The cross-entropy of labels or of several yes and no, or the squares of what is off targets.
class LossOp : public Op {
 public:
  bool is_pure() const override { return false; }
  LossOp(int channels, double smoothing, Told told)
      : channels_(channels), smoothing_(smoothing), told_(told) {}
  std::int64_t workspace_bytes() const override {
    return largest_layout([&](Pieces& p) { lay_out(p); });
  }
  void forward(RunState& run) const override {
    const std::int64_t rows = rows_of(run.batch);
    if (told_ == Told::kClass) check_labels(run.batch, rows, channels_);
    Pieces pieces(run.workspace);
    const Room room = lay_out(pieces);
    hand_out(run, plan->compute, data(run, inputs[0]), channels_, room.outputs);
    run.device.loss_forward(args(run, room, rows));
    run.labels = rows;
  }
  void backward(RunState& run) const override {
    Pieces pieces(run.workspace);
    const std::int64_t rows = rows_of(run.batch), row_bytes = channels_ * kernels::value_bytes(plan->compute);
    if (rows < run.batch.count) {
      run.device.fill_with_zeros(gradient(run, inputs[0]) + rows * row_bytes,
                                 (run.batch.count - rows) * row_bytes);
    }
    if (rows > 0) run.device.loss_backward(args(run, lay_out(pieces), rows));
  }

 private:
  struct Room {
    std::byte* wanted;  // labels or targets
    float* outputs;
  };
  int per_row() const { return told_ == Told::kClasses ? channels_ : 1; }
  Room lay_out(Pieces& p) const {
    return {p.take(room_on(*plan->device, std::int64_t{4} * plan->batch * per_row())),
            p.floats(std::int64_t{1} * plan->batch * channels_)};
  }
  // The examples that count. Throws RunError where what is wanted of them is not there.
  std::int64_t rows_of(const Batch& batch) const {
    const std::int64_t wanted = told_ == Told::kClass ? std::ssize(batch.labels) : std::ssize(batch.targets);
    const std::int64_t rows = batch.step_labels > 0 ? std::min(wanted / per_row(), batch.count) : batch.count;
    if (wanted != rows * per_row()) {
      throw RunError(fmt::format("a batch has {} {}, {} were expected", wanted,
                                 told_ == Told::kClass ? "labels" : "numbers to tell", rows * per_row()));
    }
    return rows;
  }
  kernels::LossArgs args(const RunState& run, const Room& room, std::int64_t rows) const {
    const auto on = [&](const auto& values) {
      return on_device(run.device, values.data(), rows * per_row(), room.wanted);
    };
    const bool is_class = told_ == Told::kClass;
    return {.shape = {rows, channels_, smoothing_},
            .type = plan->compute,
            .x = data(run, inputs[0]),
            .labels = is_class ? on(run.batch.labels) : nullptr,
            .targets = is_class ? nullptr : on(run.batch.targets),
            .result = run.loss,
            .dx = run.step == nullptr ? nullptr : gradient(run, inputs[0]),
            .mean_of = static_cast<double>(run.batch.step_labels) / run.memory.microbatches()};
  }
  int channels_;
  double smoothing_;
  Told told_;
};

class OutputOp : public Op {
 public:
  explicit OutputOp(int channels) : channels_(channels) {}
  bool is_pure() const override { return false; }
  std::int64_t workspace_bytes() const override {
    return kernels::aligned(4 * std::int64_t{1} * plan->batch * channels_);
  }
  void forward(RunState& run) const override {
    Pieces pieces(run.workspace);
    hand_out(run, plan->compute, data(run, inputs[0]), channels_,
             pieces.floats(std::int64_t{1} * plan->batch * channels_));
    run.labels = run.batch.count;
  }
  void backward(RunState& /*run*/) const override {
    throw UsageError("this model has no loss to train with: it only embeds; data.set names a task");
  }

 private:
  int channels_;
};

}  // namespace

void loss(ProgramBuilder& b, Value logits, double label_smoothing) {
  b.add_op(std::make_unique<LossOp>(logits.channels, label_smoothing, Told::kClass), {logits}, {},
           {logits.id});
}

void square_loss(ProgramBuilder& b, Value x) {
  b.add_op(std::make_unique<LossOp>(x.channels, 0, Told::kNumber), {x}, {}, {x.id});
}

void sigmoid_loss(ProgramBuilder& b, Value logits) {
  b.add_op(std::make_unique<LossOp>(logits.channels, 0, Told::kClasses), {logits}, {}, {logits.id});
}

void output(ProgramBuilder& b, Value x) {
  b.add_op(std::make_unique<OutputOp>(x.channels), {x}, {}, {x.id});
}

}  // namespace lpmm
