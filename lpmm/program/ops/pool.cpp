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
    (maximum_ ? kernels::max_pool_forward : kernels::average_pool_forward)(
        run.memory.pool(), shape_, plan->compute, data(run, inputs[0]), data(run, output));
  }
  void backward(RunState& run) const override {
    std::byte* dx = gradient(run, inputs[0]);
    if (dx == nullptr) return;
    Pool& pool = run.memory.pool();
    if (maximum_) {
      kernels::max_pool_backward(pool, shape_, plan->compute, data(run, inputs[0]), gradient(run, output), dx,
                                 accumulate[0]);
    } else {
      kernels::average_pool_backward(pool, shape_, plan->compute, gradient(run, output), dx, accumulate[0]);
    }
  }

 private:
  kernels::PoolShape shape_;
  bool maximum_;
};

Value pool(ProgramBuilder& b, Value x, int kernel, int stride, bool maximum) {
  const kernels::PoolShape s{b.batch(), x.height, x.width, x.channels, kernel, stride};
  return b.add_op(std::make_unique<PoolOp>(s, maximum), {x},
                  b.add_value(s.out_height(), s.out_width(), x.channels),
                  maximum ? std::vector<int>{x.id} : std::vector<int>{});
}

}  // namespace

Value average_pool(ProgramBuilder& b, Value x, int kernel, int stride) {
  return pool(b, x, kernel, stride, false);
}
Value max_pool(ProgramBuilder& b, Value x, int kernel, int stride) {
  return pool(b, x, kernel, stride, true);
}

}  // namespace lpmm
