#include "lpmm/program/ops/row_norm.h"

#include "kernels/sequence.h"
#include "lpmm/program/program_plan.h"
#include "lpmm/program/workspace.h"

namespace lpmm {
namespace {

class RowNormOp : public Op {
 public:
  // `bias` is a tensor, or -1 where the norm is not centred.
  RowNormOp(kernels::RowNormShape shape, int weight, int bias)
      : shape_(shape), weight_(weight), bias_(bias) {}
  std::int64_t workspace_bytes() const override {
    return 4 * kernels::aligned(4 * shape_.width) + plan->device->row_norm_scratch_bytes(shape_);
  }
  std::int64_t transient_bytes() const override { return 4 * shape_.width; }
  void forward(RunState& run) const override {
    Pieces pieces(run.workspace);
    const float* weight = decoded(run, weight_, pieces);
    const float* bias = bias_ < 0 ? nullptr : decoded(run, bias_, pieces);
    run.memory.device().row_norm_forward(shape_, data(run, inputs[0]), weight, bias, data(run, output),
                                         mean(run), inverse_deviation(run));
  }
  void backward(RunState& run) const override {
    Pieces pieces(run.workspace);
    float* weight_gradient = pieces.floats(shape_.width);
    float* bias_gradient = bias_ < 0 ? nullptr : pieces.floats(shape_.width);
    kernels::RowNormBackward args;
    args.x = data(run, inputs[0]);
    args.dy = gradient(run, output);
    args.weight = decoded(run, weight_, pieces);
    args.mean = mean(run);
    args.inverse_deviation = inverse_deviation(run);
    args.dx = gradient(run, inputs[0]);
    args.accumulate = accumulate[0];
    args.weight_gradient = weight_gradient;
    args.bias_gradient = bias_gradient;
    run.memory.device().row_norm_backward(shape_, args,
                                          pieces.take(plan->device->row_norm_scratch_bytes(shape_)));
    run.gradients->fold(weight_, 0, span_of(weight_gradient, shape_.width), run.microbatch);
    if (bias_ >= 0) run.gradients->fold(bias_, 0, span_of(bias_gradient, shape_.width), run.microbatch);
  }
  std::int64_t saved_bytes() const { return (shape_.is_centred ? 8 : 4) * shape_.rows; }

 private:
  float* inverse_deviation(const RunState& run) const { return reinterpret_cast<float*>(saved_data(run)); }
  float* mean(const RunState& run) const {
    return shape_.is_centred ? inverse_deviation(run) + shape_.rows : nullptr;
  }
  const float* decoded(const RunState& run, int tensor, Pieces& pieces) const {
    return run.memory.decoded(tensor, span_of(pieces.floats(shape_.width), shape_.width));
  }
  kernels::RowNormShape shape_;
  int weight_, bias_;
};

Value row_norm(ProgramBuilder& b, const std::string& name, Value x, double epsilon, bool is_centred) {
  const int weight = b.add_tensor(name + ".weight", {x.channels}, {InitialKind::kConstant, 1});
  const int bias = is_centred ? b.add_tensor(name + ".bias", {x.channels}, {InitialKind::kConstant, 0}) : -1;
  const kernels::RowNormShape shape{b.rows(x), x.channels, b.compute(), epsilon, is_centred};
  auto op = std::make_unique<RowNormOp>(shape, weight, bias);
  const std::int64_t saved = op->saved_bytes();
  return b.add_op(std::move(op), {x}, b.add_value(x.height, x.width, x.channels), {x.id}, saved);
}

}  // namespace

Value layer_norm(ProgramBuilder& b, const std::string& name, Value x, double epsilon) {
  return row_norm(b, name, x, epsilon, true);
}

Value rms_norm(ProgramBuilder& b, const std::string& name, Value x, double epsilon) {
  return row_norm(b, name, x, epsilon, false);
}

}  // namespace lpmm
