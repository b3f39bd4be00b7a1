#include "lpmm/program/ops/sequence/token_loss.h"

#include <algorithm>
#include <cmath>

#include "kernels/sequence.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/program/panelled_weight.h"
#include "lpmm/program/program_plan.h"
#include "lpmm/program/workspace.h"

namespace lpmm {

using kernels::value_bytes;

namespace {

// Cross-entropy of the next token, logits = x W^T. Logits exist one chunk of the
// vocabulary at a time; backward computes them again.
class TokenLossOp : public Op {
 public:
  bool is_pure() const override { return false; }
  TokenLossOp(std::int64_t rows, Compute compute, std::int64_t length, std::int64_t width,
              std::int64_t vocabulary, TensorUse weight, const PanelSizes& sizes)
      : rows_(rows),
        length_(length),
        width_(width),
        use_(weight),
        weight_(weight.tensor, compute, vocabulary, width, sizes.weights,
                std::max<std::int64_t>(64, sizes.logits / rows), sizes.columns) {}

  std::int64_t workspace_bytes() const override {
    return largest_layout([&](Pieces& p) { lay_out_forward(p); }, [&](Pieces& p) { lay_out_backward(p); });
  }
  std::int64_t transient_bytes() const override { return weight_.transient_bytes(); }

  void forward(RunState& run) const override {
    if (run.inference != nullptr) return infer(run);
    Pieces pieces(run.workspace);
    const Forward f = lay_out_forward(pieces);
    Device& device = run.memory.device();
    const std::int64_t rows = run.batch.count * length_;
    check_labels(run.batch, rows, weight_.rows());
    const std::int32_t* labels = on_device(device, run.batch.labels.data(), rows, f.labels);
    weight_.for_each_panel([&](std::int64_t first, std::int64_t columns) {
      multiply(run, data(run, inputs[0]), rows, first, columns, f.panel, f.logits, f.matmul);
      device.softmax_scan(rows, first, columns, f.logits, labels, f.state);
    });
    device.softmax_finish(rows, f.state, labels, reinterpret_cast<float*>(saved_data(run)), run.loss);
    run.labels = rows;
  }

  void backward(RunState& run) const override {
    Pieces pieces(run.workspace);
    const Backward b = lay_out_backward(pieces);
    Device& device = run.memory.device();
    const auto* log_sums = reinterpret_cast<const float*>(saved_data(run));
    const float scale = 1.0F / static_cast<float>(rows_);
    const std::int32_t* labels = on_device(device, run.batch.labels.data(), rows_, b.labels);
    PanelledWeight::Folder folder(weight_, run, b.gradient, plan->contribution(use_), use_.place == 0);
    weight_.for_each_panel([&](std::int64_t first, std::int64_t columns) {
      const std::byte* x = data(run, inputs[0]);
      const std::byte* e = multiply(run, x, rows_, first, columns, b.panel, b.logits, b.matmul);
      device.softmax_gradient(plan->compute, rows_, first, columns, scale, log_sums, labels, b.logits,
                              b.logit_gradients);
      device.matmul({.m = rows_,
                     .n = width_,
                     .k = columns,
                     .type = plan->compute,
                     .a = b.logit_gradients,
                     .a_stride = columns,
                     .b = e,
                     .b_stride = width_,
                     .c = b.dx,
                     .c_stride = width_,
                     .accumulate = first > 0},
                    b.matmul);
      if (weight_.is_frozen(run)) return;
      device.matmul({.transpose_a = true,
                     .m = columns,
                     .n = width_,
                     .k = rows_,
                     .type = plan->compute,
                     .a = b.logit_gradients,
                     .a_stride = columns,
                     .b = x,
                     .b_stride = width_,
                     .c = folder.rows_at(first),
                     .c_stride = width_},
                    b.matmul);
      folder.fold(first, columns);
    });
    device.from_float(plan->compute, rows_ * width_, b.dx, gradient(run, inputs[0]));
  }

