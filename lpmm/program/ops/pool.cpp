#include "lpmm/program/ops/pool.h"

#include "kernels/compute.h"
#include "lpmm/program/program_plan.h"

namespace lpmm {
namespace {

class PoolOp : public Op {
 public:
  explicit PoolOp(const kernels::PoolShape& shape) : shape_(shape) {}
  bool skips_gradient() const override { return true; }
  void forward(RunState& run) const override {
    run.device.pool_forward(shape_, data(run, inputs[0]), data(run, output));
  }
  void backward(RunState& run) const override {
    std::byte* dx = gradient(run, inputs[0]);
    if (dx == nullptr) return;
    const bool is_maximum = shape_.kind == kernels::Pooling::kMaximum;
    run.device.pool_backward(
        shape_, {is_maximum ? data(run, inputs[0]) : nullptr, gradient(run, output), dx, accumulate[0]});
  }

 private:
  kernels::PoolShape shape_;
};

Value pool(ProgramBuilder& b, Value x, int kernel, int stride, int pad, kernels::Pooling kind) {
  const kernels::PoolShape s{b.batch(), x.height, x.width, x.channels, kernel,
                             stride,    pad,      kind,    b.compute()};
  return b.add_op(std::make_unique<PoolOp>(s), {x}, b.add_value(s.out_height(), s.out_width(), x.channels),
                  kind == kernels::Pooling::kMaximum ? std::vector<int>{x.id} : std::vector<int>{});
}

}  // namespace

Value average_pool(ProgramBuilder& b, Value x, int kernel, int stride) {
  return pool(b, x, kernel, stride, 0, kernels::Pooling::kAverage);
}
Value max_pool(ProgramBuilder& b, Value x, int kernel, int stride, int pad) {
  return pool(b, x, kernel, stride, pad, kernels::Pooling::kMaximum);
}

}  // namespace lpmm
