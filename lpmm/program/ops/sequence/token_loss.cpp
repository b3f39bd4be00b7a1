#include "lpmm/program/ops/sequence/token_loss.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/sequence.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/program/ops/sequence/row_lists.h"
#include "lpmm/program/panelled_weight.h"
#include "lpmm/program/program_plan.h"
#include "lpmm/program/workspace.h"

namespace lpmm {

using kernels::value_bytes;

namespace {

// Cross-entropy of the next token, logits = x W^T. Logits exist one chunk of the
// vocabulary at a time; backward computes them again, and so does gathering.
class TokenLossOp : public Op {
 public:
  bool is_pure() const override { return false; }
  // `bias`: a tensor, -1: none.
  TokenLossOp(std::int64_t rows, ValueType compute, std::int64_t length, std::int64_t width,
              std::int64_t vocabulary, TensorUse weight, int bias, const TokenLossConfig& config,
              const PanelSizes& sizes)
      : rows_(rows),
        length_(length),
        width_(width),
        use_(weight),
        bias_(bias),
        smoothing_(config.smoothing),
        may_lack_(config.may_lack),
        preferences_(config.preferences),
        weight_(weight.tensor, compute, vocabulary, width, sizes.weights,
                std::max<std::int64_t>(64, sizes.logits / rows), sizes.columns) {}

  std::int64_t workspace_bytes() const override {
    return largest_layout([&](Pieces& p) { lay_out_forward(p); },
                          [&](Pieces& p) {
                            lay_out_backward(p);
                            for (const auto& e : gathered()) RowCopies(p, *plan->device, e.rows);
                          });
  }
  std::int64_t host_workspace_bytes() const override {
    return largest_layout([&](Pieces& p) {
      for (const auto& e : gathered()) RowLists(p, e.rows);
    });
  }
  std::int64_t transient_bytes() const override { return weight_.transient_bytes(); }

  void forward(RunState& run) const override {
    if (run.inference != nullptr) return infer(run);
    Pieces pieces(run.workspace);
    const Forward f = lay_out_forward(pieces);
    Device& device = run.device;
    const std::int64_t rows = run.batch.count * length_;
    run.labels = check_labels(run.batch, rows, weight_.rows(), may_lack_ || run.batch.step_labels > 0);
    const std::int32_t* labels = on_device(device, run.batch.labels.data(), rows, f.labels);
    kernels::SoftmaxArgs args{.shape = shape_of(rows),
                              .labels = labels,
                              .logits = f.logits.values,
                              .state = f.state,
                              .log_sums = reinterpret_cast<float*>(saved_data(run)),
                              .result = run.loss};
    decode_bias(run, f.logits);
    weight_.for_each_panel([&](std::int64_t first, std::int64_t columns) {
      multiply(run, data(run, inputs[0]), rows, first, columns, f.panel, f.logits, f.matmul);
      args.first = first;
      args.columns = columns;
      if (!compares()) hand_out_panel(run, first, columns, f.logits);
      device.softmax_scan(args);
    });
    device.softmax_finish(args);
    if (compares()) compare(run, f, labels);
  }

  void backward(RunState& run) const override {
    Pieces pieces(run.workspace);
    const Backward b = lay_out_backward(pieces);
    const bool folds = !is_gathered(run);
    PanelledWeight::Folder folder(weight_, run, b.gradient, plan->contribution(use_), use_.place == 0);
    for_each_gradient(run, b, [&](std::int64_t first, std::int64_t columns, const std::byte* panel) {
      run.device.matmul({.m = rows_,
                         .n = width_,
                         .k = columns,
                         .type = plan->compute,
                         .a = b.logit_gradients,
                         .a_stride = columns,
                         .b = panel,
                         .b_stride = width_,
                         .c = b.dx,
                         .c_stride = width_,
                         .accumulate = first > 0},
                        b.matmul);
      if (folds) sum_bias(run, b, first, columns);
      if (!folds || weight_.is_frozen(run)) return;
      sum_weight(run, b, columns, folder.rows_at(first));
      folder.fold(first, columns);
    });
    if (folds) fold_bias(run, b);
    run.device.from_float(plan->compute, rows_ * width_, b.dx, gradient(run, inputs[0]));
  }

