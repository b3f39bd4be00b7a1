#include "lpmm/program/ops/linear.h"

#include <algorithm>
#include <cmath>

#include "kernels/compute.h"
#include "lpmm/program/panelled_weight.h"
#include "lpmm/program/program_plan.h"
#include "lpmm/program/workspace.h"

namespace lpmm {

using kernels::value_bytes;

namespace {

// A weight, its bias or -1, and how many outputs they make.
struct LinearPart {
  int weight, bias;
  std::int64_t outputs;
};

// y = act(x W^T + bias) on rows of values, W being several weights one above the other. They are decoded, and
// their gradients folded, by panels of output rows: none is ever whole.
class LinearOp : public Op {
 public:
  // All parts have a bias, or none has one, and no ReLU.
  LinearOp(std::int64_t rows, ValueType compute, std::int64_t inputs, bool relu,
           const std::vector<LinearPart>& parts, std::int64_t panel)
      : rows_(rows), compute_(compute), in_(inputs), relu_(relu), has_bias_(parts.front().bias >= 0) {
    for (const LinearPart& p : parts) {
      parts_.push_back(
          {PanelledWeight(p.weight, compute, p.outputs, inputs, panel, p.outputs), p.bias, out_, p.outputs});
      out_ += p.outputs;
    }
  }

  std::int64_t workspace_bytes() const override {
    return largest_layout([&](Pieces& p) { lay_out_forward(p); }, [&](Pieces& p) { lay_out_backward(p); });
  }
  std::int64_t transient_bytes() const override {
    return most([](const Part& part) { return part.weight.transient_bytes(); });
  }
  std::int64_t vector_gradient_bytes() const override { return has_bias_ ? 4 * out_ : 0; }
  bool skips_gradient() const override { return true; }

  void forward(RunState& run) const override {
    Pieces pieces(run.workspace);
    const Forward f = lay_out_forward(pieces);
    Device& device = run.device;
    std::byte* y = data(run, output);
    for (const Part& part : parts_) {
      const float* bias =
          has_bias_ ? run.memory.decoded(part.bias, span_of(f.bias + part.first, part.outputs)) : nullptr;
      part.weight.multiply(run, {.rows = rows_,
                                 .x = data(run, inputs[0]),
                                 .y = y + part.first * value_bytes(compute_),
                                 .y_stride = out_,
                                 .y_type = compute_,
                                 .bias = bias,
                                 .panel = f.panel,
                                 .matmul = f.matmul});
    }
    if (relu_) device.activate({.type = compute_, .rows = rows_, .width = out_, .x = y, .y = y});
  }

  void backward(RunState& run) const override {
    Pieces pieces(run.workspace);
    const Backward b = lay_out_backward(pieces);
    const bool is_direct = this->is_direct();
    Device& device = run.device;
    const std::byte* g = before_bias(run, b);
    std::byte* dx = gradient(run, inputs[0]);
    std::byte* sums = is_direct ? dx : reinterpret_cast<std::byte*>(b.dx);
    for (const Part& part : parts_) {
      part.weight.backward(run, {.rows = rows_,
                                 .g = g + part.first * value_bytes(compute_),
                                 .g_stride = out_,
                                 .x = data(run, inputs[0]),
                                 .dx = dx == nullptr ? nullptr : sums,
                                 .dx_type = is_direct ? compute_ : ValueType::kFp32,
                                 .accumulate = part.first > 0,
                                 .panel = b.panel,
                                 .matmul = b.matmul,
                                 .gradient = b.gradient});
    }
    if (dx == nullptr || is_direct) return;
    if (adds()) {
      device.from_float(compute_, rows_ * in_, b.dx, b.narrow);
      device.copy_or_add({compute_, rows_ * in_}, b.narrow, dx, true);
    } else {
      device.from_float(compute_, rows_ * in_, b.dx, dx);
    }
  }

