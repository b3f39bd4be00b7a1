#include "lpmm/program/ops/sequence/mean.h"

#include "kernels/sequence.h"
#include "lpmm/program/ops/sequence/lengths.h"
#include "lpmm/program/program_plan.h"

namespace lpmm {
namespace {

class MeanOp : public Op {
 public:
  explicit MeanOp(const kernels::MeanShape& shape) : shape_(shape) {}
  std::int64_t workspace_bytes() const override { return lengths_room(*plan->device, batch()); }
  std::int64_t host_workspace_bytes() const override { return lengths_host_room(batch()); }
  void forward(RunState& run) const override {
    run.device.mean_forward(shape_of(run), data(run, inputs[0]), data(run, output));
  }
  void backward(RunState& run) const override {
    run.device.mean_backward(shape_of(run), gradient(run, output), gradient(run, inputs[0]), accumulate[0]);
  }

 private:
  int batch() const { return static_cast<int>(shape_.batch); }
  kernels::MeanShape shape_of(const RunState& run) const {
    kernels::MeanShape shape = shape_;
    shape.lengths = lengths_of(run, batch(), static_cast<int>(shape.length), run.workspace);
    return shape;
  }
  kernels::MeanShape shape_;
};

}  // namespace

Value mean(ProgramBuilder& b, Value x, bool is_weighted) {
  const kernels::MeanShape shape{.batch = b.batch(),
                                 .length = x.width,
                                 .width = x.channels,
                                 .type = b.compute(),
                                 .is_weighted = is_weighted};
  return b.add_op(std::make_unique<MeanOp>(shape), {x}, b.add_value(1, 1, x.channels), {});
}

}  // namespace lpmm
