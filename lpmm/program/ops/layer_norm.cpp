#include "lpmm/program/ops/layer_norm.h"

#include "kernels/sequence.h"
#include "lpmm/program/program_plan.h"
#include "lpmm/program/workspace.h"

namespace lpmm {
namespace {

class LayerNormOp : public Op {
 public:
  LayerNormOp(kernels::RowNormShape shape, int weight, int bias)
      : shape_(shape), weight_(weight), bias_(bias) {}
  std::int64_t workspace_bytes() const override {
    return 4 * kernels::aligned(4 * shape_.width) + plan->device->layer_norm_scratch_bytes(shape_);
  }
  std::int64_t transient_bytes() const override { return 4 * shape_.width; }
  void forward(RunState& run) const override {
    Pieces pieces(run.workspace);
    float* weight = decoded(run, weight_, pieces);
    float* bias = decoded(run, bias_, pieces);
    run.memory.device().layer_norm_forward(shape_, data(run, inputs[0]), weight, bias, data(run, output),
                                           mean(run), mean(run) + shape_.rows);
  }
  void backward(RunState& run) const override {
    Pieces pieces(run.workspace);
    float* weight_gradient = pieces.floats(shape_.width);
    float* bias_gradient = pieces.floats(shape_.width);
    kernels::RowNormBackward args;
    args.x = data(run, inputs[0]);
    args.dy = gradient(run, output);
    args.weight = decoded(run, weight_, pieces);
    args.mean = mean(run);
    args.inverse_deviation = args.mean + shape_.rows;
    args.dx = gradient(run, inputs[0]);
    args.accumulate = accumulate[0];
    args.weight_gradient = weight_gradient;
    args.bias_gradient = bias_gradient;
    run.memory.device().layer_norm_backward(shape_, args,
                                            pieces.take(plan->device->layer_norm_scratch_bytes(shape_)));
    run.gradients->fold(weight_, 0, span_of(weight_gradient, shape_.width), run.microbatch);
    run.gradients->fold(bias_, 0, span_of(bias_gradient, shape_.width), run.microbatch);
  }

 private:
  float* mean(const RunState& run) const { return reinterpret_cast<float*>(saved_data(run)); }
  float* decoded(const RunState& run, int tensor, Pieces& pieces) const {
    float* values = pieces.floats(shape_.width);
    run.memory.decode(tensor, 0, span_of(values, shape_.width));
    return values;
  }
  kernels::RowNormShape shape_;
  int weight_, bias_;
};

}  // namespace

Value layer_norm(ProgramBuilder& b, const std::string& name, Value x) {
  const int weight = b.add_tensor(name + ".weight", {x.channels}, {InitialKind::kConstant, 1});
  const int bias = b.add_tensor(name + ".bias", {x.channels}, {InitialKind::kConstant, 0});
  const kernels::RowNormShape shape{b.rows(x), x.channels, b.compute()};
  return b.add_op(std::make_unique<LayerNormOp>(shape, weight, bias), {x},
                  b.add_value(x.height, x.width, x.channels), {x.id}, 8 * shape.rows);
}

}  // namespace lpmm
