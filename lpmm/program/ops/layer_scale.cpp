#include "lpmm/program/ops/layer_scale.h"

#include "kernels/compute.h"
#include "lpmm/program/program_plan.h"
#include "lpmm/program/workspace.h"

namespace lpmm {
namespace {

class LayerScaleOp : public Op {
 public:
  LayerScaleOp(std::int64_t rows, std::int64_t columns, int tensor)
      : rows_(rows), columns_(columns), tensor_(tensor) {}
  std::int64_t workspace_bytes() const override {
    return largest_layout([&](Pieces& p) { Room(*this, p); });
  }
  std::int64_t transient_bytes() const override { return 4 * columns_; }
  void forward(RunState& run) const override { scale(run, data(run, inputs[0]), data(run, output), false); }
  void backward(RunState& run) const override {
    scale(run, gradient(run, output), gradient(run, inputs[0]), accumulate[0]);
    Pieces pieces(run.workspace);
    const Room room(*this, pieces);
    run.device.bias_backward({.of = {plan->compute, rows_ * columns_},
                              .columns = columns_,
                              .dy = gradient(run, output),
                              .bias_gradient = room.factors,
                              .x = data(run, inputs[0])});
    run.step->fold(tensor_, 0, span_of(room.factors, columns_), run.microbatch);
  }

 private:
  struct Room {
    Room(const LayerScaleOp& op, Pieces& p) : factors(p.floats(op.columns_)) {}
    float* factors;
  };
  void scale(const RunState& run, const std::byte* x, std::byte* y, bool adds) const {
    Pieces pieces(run.workspace);
    const Room room(*this, pieces);
    run.memory.decode(tensor_, 0, span_of(room.factors, columns_));
    run.device.scale({.of = {plan->compute, rows_ * columns_},
                      .x = x,
                      .y = y,
                      .accumulate = adds,
                      .columns = columns_,
                      .by_column = room.factors});
  }

  std::int64_t rows_, columns_;
  int tensor_;
};

}  // namespace

Value layer_scale(ProgramBuilder& b, const std::string& name, Value x, double initial) {
  const int tensor = b.add_tensor(name, {x.channels}, {InitialKind::kConstant, initial});
  const std::int64_t rows = std::int64_t{1} * b.batch() * x.height * x.width;
  return b.add_op(std::make_unique<LayerScaleOp>(rows, x.channels, tensor), {x},
                  b.add_value(x.height, x.width, x.channels), {x.id});
}

}  // namespace lpmm
