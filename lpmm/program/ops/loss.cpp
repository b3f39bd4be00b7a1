#include "lpmm/program/ops/loss.h"

#include "kernels/compute.h"
#include "lpmm/program/program_plan.h"

namespace lpmm {
namespace {

class LossOp : public Op {
 public:
  bool is_pure() const override { return false; }
  LossOp(int classes, double smoothing) : classes_(classes), smoothing_(smoothing) {}
  void forward(RunState& run) const override {
    check_labels(run.batch, run.batch.count, classes_);
    Device& device = run.memory.device();
    device.softmax_loss(shape(run), plan->compute, data(run, inputs[0]), run.batch.labels.data(), run.loss);
    device.synchronize();
    run.result = {run.loss->sum, run.loss->correct, run.batch.count};
  }
  void backward(RunState& run) const override {
    run.memory.device().softmax_loss_backward(shape(run), plan->compute, data(run, inputs[0]),
                                              run.batch.labels.data(), gradient(run, inputs[0]));
  }

 private:
  kernels::LossShape shape(const RunState& run) const { return {run.batch.count, classes_, smoothing_}; }
  int classes_;
  double smoothing_;
};

}  // namespace

void loss(ProgramBuilder& b, Value logits, double label_smoothing) {
  b.add_op(std::make_unique<LossOp>(logits.channels, label_smoothing), {logits}, {}, {logits.id});
}

}  // namespace lpmm
