#include "lpmm/program/ops/row_norm.h"

#include <algorithm>

#include "kernels/sequence.h"
#include "lpmm/program/program_plan.h"
#include "lpmm/program/workspace.h"

namespace lpmm {
namespace {

// A norm of channels of a value from `first` on, and its tensors.
struct Norm {
  kernels::RowNormShape shape;
  int weight = -1, bias = -1;  // the latter -1: none, as where it is not centred
  std::int64_t first = 0;
  std::int64_t saved = 0;  // floats that the norms before it save
  std::int64_t saved_floats() const { return (shape.is_centred ? 2 : 1) * shape.rows; }
};

// Norms of channels one behind the other; what is behind the last of them stays.
class RowNormOp : public Op {
 public:
  RowNormOp(std::vector<Norm> norms, std::int64_t positions, int channels)
      : norms_(std::move(norms)), rest_{positions, channels, channels, channels} {
    for (Norm& norm : norms_) {
      norm.saved = saved_floats_;
      saved_floats_ += norm.saved_floats();
      rest_.columns -= norm.shape.beside * norm.shape.width;
    }
  }
  std::int64_t saved_bytes() const { return 4 * saved_floats_; }
  std::int64_t workspace_bytes() const override {
    std::int64_t bytes = 0;
    for (const Norm& norm : norms_) {
      bytes = std::max(bytes, 4 * kernels::aligned(4 * norm.shape.width) +
                                  plan->device->row_norm_scratch_bytes(norm.shape));
    }
    return bytes;
  }
  std::int64_t vector_gradient_bytes() const override {
    Pieces pieces(nullptr);
    for (const Norm& norm : norms_) lay_out_gradients(pieces, norm);
    return pieces.used();
  }
  std::int64_t transient_bytes() const override {
    std::int64_t width = 0;
    for (const Norm& norm : norms_) width = std::max(width, norm.shape.width);
    return 4 * width;
  }
  void forward(RunState& run) const override {
    std::byte *x = data(run, inputs[0]), *y = data(run, output);
    for (const Norm& norm : norms_) {
      Pieces pieces(run.workspace);
      const float* weight = decoded(run, norm, norm.weight, pieces);
      const float* bias = bias_of(run, norm, pieces);
      run.device.row_norm_forward(norm.shape, {at(x, norm.first), weight, bias, at(y, norm.first),
                                               mean(run, norm), inverse_deviation(run, norm)});
    }
    copy_rest(run, x, y, false);
  }
  void backward(RunState& run) const override {
    std::byte *dy = gradient(run, output), *dx = gradient(run, inputs[0]);
    Pieces waiting_pieces(waiting_data(run));
    for (const Norm& norm : norms_) {
      Pieces pieces(run.workspace);
      const std::int64_t width = norm.shape.width;
      const Gradients of = lay_out_gradients(folds_later() ? waiting_pieces : pieces, norm);
      kernels::RowNormBackward args;
      args.x = at(data(run, inputs[0]), norm.first);
      args.dy = at(dy, norm.first);
      args.weight = decoded(run, norm, norm.weight, pieces);
      args.mean = mean(run, norm);
      args.inverse_deviation = inverse_deviation(run, norm);
      args.dx = at(dx, norm.first);
      args.accumulate = accumulate[0];
      args.weight_gradient = of.weight;
      args.bias_gradient = of.bias;
      run.device.row_norm_backward(norm.shape, args,
                                   pieces.take(plan->device->row_norm_scratch_bytes(norm.shape)));
      fold_vector(run, norm.weight, span_of(of.weight, width));
      if (norm.bias >= 0) fold_vector(run, norm.bias, span_of(of.bias, width));
    }
    copy_rest(run, dy, dx, accumulate[0]);
  }

