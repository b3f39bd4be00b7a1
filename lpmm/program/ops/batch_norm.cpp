#include "lpmm/program/ops/batch_norm.h"

#include <stdexcept>

#include "kernels/compute.h"
#include "lpmm/program/program_plan.h"
#include "lpmm/program/workspace.h"

namespace lpmm {

using kernels::aligned;

namespace {

class BatchNormOp : public Op {
 public:
  bool is_pure() const override { return false; }
  BatchNormOp(kernels::BatchNormShape shape, bool relu, bool frozen, int weight, int bias, int mean,
              int variance)
      : shape_(shape),
        relu_(relu),
        frozen_(frozen),
        weight_(weight),
        bias_(bias),
        mean_(mean),
        variance_(variance) {}
  std::int64_t workspace_bytes() const override {
    return 4 * aligned(4 * shape_.channels) + plan->device->batch_norm_scratch_bytes(shape_);
  }
  std::int64_t transient_bytes() const override { return 4 * shape_.channels; }
  std::int64_t vector_gradient_bytes() const override { return 2 * aligned(4 * shape_.channels); }
  void forward(RunState& run) const override {
    const std::int64_t n = shape_.channels;
    Pieces pieces(run.workspace);
    kernels::BatchNormScale scale;
    scale.scale = pieces.floats(n);
    scale.shift = pieces.floats(n);
    scale.weight = run.memory.decoded(weight_, span_of(scale.scale, n));
    scale.bias = run.memory.decoded(bias_, span_of(scale.shift, n));
    auto* mean = reinterpret_cast<float*>(saved_data(run));
    float* inverse_deviation = mean + n;
    Device& device = run.device;
    if (run.proposals != nullptr && !frozen_) {
      Buffers& buffers = *run.proposals;
      // A later microbatch builds on the earlier one's proposal.
      device.batch_norm_statistics(shape_, data(run, inputs[0]),
                                   {mean, inverse_deviation, scale, buffers.proposal(mean_).data(),
                                    buffers.proposal(variance_).data(), buffers.finite(mean_)},
                                   pieces.take(plan->device->batch_norm_scratch_bytes(shape_)));
    } else {
      device.copy(mean, run.buffers.value(mean_).data(), 4 * n);
      device.copy(inverse_deviation, run.buffers.value(variance_).data(), 4 * n);
      device.batch_norm_prepare(shape_.channels, mean, inverse_deviation, scale);
    }
    device.batch_norm_apply(shape_,
                            {data(run, inputs[0]), scale.scale, scale.shift,
                             inputs.size() > 1 ? data(run, inputs[1]) : nullptr, relu_, data(run, output)});
  }
  void backward(RunState& run) const override {
    const std::int64_t n = shape_.channels;
    Pieces pieces(run.workspace);
    float* weight = pieces.floats(n);
    Pieces waiting_pieces(waiting_data(run));
    Pieces& room = folds_later() ? waiting_pieces : pieces;
    float* weight_gradient = room.floats(n);
    float* bias_gradient = room.floats(n);
    kernels::BatchNormBackward args;
    args.x = data(run, inputs[0]);
    args.y = data(run, output);
    args.dy = gradient(run, output);
    args.relu = relu_;
    args.frozen = frozen_;
    args.mean = reinterpret_cast<const float*>(saved_data(run));
    args.inverse_deviation = args.mean + n;
    args.weight = run.memory.decoded(weight_, span_of(weight, n));
    args.weight_gradient = weight_gradient;
    args.bias_gradient = bias_gradient;
    args.dx = gradient(run, inputs[0]);
    args.accumulate = accumulate[0];
    if (inputs.size() > 1) {
      args.dresidual = gradient(run, inputs[1]);
      args.accumulate_residual = accumulate[1];
    }
    run.device.batch_norm_backward(shape_, args, pieces.take(plan->device->batch_norm_scratch_bytes(shape_)));
    fold_vector(run, weight_, span_of(weight_gradient, n));
    fold_vector(run, bias_, span_of(bias_gradient, n));
  }

 private:
  kernels::BatchNormShape shape_;
  bool relu_, frozen_;
  int weight_, bias_, mean_, variance_;
};

}  // namespace

Value batch_norm(ProgramBuilder& b, const std::string& name, Value x, bool relu, Value residual,
                 const BatchNormOptions& options) {
  const bool adds = residual.id >= 0;
  if (adds && (!b.has_gradient(x) || !b.has_gradient(residual) || residual.id == x.id)) {
    throw std::logic_error(name + ": a norm with a residual needs two different values that have gradients");
  }
  const int weight =
      b.add_tensor(name + ".weight", {x.channels}, {InitialKind::kConstant, options.initial_weight});
  const int bias = b.add_tensor(name + ".bias", {x.channels}, {InitialKind::kConstant, 0});
  const int mean = b.add_buffer(name + ".running_mean", {x.channels}, 0);
  const int variance = b.add_buffer(name + ".running_var", {x.channels}, 1);
  const kernels::BatchNormShape shape{b.rows(x), x.channels, b.compute()};
  std::vector<Value> inputs{x};
  if (adds) inputs.push_back(residual);
  const Value y = b.add_value(x.height, x.width, x.channels);
  std::vector<int> kept{x.id};
  if (relu) kept.push_back(y.id);
  return b.add_op(std::make_unique<BatchNormOp>(shape, relu, options.frozen, weight, bias, mean, variance),
                  inputs, y, std::move(kept), std::int64_t{8} * x.channels);
}

}  // namespace lpmm
