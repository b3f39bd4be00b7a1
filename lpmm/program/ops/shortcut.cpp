#include "lpmm/program/ops/shortcut.h"

#include "kernels/compute.h"
#include "lpmm/program/program_plan.h"

namespace lpmm {
namespace {

class ShortcutOp : public Op {
 public:
  explicit ShortcutOp(kernels::ShortcutShape shape) : shape_(shape) {}
  bool skips_gradient() const override { return true; }
  void forward(RunState& run) const override {
    run.device.shortcut_forward(shape_, data(run, inputs[0]), data(run, output));
  }
  void backward(RunState& run) const override {
    if (gradient(run, inputs[0]) == nullptr) return;
    run.device.shortcut_backward(shape_, gradient(run, output), gradient(run, inputs[0]), accumulate[0]);
  }

 private:
  kernels::ShortcutShape shape_;
};

}  // namespace

Value shortcut(ProgramBuilder& b, Value x, int channels, int stride) {
  const kernels::ShortcutShape s{b.batch(), x.height, x.width, x.channels, channels, stride, b.compute()};
  return b.add_op(std::make_unique<ShortcutOp>(s), {x}, b.add_value(s.out_height(), s.out_width(), channels),
                  {});
}

}  // namespace lpmm
