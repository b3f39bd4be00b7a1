#include "lpmm/program/ops/pool.h"

#include "kernels/compute.h"
#include "lpmm/program/program_plan.h"

namespace lpmm {
namespace {

class PoolOp : public Op {
 public:
  PoolOp(kernels::PoolShape shape, bool maximum) : shape_(shape), maximum_(maximum) {}
  bool skips_gradient() const override { return true; }
  void forward(RunState& run) const override {
    Device& device = run.device;
    const void* x = data(run, inputs[0]);
    void* y = data(run, output);
    maximum_ ? device.max_pool_forward(shape_, plan->compute, x, y)
             : device.average_pool_forward(shape_, plan->compute, x, y);
  }
  void backward(RunState& run) const override {
    std::byte* dx = gradient(run, inputs[0]);
    if (dx == nullptr) return;
    Device& device = run.device;
    if (maximum_) {
      device.max_pool_backward(shape_, plan->compute, data(run, inputs[0]), gradient(run, output), dx,
                               accumulate[0]);
    } else {
      device.average_pool_backward(shape_, plan->compute, gradient(run, output), dx, accumulate[0]);
    }
  }

 private:
  kernels::PoolShape shape_;
  bool maximum_;
};

Value pool(ProgramBuilder& b, Value x, int kernel, int stride, int pad, bool maximum) {
  const kernels::PoolShape s{b.batch(), x.height, x.width, x.channels, kernel, stride, pad};
  return b.add_op(std::make_unique<PoolOp>(s, maximum), {x},
                  b.add_value(s.out_height(), s.out_width(), x.channels),
                  maximum ? std::vector<int>{x.id} : std::vector<int>{});
}

}  // namespace

Value average_pool(ProgramBuilder& b, Value x, int kernel, int stride) {
  return pool(b, x, kernel, stride, 0, false);
}
Value max_pool(ProgramBuilder& b, Value x, int kernel, int stride, int pad) {
  return pool(b, x, kernel, stride, pad, true);
}

}  // namespace lpmm
