#include "lpmm/program/ops/convolution.h"

#include <cmath>

#include "kernels/compute.h"
#include "lpmm/program/program_plan.h"
#include "lpmm/program/workspace.h"

namespace lpmm {

using kernels::aligned;

namespace {

class ConvolutionOp : public Op {
 public:
  ConvolutionOp(const kernels::ConvShape& shape, int tensor) : shape_(shape), tensor_(tensor) {}
  void prepare(Libraries& libraries) override {
    const auto key =
        std::make_tuple(shape_.height, shape_.width, shape_.in, shape_.out, shape_.kernel, shape_.stride);
    std::shared_ptr<const kernels::Convolution>& shared = libraries[key];
    if (shared == nullptr) {
      shared = plan->device->convolution(shape_, plan->compute);
    }
    convolution_ = shared;
  }
  std::int64_t workspace_bytes() const override {
    return 2 * aligned(4 * weights()) + convolution_->scratch_bytes();
  }
  std::int64_t transient_bytes() const override { return 4 * weights(); }
  bool skips_gradient() const override { return true; }
  void forward(RunState& run) const override {
    Pieces pieces(run.workspace);
    float* w = decoded(run, pieces);
    convolution_->forward(data(run, inputs[0]), w, data(run, output),
                          pieces.take(convolution_->scratch_bytes()));
  }
  void backward(RunState& run) const override {
    Pieces pieces(run.workspace);
    float* w = decoded(run, pieces);
    float* g = pieces.floats(weights());
    convolution_->backward(data(run, inputs[0]), w, gradient(run, output), gradient(run, inputs[0]),
                           accumulate[0], g, pieces.take(convolution_->scratch_bytes()));
    run.gradients->fold(tensor_, 0, span_of(g, weights()), run.microbatch);
  }

 private:
  std::int64_t weights() const { return shape_.weights(); }
  float* decoded(RunState& run, Pieces& pieces) const {
    float* w = pieces.floats(weights());
    run.memory.decode(tensor_, 0, span_of(w, weights()));
    return w;
  }
  kernels::ConvShape shape_;
  std::shared_ptr<const kernels::Convolution> convolution_;
  int tensor_;
};

}  // namespace

Value convolution(ProgramBuilder& b, const std::string& name, Value x, int channels, int kernel, int stride) {
  const kernels::ConvShape shape{b.batch(), x.height, x.width, x.channels,
                                 channels,  kernel,   stride,  kernel / 2};
  const int weight =
      b.add_tensor(name + ".weight", {channels, x.channels, kernel, kernel},
                   {InitialKind::kNormal, std::sqrt(2.0 / (1.0 * channels * kernel * kernel))});
  return b.add_op(std::make_unique<ConvolutionOp>(shape, weight), {x},
                  b.add_value(shape.out_height(), shape.out_width(), channels), {x.id});
}

}  // namespace lpmm