 private:
  struct Part {
    PanelledWeight weight;
    int bias;
    std::int64_t first, outputs;  // columns of the output
  };
  struct Forward {
    std::byte* panel;
    float* bias;
    std::byte* matmul;
  };
  struct Backward {
    std::byte *panel, *g;
    float *bias, *gradient, *dx;
    std::byte *narrow, *matmul;
  };
  // The gradient of what the biases were added to; those of the biases are folded, or wait.
  const std::byte* before_bias(RunState& run, const Backward& b) const {
    if (!has_bias_) return gradient(run, output);
    float* const bias = folds_later() ? reinterpret_cast<float*>(waiting_data(run)) : b.bias;
    const void* g = run.device.bias_backward({{compute_, rows_ * out_},
                                              out_,
                                              data(run, output),
                                              gradient(run, output),
                                              relu_ ? b.g : nullptr,
                                              bias});
    for (const Part& part : parts_) {
      fold_vector(run, part.bias, span_of(bias + part.first, part.outputs));
    }
    return static_cast<const std::byte*>(g);
  }
  template <class Of>
  std::int64_t most(const Of& of) const {
    std::int64_t value = 0;
    for (const Part& part : parts_) value = std::max(value, of(part));
    return value;
  }
  std::int64_t panel_bytes() const {
    return most([](const Part& part) { return part.weight.panel_bytes(); });
  }
  // Returns true if the input's gradient holds something already; without backward there is none.
  bool adds() const { return !accumulate.empty() && accumulate[0]; }
  // Returns true if one product makes all of the input's gradient, in its type.
  bool is_direct() const {
    const PanelledWeight& first = parts_.front().weight;
    return parts_.size() == 1 && first.rows() == first.panel_rows() && !adds();
  }
  // The scratch bytes of a product of so many columns that is written straight to its destination.
  std::int64_t rounded_bytes(std::int64_t columns) const {
    return plan->device->matmul_scratch_bytes(
        {.m = rows_, .n = columns, .type = compute_, .c_type = compute_});
  }
  Forward lay_out_forward(Pieces& p) const {
    const std::int64_t columns = most([](const Part& part) { return part.weight.panel_rows(); });
    return {p.take(panel_bytes()), p.floats(out_), p.take(rounded_bytes(columns))};
  }
  Backward lay_out_backward(Pieces& p) const {
    const std::int64_t in = is_direct() ? 0 : rows_ * in_, rounded = is_direct() ? rounded_bytes(in_) : 0;
    const auto matmul = [&](const Part& part) { return part.weight.matmul_bytes(rows_, *plan->device); };
    return {p.take(panel_bytes()),
            p.take(relu_ ? rows_ * out_ * value_bytes(compute_) : 0),
            p.floats(folds_later() ? 0 : out_),
            p.floats(most([](const Part& part) { return part.weight.gradient_floats(); })),
            p.floats(in),
            p.take(adds() ? in * value_bytes(compute_) : 0),
            p.take(std::max(most(matmul), rounded))};
  }

  std::int64_t rows_;
  ValueType compute_;
  std::int64_t in_, out_ = 0;
  bool relu_, has_bias_;
  std::vector<Part> parts_;
};

Value flat_linear(ProgramBuilder& b, const std::string& name, Value x, int outputs, bool relu,
                  TensorKind kind, bool has_bias) {
  const double bound = 1 / std::sqrt(static_cast<double>(x.values()));
  const int weight =
      b.add_tensor(name + ".weight", {outputs, x.values()}, {InitialKind::kUniform, bound}, kind);
  const int bias = has_bias ? b.add_tensor(name + ".bias", {outputs}, {InitialKind::kUniform, bound}) : -1;
  const Value y = b.add_value(1, 1, outputs);
  std::vector<int> kept{x.id};
  if (relu) kept.push_back(y.id);
  const std::vector<LinearPart> parts{{weight, bias, outputs}};
  return b.add_op(
      std::make_unique<LinearOp>(b.batch(), b.compute(), x.values(), relu, parts, b.panel_sizes().weights),
      {x}, y, std::move(kept));
}

}  // namespace

Value linear(ProgramBuilder& b, const std::string& name, Value x, int outputs, bool relu) {
  return flat_linear(b, name, x, outputs, relu, TensorKind::kHidden, true);
}

Value classifier(ProgramBuilder& b, const std::string& name, Value x, int classes, bool bias) {
  return flat_linear(b, name, x, classes, false, TensorKind::kHead, bias);
}

Value projection(ProgramBuilder& b, const std::string& name, Value x, int outputs, double deviation,
                 bool bias, int parts, int heads) {
  return projections(b, {{.name = name, .outputs = outputs, .parts = parts, .heads = heads}}, x, deviation,
                     bias);
}

Value projections(ProgramBuilder& b, const std::vector<Projection>& list, Value x, double deviation,
                  bool bias) {
  std::vector<LinearPart> parts;
  int outputs = 0;
  for (const Projection& p : list) {
    const std::vector<std::int64_t> plain{p.outputs, x.channels};
    const int weight =
        b.add_tensor(p.name + ".weight", p.shape.empty() ? plain : p.shape, {InitialKind::kNormal, deviation},
                     TensorKind::kHidden, p.parts, false, p.heads);
    const int added = bias ? b.add_tensor(p.name + ".bias", {p.outputs}, {InitialKind::kConstant, 0}) : -1;
    parts.push_back({weight, added, p.outputs});
    outputs += p.outputs;
  }
  return b.add_op(
      std::make_unique<LinearOp>(b.rows(x), b.compute(), x.channels, false, parts, b.panel_sizes().weights),
      {x}, b.add_value(x.height, x.width, outputs), {x.id});
}

}  // namespace lpmm