 private:
  struct Forward {
    std::byte* panel;
    float* logits;
    kernels::SoftmaxRow* state;
    std::byte *labels, *matmul;
  };
  struct Backward {
    std::byte* panel;
    float* logits;
    void* logit_gradients;
    float *dx, *gradient;
    std::byte *labels, *matmul;
  };
  // Logits of all rows, or of the last one.
  void infer(RunState& run) const {
    Pieces pieces(run.workspace);
    const Forward f = lay_out_forward(pieces);
    Inference& state = *run.inference;
    const std::int64_t rows = state.all ? rows_ : 1, vocabulary = weight_.rows();
    const std::byte* x = data(run, inputs[0]) + (rows_ - rows) * width_ * value_bytes(plan->compute);
    state.logits.resize(static_cast<std::size_t>(rows * vocabulary));
    std::vector<float> panel(static_cast<std::size_t>(rows * weight_.panel_rows()));
    weight_.for_each_panel([&](std::int64_t first, std::int64_t columns) {
      multiply(run, x, rows, first, columns, f.panel, f.logits, f.matmul);
      run.memory.device().download(panel.data(), f.logits, 4 * rows * columns);
      for (std::int64_t r = 0; r < rows; ++r) {
        std::copy_n(panel.data() + r * columns, columns, state.logits.data() + r * vocabulary + first);
      }
    });
  }

  float* logits_room(Pieces& p) const { return p.floats(rows_ * weight_.panel_rows()); }
  Forward lay_out_forward(Pieces& p) const {
    return {p.take(weight_.panel_bytes()), logits_room(p),
            reinterpret_cast<kernels::SoftmaxRow*>(
                p.take(rows_ * static_cast<std::int64_t>(sizeof(kernels::SoftmaxRow)))),
            p.take(room_on(*plan->device, 4 * rows_)), p.take(weight_.matmul_bytes(rows_, *plan->device))};
  }
  Backward lay_out_backward(Pieces& p) const {
    std::byte* panel = p.take(weight_.panel_bytes());
    float* logits = logits_room(p);
    const bool in_place = plan->compute == Compute::kFp32;
    return {panel,
            logits,
            in_place ? logits : static_cast<void*>(p.take(2 * rows_ * weight_.panel_rows())),
            p.floats(rows_ * width_),
            p.floats(weight_.gradient_floats()),
            p.take(room_on(*plan->device, 4 * rows_)),
            p.take(weight_.matmul_bytes(rows_, *plan->device))};
  }
  // logits <- x times rows first..first+columns-1 of the weight, which are returned.
  const std::byte* multiply(RunState& run, const std::byte* x, std::int64_t rows, std::int64_t first,
                            std::int64_t columns, std::byte* panel, float* logits, void* matmul) const {
    const std::byte* e = weight_.decode(run, first, columns, panel);
    run.memory.device().matmul({.transpose_b = true,
                                .m = rows,
                                .n = columns,
                                .k = width_,
                                .type = plan->compute,
                                .a = x,
                                .a_stride = width_,
                                .b = e,
                                .b_stride = width_,
                                .c = logits,
                                .c_stride = columns},
                               matmul);
    return e;
  }
  std::int64_t rows_, length_, width_;
  TensorUse use_;
  PanelledWeight weight_;
};

void add_loss(ProgramBuilder& b, Value x, int tensor) {
  const std::int64_t vocabulary = b.tensors()[static_cast<std::size_t>(tensor)].shape[0];
  b.add_op(std::make_unique<TokenLossOp>(b.rows(x), b.compute(), x.width, x.channels, vocabulary,
                                         b.use(tensor), b.panel_sizes()),
           {x}, {}, {x.id}, 4 * b.rows(x));
}

}  // namespace

void token_loss(ProgramBuilder& b, const std::string& name, Value x, int vocabulary, double deviation) {
  add_loss(b, x,
           b.add_tensor(name + ".weight", {vocabulary, x.channels}, {InitialKind::kNormal, deviation},
                        TensorKind::kHead));
}

void tied_token_loss(ProgramBuilder& b, const std::string& embedding, Value x) {
  add_loss(b, x, b.find_tensor(embedding + ".weight"));
}

}  // namespace lpmm