  // Panel by panel: what embeddings add is summed apart and added, in the order of their backward. The bias
  // comes along, as logits are made with it.
  void gather(RunState& run) const override {
    if (!is_gathered(run)) return;
    Pieces pieces(run.workspace), host_pieces(run.host_workspace);
    const Backward b = lay_out_backward(pieces);
    Device& device = run.device;
    const std::vector<ProgramPlan::Embedding> embeddings = gathered();
    std::vector<TokenRows> tokens;
    for (const ProgramPlan::Embedding& e : embeddings) {
      const RowCopies copies(pieces, device, e.rows);
      tokens.emplace_back(device, e.is_source ? run.batch.source : run.batch.tokens,
                          RowLists(host_pieces, e.rows), copies);
    }
    PanelledWeight::Folder folder(weight_, run, b.gradient);
    for_each_gradient(run, b, [&](std::int64_t first, std::int64_t columns, const std::byte* /*panel*/) {
      float* const sum = folder.rows_at(first);
      sum_bias(run, b, first, columns);
      sum_weight(run, b, columns, sum);
      for (std::size_t i = embeddings.size(); i-- > 0;) {
        tokens[i].sum(device, plan->compute, width_, gradient(run, embeddings[i].output), first * width_,
                      (first + columns) * width_, b.added);
        device.copy_or_add({ValueType::kFp32, columns * width_}, b.added, sum, true);
      }
      folder.fold(first, columns);
    });
    fold_bias(run, b);
  }

