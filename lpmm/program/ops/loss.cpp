#include "lpmm/program/ops/loss.h"

#include <fmt/format.h>

#include "kernels/compute.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/program/program_plan.h"
#include "lpmm/program/workspace.h"

namespace lpmm {
namespace {

// The cross-entropy of labels, or the squares of what is off targets.
class LossOp : public Op {
 public:
  bool is_pure() const override { return false; }
  LossOp(int channels, double smoothing, bool is_square)
      : channels_(channels), smoothing_(smoothing), is_square_(is_square) {}
  std::int64_t workspace_bytes() const override {
    return largest_layout([&](Pieces& p) { lay_out(p); });
  }
  void forward(RunState& run) const override {
    if (!is_square_) {
      check_labels(run.batch, run.batch.count, channels_);
    } else if (std::ssize(run.batch.targets) != run.batch.count) {
      throw RunError(fmt::format("a batch has {} numbers to tell, {} were expected", run.batch.targets.size(),
                                 run.batch.count));
    }
    Pieces pieces(run.workspace);
    const Room room = lay_out(pieces);
    hand_out(run, plan->compute, data(run, inputs[0]), channels_, room.outputs);
    run.device.loss_forward(args(run, room));
    run.labels = run.batch.count;
  }
  void backward(RunState& run) const override {
    Pieces pieces(run.workspace);
    run.device.loss_backward(args(run, lay_out(pieces)));
  }

 private:
  struct Room {
    std::byte* wanted;  // labels or targets
    float* outputs;
  };
  Room lay_out(Pieces& p) const {
    return {p.take(room_on(*plan->device, 4 * plan->batch)),
            p.floats(std::int64_t{1} * plan->batch * channels_)};
  }
  kernels::LossArgs args(const RunState& run, const Room& room) const {
    const auto on = [&](const auto& values) {
      return on_device(run.device, values.data(), run.batch.count, room.wanted);
    };
    return {.shape = {run.batch.count, channels_, smoothing_},
            .type = plan->compute,
            .x = data(run, inputs[0]),
            .labels = is_square_ ? nullptr : on(run.batch.labels),
            .targets = is_square_ ? on(run.batch.targets) : nullptr,
            .result = run.loss,
            .dx = run.step == nullptr ? nullptr : gradient(run, inputs[0])};
  }
  int channels_;
  double smoothing_;
  bool is_square_;
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
  b.add_op(std::make_unique<LossOp>(logits.channels, label_smoothing, false), {logits}, {}, {logits.id});
}

void square_loss(ProgramBuilder& b, Value x) {
  b.add_op(std::make_unique<LossOp>(x.channels, 0, true), {x}, {}, {x.id});
}

void output(ProgramBuilder& b, Value x) {
  b.add_op(std::make_unique<OutputOp>(x.channels), {x}, {}, {x.id});
}

}  // namespace lpmm
