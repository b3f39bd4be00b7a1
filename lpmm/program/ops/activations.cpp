#include "lpmm/program/ops/activations.h"

#include "lpmm/program/program_plan.h"

namespace lpmm {
namespace {

class ActivationOp : public Op {
 public:
  explicit ActivationOp(const kernels::ActivationArgs& args) : args_(args) {}
  bool skips_gradient() const override { return true; }
  void forward(RunState& run) const override {
    kernels::ActivationArgs args = args_;
    args.x = data(run, inputs[0]);
    args.y = data(run, output);
    run.device.activate(args);
  }
  void backward(RunState& run) const override {
    if (gradient(run, inputs[0]) == nullptr) return;
    kernels::ActivationArgs args = args_;
    args.x = data(run, reads_output(args.function, args.is_gated) ? output : inputs[0]);
    args.dy = gradient(run, output);
    args.dx = gradient(run, inputs[0]);
    args.accumulate = accumulate[0];
    run.device.activate_backward(args);
  }

 private:
  kernels::ActivationArgs args_;
};

}  // namespace

Value activation(ProgramBuilder& b, Activation f, Value x, bool is_gated) {
  const int width = is_gated ? x.channels / 2 : x.channels;
  const Value y = b.add_value(x.height, x.width, width);
  const int kept = reads_output(f, is_gated) ? y.id : x.id;
  return b.add_op(
      std::make_unique<ActivationOp>(kernels::ActivationArgs{
          .function = f, .is_gated = is_gated, .type = b.compute(), .rows = b.rows(x), .width = width}),
      {x}, y, {kept});
}

}  // namespace lpmm
