#include "lpmm/program/ops/linear.h"

#include <cmath>

#include "kernels/compute.h"
#include "lpmm/program/panelled_weight.h"
#include "lpmm/program/program_plan.h"
#include "lpmm/program/workspace.h"

namespace lpmm {

using kernels::value_bytes;

namespace {

// y = act(x W^T + bias) on rows of values. W is decoded, and its gradient folded, by panels of output rows:
// neither is ever whole.
class LinearOp : public Op {
 public:
  // `bias` is a tensor, or -1 where there is none, and no ReLU.
  LinearOp(std::int64_t rows, Compute compute, std::int64_t inputs, std::int64_t outputs, bool relu,
           int weight, int bias, std::int64_t panel)
      : rows_(rows),
        compute_(compute),
        in_(inputs),
        out_(outputs),
        relu_(relu),
        weight_(weight, compute, outputs, inputs, panel, outputs),
        bias_(bias) {}

  std::int64_t workspace_bytes() const override {
    return largest_layout([&](Pieces& p) { lay_out_forward(p); }, [&](Pieces& p) { lay_out_backward(p); });
  }
  std::int64_t transient_bytes() const override { return weight_.transient_bytes(); }
  bool skips_gradient() const override { return true; }

  void forward(RunState& run) const override {
    Pieces pieces(run.workspace);
    const Forward f = lay_out_forward(pieces);
    Device& device = run.memory.device();
    weight_.for_each_panel([&](std::int64_t row, std::int64_t rows) {
      device.matmul({.transpose_b = true,
                     .m = rows_,
                     .n = rows,
                     .k = in_,
                     .type = compute_,
                     .a = data(run, inputs[0]),
                     .a_stride = in_,
                     .b = weight_.decode(run, row, rows, f.panel),
                     .b_stride = in_,
                     .c = f.y + row,
                     .c_stride = out_},
                    f.matmul);
    });
    if (bias_ < 0) return device.from_float(compute_, rows_ * out_, f.y, data(run, output));
    run.memory.decode(bias_, 0, span_of(f.bias, out_));
    device.bias_forward(compute_, rows_, out_, f.y, f.bias, relu_, data(run, output));
  }

  void backward(RunState& run) const override {
    Pieces pieces(run.workspace);
    const Backward b = lay_out_backward(pieces);
    Device& device = run.memory.device();
    const std::byte* g = before_bias(run, b);
    std::byte* dx = gradient(run, inputs[0]);
    PanelledWeight::Folder folder(weight_, run, b.gradient);
    weight_.for_each_panel([&](std::int64_t row, std::int64_t rows) {
      if (dx != nullptr) {
        device.matmul({.m = rows_,
                       .n = in_,
                       .k = rows,
                       .type = compute_,
                       .a = g + row * value_bytes(compute_),
                       .a_stride = out_,
                       .b = weight_.decode(run, row, rows, b.panel),
                       .b_stride = in_,
                       .c = b.dx,
                       .c_stride = in_,
                       .accumulate = row > 0},
                      b.matmul);
      }
      if (weight_.is_frozen(run)) return;
      device.matmul({.transpose_a = true,
                     .m = rows,
                     .n = in_,
                     .k = rows_,
                     .type = compute_,
                     .a = g + row * value_bytes(compute_),
                     .a_stride = out_,
                     .b = data(run, inputs[0]),
                     .b_stride = in_,
                     .c = folder.rows_at(row),
                     .c_stride = in_},
                    b.matmul);
      folder.fold(row, rows);
    });
    if (dx == nullptr) return;
    if (accumulate[0]) {
      device.from_float(compute_, rows_ * in_, b.dx, b.narrow);
      device.copy_or_add(compute_, rows_ * in_, b.narrow, dx, true);
    } else {
      device.from_float(compute_, rows_ * in_, b.dx, dx);
    }
  }

 private:
  struct Forward {
    std::byte* panel;
    float *y, *bias;
    std::byte* matmul;
  };
  struct Backward {
    std::byte *panel, *g;
    float *bias, *gradient, *dx;
    std::byte *narrow, *matmul;
  };
  // The gradient of what the bias was added to; that of the bias is folded.
  const std::byte* before_bias(RunState& run, const Backward& b) const {
    if (bias_ < 0) return gradient(run, output);
    const void* g = run.memory.device().bias_backward(compute_, rows_, out_, data(run, output),
                                                      gradient(run, output), relu_, b.g, b.bias);
    run.gradients->fold(bias_, 0, span_of(b.bias, out_), run.microbatch);
    return static_cast<const std::byte*>(g);
  }
  Forward lay_out_forward(Pieces& p) const {
    return {p.take(weight_.panel_bytes()), p.floats(rows_ * out_), p.floats(out_),
            p.take(weight_.matmul_bytes(rows_, *plan->device))};
  }
  Backward lay_out_backward(Pieces& p) const {
    return {p.take(weight_.panel_bytes()),
            p.take(relu_ ? rows_ * out_ * value_bytes(compute_) : 0),
            p.floats(out_),
            p.floats(weight_.gradient_floats()),
            p.floats(rows_ * in_),
            p.take(rows_ * in_ * value_bytes(compute_)),
            p.take(weight_.matmul_bytes(rows_, *plan->device))};
  }

  std::int64_t rows_;
  Compute compute_;
  std::int64_t in_, out_;
  bool relu_;
  PanelledWeight weight_;
  int bias_;
};

Value flat_linear(ProgramBuilder& b, const std::string& name, Value x, int outputs, bool relu,
                  TensorKind kind) {
  const double bound = 1 / std::sqrt(static_cast<double>(x.values()));
  const int weight =
      b.add_tensor(name + ".weight", {outputs, x.values()}, {InitialKind::kUniform, bound}, kind);
  const int bias = b.add_tensor(name + ".bias", {outputs}, {InitialKind::kUniform, bound});
  const Value y = b.add_value(1, 1, outputs);
  std::vector<int> kept{x.id};
  if (relu) kept.push_back(y.id);
  return b.add_op(std::make_unique<LinearOp>(b.batch(), b.compute(), x.values(), outputs, relu, weight, bias,
                                             b.panel_sizes().weights),
                  {x}, y, std::move(kept));
}

}  // namespace

Value linear(ProgramBuilder& b, const std::string& name, Value x, int outputs, bool relu) {
  return flat_linear(b, name, x, outputs, relu, TensorKind::kHidden);
}

Value classifier(ProgramBuilder& b, const std::string& name, Value x, int classes) {
  return flat_linear(b, name, x, classes, false, TensorKind::kHead);
}

Value projection(ProgramBuilder& b, const std::string& name, Value x, int outputs, double deviation,
                 bool bias, int parts, int heads) {
  const int weight = b.add_tensor(name + ".weight", {outputs, x.channels}, {InitialKind::kNormal, deviation},
                                  TensorKind::kHidden, parts, false, heads);
  const int added = bias ? b.add_tensor(name + ".bias", {outputs}, {InitialKind::kConstant, 0}) : -1;
  return b.add_op(std::make_unique<LinearOp>(b.rows(x), b.compute(), x.channels, outputs, false, weight,
                                             added, b.panel_sizes().weights),
                  {x}, b.add_value(x.height, x.width, outputs), {x.id});
}

}  // namespace lpmm