 private:
  struct Gradients {
    float *weight, *bias;
  };
  static Gradients lay_out_gradients(Pieces& p, const Norm& norm) {
    return {p.floats(norm.shape.width), norm.shape.is_centred ? p.floats(norm.shape.width) : nullptr};
  }
  std::byte* at(std::byte* values, std::int64_t channel) const {
    return values + channel * kernels::value_bytes(plan->compute);
  }
  float* inverse_deviation(const RunState& run, const Norm& norm) const {
    return reinterpret_cast<float*>(saved_data(run)) + norm.saved;
  }
  float* mean(const RunState& run, const Norm& norm) const {
    return norm.shape.is_centred ? inverse_deviation(run, norm) + norm.shape.rows : nullptr;
  }
  const float* decoded(const RunState& run, const Norm& norm, int tensor, Pieces& pieces) const {
    return run.memory.decoded(tensor, span_of(pieces.floats(norm.shape.width), norm.shape.width));
  }
  // A layer norm without one adds zeros.
  const float* bias_of(const RunState& run, const Norm& norm, Pieces& pieces) const {
    if (!norm.shape.is_centred) return nullptr;
    if (norm.bias >= 0) return decoded(run, norm, norm.bias, pieces);
    float* const zeros = pieces.floats(norm.shape.width);
    run.device.fill_with_zeros(zeros, 4 * norm.shape.width);
    return zeros;
  }
  void copy_rest(const RunState& run, std::byte* from, std::byte* to, bool adds) const {
    if (rest_.columns == 0) return;
    const std::int64_t first = rest_.in_stride - rest_.columns;
    kernels::Rows rest = rest_;
    rest.accumulate = adds;
    run.device.copy_or_add_rows(plan->compute, rest, at(from, first), at(to, first));
  }
  std::vector<Norm> norms_;
  kernels::Rows rest_;
  std::int64_t saved_floats_ = 0;
};

Value add_norms(ProgramBuilder& b, std::vector<Norm> norms, Value x) {
  auto op = std::make_unique<RowNormOp>(std::move(norms), b.rows(x), x.channels);
  const std::int64_t saved = op->saved_bytes();
  return b.add_op(std::move(op), {x}, b.add_value(x.height, x.width, x.channels), {x.id}, saved);
}

int norm_weight(ProgramBuilder& b, const std::string& name, const kernels::RowNormShape& shape) {
  return b.add_tensor(name + ".weight", {shape.width}, {InitialKind::kConstant, shape.adds_one ? 0.0 : 1.0});
}

Value row_norm(ProgramBuilder& b, const std::string& name, Value x, double epsilon, bool is_centred,
               NormWeight kind, bool has_bias) {
  Norm norm{.shape = {b.rows(x), x.channels, b.compute(), epsilon, is_centred}};
  norm.shape.adds_one = kind == NormWeight::kAboveOne;
  norm.weight = norm_weight(b, name, norm.shape);
  if (has_bias) norm.bias = b.add_tensor(name + ".bias", {x.channels}, {InitialKind::kConstant, 0});
  return add_norms(b, {norm}, x);
}

}  // namespace

Value layer_norm(ProgramBuilder& b, const std::string& name, Value x, double epsilon, bool has_bias) {
  return row_norm(b, name, x, epsilon, true, NormWeight::kFactor, has_bias);
}

Value rms_norm(ProgramBuilder& b, const std::string& name, Value x, double epsilon, NormWeight kind) {
  return row_norm(b, name, x, epsilon, false, kind, false);
}

Value head_norms(ProgramBuilder& b, const std::vector<HeadNorm>& norms, Value x, double epsilon,
                 NormWeight kind) {
  std::vector<Norm> list;
  std::int64_t first = 0;
  for (const HeadNorm& norm : norms) {
    list.push_back({.shape = {norm.heads * b.rows(x), norm.width, b.compute(), epsilon, false, norm.heads,
                              x.channels, kind == NormWeight::kAboveOne},
                    .first = first});
    list.back().weight = norm_weight(b, norm.name, list.back().shape);
    first += std::int64_t{norm.heads} * norm.width;
  }
  return add_norms(b, std::move(list), x);
}

}  // namespace lpmm