 private:
  // The values of one panel, and the bias that is added to the logits of all panels.
  struct Logits {
    float *values, *bias;
  };
  struct Forward {
    std::byte* panel;
    Logits logits;
    kernels::SoftmaxRow* state;
    std::byte *labels, *matmul, *pairs;
    double* differences;
  };
  bool compares() const { return preferences_.beta > 0; }
  // The factors that a loss of pairs keeps for backward, behind the sums of logits.
  float* factors(const RunState& run) const {
    return compares() ? reinterpret_cast<float*>(saved_data(run)) + rows_ : nullptr;
  }
  // Two rows at least are a pair's.
  std::int64_t most_pairs() const { return compares() ? rows_ / 2 : 0; }
  // The loss of pairs, in place of that of labels.
  void compare(RunState& run, const Forward& f, const std::int32_t* labels) const {
    Device& device = run.device;
    const std::vector<kernels::PreferencePair>& pairs = run.batch.preferences;
    run.labels = std::ssize(pairs);
    if (run.labels > most_pairs()) throw RunError("a batch has more pairs than half of its rows");
    device.preference_loss({.count = run.labels,
                            .pairs = on_device(device, pairs.data(), run.labels, f.pairs),
                            .beta = preferences_.beta,
                            .smoothing = preferences_.smoothing,
                            .is_mean = preferences_.is_mean,
                            .labels = labels,
                            .state = f.state,
                            .factors = factors(run),
                            .differences = f.differences,
                            .result = run.loss});
    if (run.outputs == nullptr) return;
    std::vector<double> differences(pairs.size());
    device.download(differences.data(), f.differences, 8 * run.labels);
    run.outputs->resize(pairs.size());
    std::ranges::transform(differences, run.outputs->begin(), [](double d) { return static_cast<float>(d); });
  }
  struct Backward {
    std::byte* panel;
    Logits logits;
    void* logit_gradients;
    float *dx, *gradient, *bias;
    float* added;  // to a panel by an embedding, while gathering; shares its room with dx
    std::byte *labels, *matmul;
  };
  kernels::LossShape shape_of(std::int64_t rows) const {
    return {rows, static_cast<int>(weight_.rows()), smoothing_};
  }
  // The weight of one label's loss in the mean of its microbatch; microbatches are averaged.
  float scale_of(const RunState& run) const {
    const std::int64_t counted = run.batch.step_labels;
    if (counted == 0) return 1.0F / static_cast<float>(rows_);
    return static_cast<float>(run.memory.microbatches()) / static_cast<float>(counted);
  }
  std::vector<ProgramPlan::Embedding> gathered() const {
    return gathers >= 0 ? plan->embeddings.at(gathers) : std::vector<ProgramPlan::Embedding>();
  }
  // Runs body(first, columns, panel) for every panel of the weight, with the gradient of its logits.
  template <class Body>
  void for_each_gradient(RunState& run, const Backward& b, const Body& body) const {
    Device& device = run.device;
    decode_bias(run, b.logits);
    const std::int32_t* labels = on_device(device, run.batch.labels.data(), rows_, b.labels);
    weight_.for_each_panel([&](std::int64_t first, std::int64_t columns) {
      const std::byte* panel =
          multiply(run, data(run, inputs[0]), rows_, first, columns, b.panel, b.logits, b.matmul);
      device.softmax_gradient({.shape = shape_of(rows_),
                               .labels = labels,
                               .first = first,
                               .columns = columns,
                               .logits = b.logits.values,
                               .log_sums = reinterpret_cast<float*>(saved_data(run)),
                               .scale = scale_of(run),
                               .type = plan->compute,
                               .gradient = b.logit_gradients,
                               .factors = factors(run)});
      body(first, columns, panel);
    });
  }
  // Returns true if the gradients of weight and bias wait for gather().
  bool is_gathered(const RunState& run) const { return gathers >= 0 && !weight_.is_frozen(run); }
  void sum_bias(RunState& run, const Backward& b, std::int64_t first, std::int64_t columns) const {
    if (bias_ < 0) return;
    run.device.bias_backward({.of = {plan->compute, rows_ * columns},
                              .columns = columns,
                              .dy = b.logit_gradients,
                              .bias_gradient = b.bias + first});
  }
  void fold_bias(RunState& run, const Backward& b) const {
    if (bias_ >= 0) run.step->fold(bias_, 0, span_of(b.bias, weight_.rows()), run.microbatch);
  }
  // gradient <- the gradient of a panel, of those of its logits.
  void sum_weight(RunState& run, const Backward& b, std::int64_t columns, float* gradient) const {
    run.device.matmul({.transpose_a = true,
                       .m = columns,
                       .n = width_,
                       .k = rows_,
                       .type = plan->compute,
                       .a = b.logit_gradients,
                       .a_stride = columns,
                       .b = data(run, inputs[0]),
                       .b_stride = width_,
                       .c = gradient,
                       .c_stride = width_},
                      b.matmul);
  }
  void decode_bias(const RunState& run, const Logits& logits) const {
    if (bias_ >= 0) run.memory.decode(bias_, 0, span_of(logits.bias, weight_.rows()));
  }
  // Logits of all rows, or of the last one.
  void infer(RunState& run) const {
    Pieces pieces(run.workspace);
    const Forward f = lay_out_forward(pieces);
    Inference& state = *run.inference;
    // With several sequences, each has one token, its last.
    const std::int64_t rows = state.all || length_ == 1 ? rows_ : 1, vocabulary = weight_.rows();
    const std::byte* x = data(run, inputs[0]) + (rows_ - rows) * width_ * value_bytes(plan->compute);
    state.logits.resize(static_cast<std::size_t>(rows * vocabulary));
    std::vector<float> panel(static_cast<std::size_t>(rows * weight_.panel_rows()));
    decode_bias(run, f.logits);
    weight_.for_each_panel([&](std::int64_t first, std::int64_t columns) {
      multiply(run, x, rows, first, columns, f.panel, f.logits, f.matmul);
      run.device.download(panel.data(), f.logits.values, 4 * rows * columns);
      for (std::int64_t r = 0; r < rows; ++r) {
        std::copy_n(panel.data() + r * columns, columns, state.logits.data() + r * vocabulary + first);
      }
    });
  }

  // The logits of rows with a label, (those rows, all columns).
  void hand_out_panel(RunState& run, std::int64_t first, std::int64_t columns, const Logits& logits) const {
    if (run.outputs == nullptr) return;
    const std::vector<std::int32_t>& labels = run.batch.labels;
    run.outputs->resize(static_cast<std::size_t>(run.labels * weight_.rows()));
    std::vector<float> panel(labels.size() * static_cast<std::size_t>(columns));
    run.device.download(panel.data(), logits.values, 4 * std::ssize(panel));
    float* to = run.outputs->data() + first;
    for (std::int64_t r = 0; r < std::ssize(labels); ++r) {
      if (labels[static_cast<std::size_t>(r)] < 0) continue;
      std::copy_n(panel.data() + r * columns, columns, to);
      to += weight_.rows();
    }
  }

