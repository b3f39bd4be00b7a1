#include "lpmm/program/ops/loss.h"

#include "kernels/compute.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/program/program_plan.h"

namespace lpmm {
namespace {

class LossOp : public Op {
 public:
  bool is_pure() const override { return false; }
  LossOp(int classes, double smoothing) : classes_(classes), smoothing_(smoothing) {}
  std::int64_t workspace_bytes() const override { return room_on(*plan->device, 4 * plan->batch); }
  void forward(RunState& run) const override {
    check_labels(run.batch, run.batch.count, classes_);
    run.memory.device().softmax_loss(shape(run), plan->compute, data(run, inputs[0]), labels(run), run.loss);
    run.labels = run.batch.count;
  }
  void backward(RunState& run) const override {
    run.memory.device().softmax_loss_backward(shape(run), plan->compute, data(run, inputs[0]), labels(run),
                                              gradient(run, inputs[0]));
  }

 private:
  const std::int32_t* labels(const RunState& run) const {
    return on_device(run.memory.device(), run.batch.labels.data(), run.batch.count, run.workspace);
  }
  kernels::LossShape shape(const RunState& run) const { return {run.batch.count, classes_, smoothing_}; }
  int classes_;
  double smoothing_;
};

}  // namespace

void loss(ProgramBuilder& b, Value logits, double label_smoothing) {
  b.add_op(std::make_unique<LossOp>(logits.channels, label_smoothing), {logits}, {}, {logits.id});
}

}  // namespace lpmm
