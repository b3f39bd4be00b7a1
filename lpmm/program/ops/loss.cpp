#include "lpmm/program/ops/loss.h"

#include <fmt/format.h>

#include "kernels/compute.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/program/program_plan.h"
#include "lpmm/program/workspace.h"

namespace lpmm {
namespace {

class LossOp : public Op {
 public:
  bool is_pure() const override { return false; }
  LossOp(int classes, double smoothing) : classes_(classes), smoothing_(smoothing) {}
  std::int64_t workspace_bytes() const override {
    return largest_layout([&](Pieces& p) { lay_out(p); });
  }
  void forward(RunState& run) const override {
    check_labels(run.batch, run.batch.count, classes_);
    Pieces pieces(run.workspace);
    const Room room = lay_out(pieces);
    hand_out(run, plan->compute, data(run, inputs[0]), classes_, room.outputs);
    run.device.softmax_loss(shape(run), plan->compute, data(run, inputs[0]), labels(run, room.labels),
                            run.loss);
    run.labels = run.batch.count;
  }
  void backward(RunState& run) const override {
    Pieces pieces(run.workspace);
    run.device.softmax_loss_backward(shape(run), plan->compute, data(run, inputs[0]),
                                     labels(run, lay_out(pieces).labels), gradient(run, inputs[0]));
  }

 private:
  struct Room {
    std::byte* labels;
    float* outputs;
  };
  Room lay_out(Pieces& p) const {
    return {p.take(room_on(*plan->device, 4 * plan->batch)),
            p.floats(std::int64_t{1} * plan->batch * classes_)};
  }
  static const std::int32_t* labels(const RunState& run, std::byte* room) {
    return on_device(run.device, run.batch.labels.data(), run.batch.count, room);
  }
  kernels::LossShape shape(const RunState& run) const { return {run.batch.count, classes_, smoothing_}; }
  int classes_;
  double smoothing_;
};

class SquareLossOp : public Op {
 public:
  bool is_pure() const override { return false; }
  std::int64_t workspace_bytes() const override {
    return largest_layout([&](Pieces& p) { lay_out(p); });
  }
  void forward(RunState& run) const override {
    if (std::ssize(run.batch.targets) != run.batch.count) {
      throw RunError(fmt::format("a batch has {} numbers to tell, {} were expected", run.batch.targets.size(),
                                 run.batch.count));
    }
    Pieces pieces(run.workspace);
    const Room room = lay_out(pieces);
    hand_out(run, plan->compute, data(run, inputs[0]), 1, room.outputs);
    run.device.square_loss(run.batch.count, plan->compute, data(run, inputs[0]), targets(run, room.targets),
                           run.loss);
    run.labels = run.batch.count;
  }
  void backward(RunState& run) const override {
    Pieces pieces(run.workspace);
    run.device.square_loss_backward(run.batch.count, plan->compute, data(run, inputs[0]),
                                    targets(run, lay_out(pieces).targets), gradient(run, inputs[0]));
  }

 private:
  struct Room {
    std::byte* targets;
    float* outputs;
  };
  Room lay_out(Pieces& p) const {
    return {p.take(room_on(*plan->device, 4 * plan->batch)), p.floats(plan->batch)};
  }
  static const float* targets(const RunState& run, std::byte* room) {
    return on_device(run.device, run.batch.targets.data(), run.batch.count, room);
  }
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
  b.add_op(std::make_unique<LossOp>(logits.channels, label_smoothing), {logits}, {}, {logits.id});
}

void square_loss(ProgramBuilder& b, Value x) {
  b.add_op(std::make_unique<SquareLossOp>(), {x}, {}, {x.id});
}

void output(ProgramBuilder& b, Value x) {
  b.add_op(std::make_unique<OutputOp>(x.channels), {x}, {}, {x.id});
}

}  // namespace lpmm