  Logits logits_room(Pieces& p) const {
    return {p.floats(rows_ * weight_.panel_rows()), p.floats(bias_floats())};
  }
  std::int64_t bias_floats() const { return bias_ >= 0 ? weight_.rows() : 0; }
  Forward lay_out_forward(Pieces& p) const {
    return {p.take(weight_.panel_bytes()),
            logits_room(p),
            reinterpret_cast<kernels::SoftmaxRow*>(
                p.take(rows_ * static_cast<std::int64_t>(sizeof(kernels::SoftmaxRow)))),
            p.take(room_on(*plan->device, 4 * rows_)),
            p.take(weight_.matmul_bytes(rows_, *plan->device)),
            p.take(room_on(*plan->device, most_pairs() * std::int64_t{sizeof(kernels::PreferencePair)})),
            reinterpret_cast<double*>(p.take(8 * most_pairs()))};
  }
  Backward lay_out_backward(Pieces& p) const {
    std::byte* panel = p.take(weight_.panel_bytes());
    const Logits logits = logits_room(p);
    const bool in_place = plan->compute == ValueType::kFp32;
    void* const logit_gradients =
        in_place ? logits.values : static_cast<void*>(p.take(2 * rows_ * weight_.panel_rows()));
    float* const dx = p.floats(std::max(rows_ * width_, gathers >= 0 ? weight_.gradient_floats() : 0));
    return {panel,
            logits,
            logit_gradients,
            dx,
            p.floats(weight_.gradient_floats()),
            p.floats(bias_floats()),
            dx,
            p.take(room_on(*plan->device, 4 * rows_)),
            p.take(weight_.matmul_bytes(rows_, *plan->device))};
  }
  // logits <- x times rows first..first+columns-1 of the weight, which are returned.
  const std::byte* multiply(RunState& run, const std::byte* x, std::int64_t rows, std::int64_t first,
                            std::int64_t columns, std::byte* panel, const Logits& logits,
                            void* matmul) const {
    const std::byte* e = weight_.decode(run, first, columns, panel);
    run.device.matmul({.transpose_b = true,
                       .m = rows,
                       .n = columns,
                       .k = width_,
                       .type = plan->compute,
                       .a = x,
                       .a_stride = width_,
                       .b = e,
                       .b_stride = width_,
                       .c = logits.values,
                       .c_stride = columns,
                       .bias = bias_ >= 0 ? logits.bias + first : nullptr},
                      matmul);
    return e;
  }
  std::int64_t rows_, length_, width_;
  TensorUse use_;
  int bias_;
  double smoothing_;
  bool may_lack_;
  PreferenceLoss preferences_;
  PanelledWeight weight_;
};

void add_loss(ProgramBuilder& b, Value x, int tensor, const TokenLossConfig& config) {
  const std::int64_t vocabulary = b.tensors()[static_cast<std::size_t>(tensor)].shape[0];
  const int bias =
      config.bias.empty() ? -1 : b.add_tensor(config.bias, {vocabulary}, {InitialKind::kConstant, 0});
  auto op = std::make_unique<TokenLossOp>(b.rows(x), b.compute(), x.width, x.channels, vocabulary,
                                          b.use(tensor), bias, config, b.panel_sizes());
  if (b.gather(tensor)) op->gathers = tensor;
  b.add_op(std::move(op), {x}, {}, {x.id}, (config.preferences.beta > 0 ? 8 : 4) * b.rows(x));
}

}  // namespace

void token_loss(ProgramBuilder& b, const std::string& name, Value x, int vocabulary, double deviation,
                const TokenLossConfig& config) {
  add_loss(b, x,
           b.add_tensor(name + ".weight", {vocabulary, x.channels}, {InitialKind::kNormal, deviation},
                        TensorKind::kHead),
           config);
}

void tied_token_loss(ProgramBuilder& b, const std::string& embedding, Value x,
                     const TokenLossConfig& config) {
  add_loss(b, x, b.find_tensor(embedding + ".weight"), config);
}

void position_loss(ProgramBuilder& b, const std::string& name, Value x, int classes, double deviation,
                   double smoothing) {
  add_loss(b, x,
           b.add_tensor(name + ".weight", {classes, x.channels}, {InitialKind::kNormal, deviation},
                        TensorKind::kHead),
           {.smoothing = smoothing, .bias = name + ".bias", .may_lack = true});
}

}  // namespace lpmm
