#include "lpmm/program/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "kernels/compute.h"
#include "lpmm/base/error.h"
#include "lpmm/program/program_plan.h"

namespace lpmm {

using kernels::aligned;
using kernels::value_bytes;

std::byte* Op::data(const RunState& run, int value) const {
  return plan->at(run, plan->data_slot(value, run.block));
}
std::byte* Op::gradient(const RunState& run, int value) const {
  return plan->at(run, plan->value(value).gradient);
}
std::byte* Op::saved_data(const RunState& run) const {
  return plan->at(run, run.block >= 0 ? saved_again : saved);
}

void check_labels(const Batch& batch, std::int64_t rows, std::int64_t classes) {
  if (std::ssize(batch.labels) != rows) {
    throw RunError(fmt::format("a batch has {} labels, {} were expected", batch.labels.size(), rows));
  }
  for (const std::int32_t label : batch.labels) {
    if (label < 0 || label >= classes) {
      throw RunError(fmt::format("a batch has the label {}: there are {}, from 0 on", label, classes));
    }
  }
}

// A panel is decoded from the tile its first row begins in to the tile its last row ends in.
const std::byte* PanelledWeight::decode(const RunState& run, std::int64_t row, std::int64_t rows,
                                        std::byte* panel) const {
  constexpr std::int64_t kTile = kernels::kTile;
  const std::int64_t first = row * width_ / kTile * kTile;
  const std::int64_t end = std::min(((row + rows) * width_ + kTile - 1) / kTile * kTile, rows_ * width_);
  if (compute_ == Compute::kFp32) {
    run.memory.decode(tensor_, first, span_of(reinterpret_cast<float*>(panel), end - first));
  } else {
    run.memory.decode_bf16(tensor_, first,
                           {reinterpret_cast<std::uint16_t*>(panel), static_cast<std::size_t>(end - first)});
  }
  return panel + (row * width_ - first) * value_bytes(compute_);
}

void PanelledWeight::Folder::fold(std::int64_t row, std::int64_t rows) {
  const std::int64_t done = (row + rows) * weight_.width_;
  const std::int64_t end = row + rows == weight_.rows_ ? done : done / kernels::kTile * kernels::kTile;
  if (end <= folded_) return;
  run_.gradients->fold(weight_.tensor_, folded_, span_of(room_, end - folded_), run_.microbatch,
                       contribution_, is_last_);
  std::copy_n(room_ + (end - folded_), done - end, room_);
  folded_ = end;
}

namespace {

constexpr double kMomentum = 0.1;  // of running statistics
constexpr double kEpsilon = 1e-5;  // of batch norm

class InputOp : public Op {
 public:
  explicit InputOp(std::int64_t values) : values_(values) {}
  void forward(RunState& run) const override {
    const std::int64_t count = run.batch.count * values_, all = plan->batch * values_;
    std::byte* out = data(run, output);
    kernels::from_float(run.memory.pool(), plan->compute, count, run.batch.images.data(), out);
    const std::int64_t b = value_bytes(plan->compute);
    std::memset(out + count * b, 0, static_cast<std::size_t>((all - count) * b));
  }
  void backward(RunState& /*run*/) const override {}

 private:
  std::int64_t values_;
};

class ConvolutionOp : public Op {
 public:
  ConvolutionOp(const kernels::ConvShape& shape, int tensor) : shape_(shape), tensor_(tensor) {}
  void prepare(Libraries& libraries) override {
    const auto key =
        std::make_tuple(shape_.height, shape_.width, shape_.in, shape_.out, shape_.kernel, shape_.stride);
    std::shared_ptr<const kernels::Convolution>& shared = libraries[key];
    if (shared == nullptr) {
      shared = std::make_shared<kernels::Convolution>(shape_, plan->compute, plan->threads);
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
    convolution_->forward(run.memory.pool(), data(run, inputs[0]), w, data(run, output),
                          pieces.take(convolution_->scratch_bytes()));
  }
  void backward(RunState& run) const override {
    Pieces pieces(run.workspace);
    float* w = decoded(run, pieces);
    float* g = pieces.floats(weights());
    convolution_->backward(run.memory.pool(), data(run, inputs[0]), w, gradient(run, output),
                           gradient(run, inputs[0]), accumulate[0], g,
                           pieces.take(convolution_->scratch_bytes()));
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

class NormOp : public Op {
 public:
  bool is_pure() const override { return false; }
  NormOp(kernels::NormShape shape, bool relu, int weight, int bias, int mean, int variance)
      : shape_(shape), relu_(relu), weight_(weight), bias_(bias), mean_(mean), variance_(variance) {}
  std::int64_t workspace_bytes() const override {
    return 4 * aligned(4 * shape_.channels) + kernels::norm_scratch_bytes(shape_);
  }
  std::int64_t transient_bytes() const override { return 4 * shape_.channels; }
  void forward(RunState& run) const override {
    const std::int64_t n = shape_.channels;
    Pieces pieces(run.workspace);
    float* scale = pieces.floats(n);
    float* shift = pieces.floats(n);
    auto* mean = reinterpret_cast<float*>(saved_data(run));  // mean, then 1 / deviation
    float* variance = mean + n;
    Pool& pool = run.memory.pool();
    if (run.proposals != nullptr) {
      kernels::norm_statistics(pool, shape_, data(run, inputs[0]), mean, variance,
                               pieces.take(kernels::norm_scratch_bytes(shape_)));
      propose(*run.proposals, mean, variance);
    } else {
      std::copy_n(run.buffers.value(mean_).data(), n, mean);
      std::copy_n(run.buffers.value(variance_).data(), n, variance);
    }
    run.memory.decode(weight_, 0, span_of(scale, n));
    run.memory.decode(bias_, 0, span_of(shift, n));
    for (std::int64_t c = 0; c < n; ++c) {
      variance[c] = static_cast<float>(1 / std::sqrt(variance[c] + kEpsilon));
      scale[c] *= variance[c];
      shift[c] -= mean[c] * scale[c];
    }
    kernels::norm_apply(pool, shape_, data(run, inputs[0]), scale, shift,
                        inputs.size() > 1 ? data(run, inputs[1]) : nullptr, relu_, data(run, output));
  }
  void backward(RunState& run) const override {
    const std::int64_t n = shape_.channels;
    Pieces pieces(run.workspace);
    float* weight = pieces.floats(n);
    float* weight_gradient = pieces.floats(n);
    float* bias_gradient = pieces.floats(n);
    run.memory.decode(weight_, 0, span_of(weight, n));
    kernels::NormBackward args;
    args.x = data(run, inputs[0]);
    args.y = data(run, output);
    args.dy = gradient(run, output);
    args.relu = relu_;
    args.mean = reinterpret_cast<const float*>(saved_data(run));
    args.inverse_deviation = args.mean + n;
    args.weight = weight;
    args.weight_gradient = weight_gradient;
    args.bias_gradient = bias_gradient;
    args.dx = gradient(run, inputs[0]);
    args.accumulate = accumulate[0];
    if (inputs.size() > 1) {
      args.dresidual = gradient(run, inputs[1]);
      args.accumulate_residual = accumulate[1];
    }
    kernels::norm_backward(run.memory.pool(), shape_, args, pieces.take(kernels::norm_scratch_bytes(shape_)));
    run.gradients->fold(weight_, 0, span_of(weight_gradient, n), run.microbatch);
    run.gradients->fold(bias_, 0, span_of(bias_gradient, n), run.microbatch);
  }

 private:
  // Running statistics take the unbiased variance; a later microbatch builds on the earlier one's proposal.
  void propose(Buffers& buffers, const float* mean, const float* variance) const {
    const double rows = static_cast<double>(shape_.rows), unbiased = rows > 1 ? rows / (rows - 1) : 1;
    const auto running_mean = buffers.proposal(mean_), running_variance = buffers.proposal(variance_);
    for (std::size_t c = 0; c < running_mean.size(); ++c) {
      running_mean[c] = static_cast<float>((1 - kMomentum) * running_mean[c] + kMomentum * mean[c]);
      running_variance[c] =
          static_cast<float>((1 - kMomentum) * running_variance[c] + kMomentum * unbiased * variance[c]);
    }
  }
  kernels::NormShape shape_;
  bool relu_;
  int weight_, bias_, mean_, variance_;
};

class ReluOp : public Op {
 public:
  explicit ReluOp(std::int64_t count) : count_(count) {}
  bool skips_gradient() const override { return true; }
  void forward(RunState& run) const override {
    kernels::relu_forward(run.memory.pool(), plan->compute, count_, data(run, inputs[0]), data(run, output));
  }
  void backward(RunState& run) const override {
    if (gradient(run, inputs[0]) == nullptr) return;
    kernels::relu_backward(run.memory.pool(), plan->compute, count_, data(run, output), gradient(run, output),
                           gradient(run, inputs[0]), accumulate[0]);
  }

 private:
  std::int64_t count_;
};

class AddOp : public Op {
 public:
  explicit AddOp(std::int64_t count) : count_(count) {}
  bool skips_gradient() const override { return true; }
  void forward(RunState& run) const override {
    kernels::add(run.memory.pool(), plan->compute, count_, data(run, inputs[0]), data(run, inputs[1]),
                 data(run, output));
  }
  void backward(RunState& run) const override {
    for (std::size_t i = 0; i < 2; ++i) {
      if (gradient(run, inputs[i]) == nullptr) continue;
      kernels::copy_or_add(run.memory.pool(), plan->compute, count_, gradient(run, output),
                           gradient(run, inputs[i]), accumulate[i]);
    }
  }

 private:
  std::int64_t count_;
};

class PoolOp : public Op {
 public:
  PoolOp(kernels::PoolShape shape, bool maximum) : shape_(shape), maximum_(maximum) {}
  bool skips_gradient() const override { return true; }
  void forward(RunState& run) const override {
    (maximum_ ? kernels::max_pool_forward : kernels::average_pool_forward)(
        run.memory.pool(), shape_, plan->compute, data(run, inputs[0]), data(run, output));
  }
  void backward(RunState& run) const override {
    std::byte* dx = gradient(run, inputs[0]);
    if (dx == nullptr) return;
    Pool& pool = run.memory.pool();
    if (maximum_) {
      kernels::max_pool_backward(pool, shape_, plan->compute, data(run, inputs[0]), gradient(run, output), dx,
                                 accumulate[0]);
    } else {
      kernels::average_pool_backward(pool, shape_, plan->compute, gradient(run, output), dx, accumulate[0]);
    }
  }

 private:
  kernels::PoolShape shape_;
  bool maximum_;
};

class ShortcutOp : public Op {
 public:
  explicit ShortcutOp(kernels::ShortcutShape shape) : shape_(shape) {}
  bool skips_gradient() const override { return true; }
  void forward(RunState& run) const override {
    kernels::shortcut_forward(run.memory.pool(), shape_, plan->compute, data(run, inputs[0]),
                              data(run, output));
  }
  void backward(RunState& run) const override {
    if (gradient(run, inputs[0]) == nullptr) return;
    kernels::shortcut_backward(run.memory.pool(), shape_, plan->compute, gradient(run, output),
                               gradient(run, inputs[0]), accumulate[0]);
  }

 private:
  kernels::ShortcutShape shape_;
};

// y = act(x W^T + bias) on rows of values. W is decoded, and its gradient folded, by panels of output rows:
// neither is ever whole.
class LinearOp : public Op {
 public:
  LinearOp(std::int64_t rows, Compute compute, std::int64_t inputs, std::int64_t outputs, bool relu,
           int weight, int bias)
      : rows_(rows),
        compute_(compute),
        in_(inputs),
        out_(outputs),
        relu_(relu),
        weight_(weight, compute, outputs, inputs),
        bias_(bias) {}

  std::int64_t workspace_bytes() const override {
    return largest_layout([&](Pieces& p) { lay_out_forward(p); }, [&](Pieces& p) { lay_out_backward(p); });
  }
  std::int64_t transient_bytes() const override { return weight_.transient_bytes(); }
  bool skips_gradient() const override { return true; }

  void forward(RunState& run) const override {
    Pieces pieces(run.workspace);
    const Forward f = lay_out_forward(pieces);
    Pool& pool = run.memory.pool();
    weight_.for_each_panel([&](std::int64_t row, std::int64_t rows) {
      kernels::matmul(pool,
                      {.transpose_b = true,
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
    run.memory.decode(bias_, 0, span_of(f.bias, out_));
    kernels::bias_forward(pool, compute_, rows_, out_, f.y, f.bias, relu_, data(run, output));
  }

  void backward(RunState& run) const override {
    Pieces pieces(run.workspace);
    const Backward b = lay_out_backward(pieces);
    Pool& pool = run.memory.pool();
    const auto* g = static_cast<const std::byte*>(kernels::bias_backward(
        pool, compute_, rows_, out_, data(run, output), gradient(run, output), relu_, b.g, b.bias));
    run.gradients->fold(bias_, 0, span_of(b.bias, out_), run.microbatch);
    std::byte* dx = gradient(run, inputs[0]);
    PanelledWeight::Folder folder(weight_, run, b.gradient);
    weight_.for_each_panel([&](std::int64_t row, std::int64_t rows) {
      if (dx != nullptr) {
        kernels::matmul(pool,
                        {.m = rows_,
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
      kernels::matmul(pool,
                      {.transpose_a = true,
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
      kernels::from_float(pool, compute_, rows_ * in_, b.dx, b.narrow);
      kernels::copy_or_add(pool, compute_, rows_ * in_, b.narrow, dx, true);
    } else {
      kernels::from_float(pool, compute_, rows_ * in_, b.dx, dx);
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
  Forward lay_out_forward(Pieces& p) const {
    return {p.take(weight_.panel_bytes()), p.floats(rows_ * out_), p.floats(out_),
            p.take(weight_.matmul_bytes(rows_, plan->threads))};
  }
  Backward lay_out_backward(Pieces& p) const {
    return {p.take(weight_.panel_bytes()),
            p.take(relu_ ? rows_ * out_ * value_bytes(compute_) : 0),
            p.floats(out_),
            p.floats(weight_.gradient_floats()),
            p.floats(rows_ * in_),
            p.take(rows_ * in_ * value_bytes(compute_)),
            p.take(weight_.matmul_bytes(rows_, plan->threads))};
  }

  std::int64_t rows_;
  Compute compute_;
  std::int64_t in_, out_;
  bool relu_;
  PanelledWeight weight_;
  int bias_;
};

class LossOp : public Op {
 public:
  bool is_pure() const override { return false; }
  LossOp(int classes, double smoothing) : classes_(classes), smoothing_(smoothing) {}
  void forward(RunState& run) const override {
    check_labels(run.batch, run.batch.count, classes_);
    const kernels::LossResult r =
        kernels::softmax_loss(shape(run), plan->compute, data(run, inputs[0]), run.batch.labels.data());
    run.result = {r.sum, r.correct, run.batch.count};
  }
  void backward(RunState& run) const override {
    kernels::softmax_loss_backward(shape(run), plan->compute, data(run, inputs[0]), run.batch.labels.data(),
                                   gradient(run, inputs[0]));
  }

 private:
  kernels::LossShape shape(const RunState& run) const { return {run.batch.count, classes_, smoothing_}; }
  int classes_;
  double smoothing_;
};

// A finished list in one arena and one workspace, both allocated at the first run.
class ListProgram : public Program {
 public:
  explicit ListProgram(std::unique_ptr<ProgramPlan> plan) : plan_(std::move(plan)) {}
  std::int64_t activation_bytes() const override { return plan_->arena_bytes; }
  std::int64_t workspace_bytes() const override { return plan_->workspace_bytes; }
  std::int64_t largest_transient_bytes() const override { return plan_->largest_transient_bytes; }

  BatchResult train(ModelMemory& memory, Buffers& buffers, const Batch& batch, int microbatch) override {
    RunState run = begin(memory, &memory, buffers, &buffers, batch, microbatch);
    if (batch.count != plan_->batch) {
      throw std::logic_error(
          fmt::format("a batch of {} images for a program built for {}", batch.count, plan_->batch));
    }
    for (const auto& op : plan_->ops) op->forward(run);
    if (!std::isfinite(run.result.loss_sum)) memory.fail("the loss");
    for (const ProgramPlan::Event& event : plan_->after) {
      if (memory.failed()) break;
      const Op& op = *plan_->ops[static_cast<std::size_t>(event.op)];
      run.block = op.block;
      event.replay ? op.forward(run) : op.backward(run);
    }
    return run.result;
  }

  void infer(const ModelMemory& memory, std::span<const std::int32_t> tokens, Inference& state) override {
    static const Buffers kNone({});
    Batch batch;
    batch.count = 1;
    batch.tokens.assign(tokens.begin(), tokens.end());
    RunState run = begin(memory, nullptr, kNone, nullptr, batch, 0);
    run.inference = &state;
    for (const auto& op : plan_->ops) op->forward(run);
    state.position += static_cast<std::int64_t>(tokens.size());
  }

  BatchResult evaluate(const ModelMemory& memory, const Buffers& buffers, const Batch& batch) override {
    RunState run = begin(memory, nullptr, buffers, nullptr, batch, 0);
    for (const auto& op : plan_->ops) op->forward(run);
    return run.result;
  }

 private:
  RunState begin(const ModelMemory& memory, ModelMemory* gradients, const Buffers& buffers,
                 Buffers* proposals, const Batch& batch, int microbatch) {
    if (batch.count < 1 || batch.count > plan_->batch || memory.pool().threads() > plan_->threads) {
      throw std::logic_error(fmt::format("a program for {} images and {} threads got {} and {}", plan_->batch,
                                         plan_->threads, batch.count, memory.pool().threads()));
    }
    constexpr const char* kAdvice = "a smaller batch or more microbatches";
    arena_.allocate(plan_->arena_bytes, "activations", kAdvice);
    workspace_.allocate(plan_->workspace_bytes, "the workspace", kAdvice);
    return {memory, gradients, buffers, proposals, batch, microbatch, arena_.data(), workspace_.data(), {}};
  }
  std::unique_ptr<ProgramPlan> plan_;
  Pages arena_, workspace_;
};

}  // namespace

// ---- builder ---------------------------------------------------------------------------------------------
ProgramBuilder::ProgramBuilder(int batch, Compute compute, int threads, int inference)
    : compute_(compute), inference_(inference), plan_(std::make_unique<ProgramPlan>()) {
  plan_->batch = batch;
  plan_->compute = compute;
  plan_->threads = threads;
}
ProgramBuilder::~ProgramBuilder() = default;

int ProgramBuilder::add_tensor(std::string name, std::vector<std::int64_t> shape, Initial initial) {
  tensors_.push_back({std::move(name), std::move(shape)});
  initials_.push_back(initial);
  return static_cast<int>(tensors_.size()) - 1;
}

int ProgramBuilder::find_tensor(const std::string& name) const {
  const auto at =
      std::find_if(tensors_.begin(), tensors_.end(), [&](const TensorInfo& t) { return t.name == name; });
  if (at == tensors_.end()) throw std::logic_error(name + ": no op before this one declares this tensor");
  return static_cast<int>(at - tensors_.begin());
}

std::int64_t ProgramBuilder::rows(Value x) const {
  return std::int64_t{1} * plan_->batch * x.height * x.width;
}

Value ProgramBuilder::add_value(int height, int width, int channels) {
  Value v{static_cast<int>(plan_->values.size()), height, width, channels};
  if (1.0 * plan_->batch * height * width * channels > 0x1p42) {
    throw UsageError(
        fmt::format("a value of {} x {} x {} x {}: the model or the batch is too large for any machine",
                    plan_->batch, height, width, channels));
  }
  const std::int64_t bytes = plan_->batch * v.values() * value_bytes(compute_);
  plan_->values.push_back({plan_->add_slot(bytes), plan_->add_slot(bytes)});
  return v;
}

Value ProgramBuilder::add_op(std::unique_ptr<Op> op, const std::vector<Value>& inputs, Value output,
                             std::vector<int> kept) {
  for (const Value& v : inputs) {
    op->inputs.push_back(v.id);
    ProgramPlan::Slots& slots = plan_->values[static_cast<std::size_t>(v.id)];
    if (slots.gradient < 0 && !op->skips_gradient()) {
      slots.gradient = plan_->add_slot(plan_->slots[static_cast<std::size_t>(slots.data)].bytes);
    }
  }
  op->output = output.id;
  op->kept = std::move(kept);
  op->plan = plan_.get();
  plan_->ops.push_back(std::move(op));
  return output;
}

Value ProgramBuilder::input(int height, int width, int channels) {
  const Value v = add_value(height, width, channels);
  plan_->values.back().gradient = -1;
  return add_op(std::make_unique<InputOp>(v.values()), {}, v, {});
}

Value ProgramBuilder::convolution(const std::string& name, Value x, int channels, int kernel, int stride) {
  const kernels::ConvShape shape{plan_->batch, x.height, x.width, x.channels,
                                 channels,     kernel,   stride,  kernel / 2};
  const int weight = add_tensor(name + ".weight", {channels, x.channels, kernel, kernel},
                                {InitialKind::kNormal, std::sqrt(2.0 / (1.0 * channels * kernel * kernel))});
  return add_op(std::make_unique<ConvolutionOp>(shape, weight), {x},
                add_value(shape.out_height(), shape.out_width(), channels), {x.id});
}

Value ProgramBuilder::batch_norm(const std::string& name, Value x, bool relu, Value residual) {
  if (residual.id >= 0 &&
      (plan_->value(x.id).gradient < 0 || plan_->value(residual.id).gradient < 0 || residual.id == x.id)) {
    throw std::logic_error(name + ": a norm with a residual needs two different values that have gradients");
  }
  const int weight = add_tensor(name + ".weight", {x.channels}, {InitialKind::kConstant, 1});
  const int bias = add_tensor(name + ".bias", {x.channels}, {InitialKind::kConstant, 0});
  const int mean = static_cast<int>(buffers_.size());
  buffers_.push_back({name + ".running_mean", {x.channels}, 0});
  buffers_.push_back({name + ".running_var", {x.channels}, 1});
  const kernels::NormShape shape{std::int64_t{1} * plan_->batch * x.height * x.width, x.channels, compute_};
  std::vector<Value> inputs{x};
  if (residual.id >= 0) inputs.push_back(residual);
  const Value y = add_value(x.height, x.width, x.channels);
  std::vector<int> kept{x.id};
  if (relu) kept.push_back(y.id);
  add_op(std::make_unique<NormOp>(shape, relu, weight, bias, mean, mean + 1), inputs, y, std::move(kept));
  plan_->ops.back()->saved = plan_->add_slot(std::int64_t{8} * x.channels);
  return y;
}

Value ProgramBuilder::relu(Value x) {
  const Value y = add_value(x.height, x.width, x.channels);
  return add_op(std::make_unique<ReluOp>(plan_->batch * x.values()), {x}, y, {y.id});
}

Value ProgramBuilder::add(Value a, Value b) {
  return add_op(std::make_unique<AddOp>(plan_->batch * a.values()), {a, b},
                add_value(a.height, a.width, a.channels), {});
}

Value ProgramBuilder::average_pool(Value x, int kernel, int stride) {
  const kernels::PoolShape s{plan_->batch, x.height, x.width, x.channels, kernel, stride};
  return add_op(std::make_unique<PoolOp>(s, false), {x}, add_value(s.out_height(), s.out_width(), x.channels),
                {});
}

Value ProgramBuilder::max_pool(Value x, int kernel, int stride) {
  const kernels::PoolShape s{plan_->batch, x.height, x.width, x.channels, kernel, stride};
  return add_op(std::make_unique<PoolOp>(s, true), {x}, add_value(s.out_height(), s.out_width(), x.channels),
                {x.id});
}

Value ProgramBuilder::shortcut(Value x, int channels, int stride) {
  const kernels::ShortcutShape s{plan_->batch, x.height, x.width, x.channels, channels, stride};
  return add_op(std::make_unique<ShortcutOp>(s), {x}, add_value(s.out_height(), s.out_width(), channels), {});
}

Value ProgramBuilder::linear(const std::string& name, Value x, int outputs, bool relu) {
  const double bound = 1 / std::sqrt(static_cast<double>(x.values()));
  const int weight = add_tensor(name + ".weight", {outputs, x.values()}, {InitialKind::kUniform, bound});
  const int bias = add_tensor(name + ".bias", {outputs}, {InitialKind::kUniform, bound});
  const Value y = add_value(1, 1, outputs);
  std::vector<int> kept{x.id};
  if (relu) kept.push_back(y.id);
  return add_op(std::make_unique<LinearOp>(plan_->batch, compute_, x.values(), outputs, relu, weight, bias),
                {x}, y, std::move(kept));
}

Value ProgramBuilder::projection(const std::string& name, Value x, int outputs, double deviation) {
  const int weight = add_tensor(name + ".weight", {outputs, x.channels}, {InitialKind::kNormal, deviation});
  const int bias = add_tensor(name + ".bias", {outputs}, {InitialKind::kConstant, 0});
  return add_op(std::make_unique<LinearOp>(rows(x), compute_, x.channels, outputs, false, weight, bias), {x},
                add_value(x.height, x.width, outputs), {x.id});
}

void ProgramBuilder::loss(Value logits, double label_smoothing) {
  add_op(std::make_unique<LossOp>(logits.channels, label_smoothing), {logits}, {}, {logits.id});
}

Value ProgramBuilder::recompute(Value x, const std::function<Value(Value)>& block) {
  const std::size_t first = plan_->ops.size();
  const Value y = block(x);
  for (std::size_t i = first; i < plan_->ops.size(); ++i) {
    if (!plan_->ops[i]->is_pure())
      throw std::logic_error("a block that is recomputed holds an op that counts");
    plan_->ops[i]->block = blocks_;
  }
  ++blocks_;
  return y;
}

// Gives the values that only ops of their own block read a second slot, for their second life in backward.
void ProgramBuilder::find_inner_values() {
  std::vector<int> block(plan_->values.size(), -1);
  for (const auto& op : plan_->ops) {
    if (op->output >= 0) block[static_cast<std::size_t>(op->output)] = op->block;
  }
  for (const auto& op : plan_->ops) {
    for (const int v : op->inputs) {
      if (block[static_cast<std::size_t>(v)] != op->block) block[static_cast<std::size_t>(v)] = -1;
    }
  }
  for (std::size_t v = 0; v < block.size(); ++v) {
    if (block[v] < 0) continue;
    plan_->values[v].block = block[v];
    plan_->values[v].again =
        plan_->add_slot(plan_->slots[static_cast<std::size_t>(plan_->values[v].data)].bytes);
  }
  for (const auto& op : plan_->ops) {
    if (op->block < 0 || op->saved < 0) continue;
    op->saved_again = plan_->add_slot(plan_->slots[static_cast<std::size_t>(op->saved)].bytes);
  }
}

// The ops of the block that ends with op `last` whose results its backward needs, in order.
std::vector<int> ProgramBuilder::replayed(int last) const {
  const int block = plan_->ops[static_cast<std::size_t>(last)]->block;
  const auto in_block = [&](int i) {
    return i >= 0 && plan_->ops[static_cast<std::size_t>(i)]->block == block;
  };
  std::vector<bool> needed(plan_->values.size(), false);
  for (int i = last; in_block(i); --i) {
    for (const int v : plan_->ops[static_cast<std::size_t>(i)]->kept)
      needed[static_cast<std::size_t>(v)] = true;
  }
  std::vector<int> ops;
  for (int i = last; in_block(i); --i) {
    const Op& op = *plan_->ops[static_cast<std::size_t>(i)];
    const auto output = static_cast<std::size_t>(op.output);
    if (op.saved < 0 && !(needed[output] && plan_->values[output].block == block)) continue;
    ops.push_back(i);
    for (const int v : op.inputs) needed[static_cast<std::size_t>(v)] = true;
  }
  std::reverse(ops.begin(), ops.end());
  return ops;
}

std::unique_ptr<Program> ProgramBuilder::finish() {
  ProgramPlan& plan = *plan_;
  const int count = static_cast<int>(plan.ops.size());
  // Inference has no backward: nothing lives beyond the last op that reads it, and there are no gradients.
  if (inference_ == 0) {
    find_inner_values();
    for (int i = count - 1; i >= 0; --i) {
      const int block = plan.ops[static_cast<std::size_t>(i)]->block;
      if (block >= 0 && (i + 1 == count || plan.ops[static_cast<std::size_t>(i) + 1]->block != block)) {
        for (const int op : replayed(i)) plan.after.push_back({op, true});
      }
      plan.after.push_back({i, false});
    }
  }
  Libraries libraries;
  for (int i = 0; i < count; ++i) {
    Op& op = *plan.ops[static_cast<std::size_t>(i)];
    for (const int v : op.inputs) plan.touch(plan.value(v).data, i);
    if (op.output >= 0) plan.touch(plan.value(op.output).data, i);
    plan.touch(op.saved, i);
    op.prepare(libraries);
    plan.workspace_bytes = std::max(plan.workspace_bytes, op.workspace_bytes());
    plan.largest_transient_bytes = std::max(plan.largest_transient_bytes, op.transient_bytes());
  }
  // The first op to reach a gradient writes it, the others add.
  std::vector<bool> written(plan.values.size(), false);
  for (int at = 0; at < static_cast<int>(plan.after.size()); ++at) {
    const ProgramPlan::Event& event = plan.after[static_cast<std::size_t>(at)];
    Op& op = *plan.ops[static_cast<std::size_t>(event.op)];
    const int time = count + at;
    plan.touch(op.saved_again >= 0 ? op.saved_again : op.saved, time);
    for (const int v : event.replay ? op.inputs : op.kept) plan.touch(plan.data_slot(v, op.block), time);
    if (event.replay) {
      plan.touch(plan.data_slot(op.output, op.block), time);
      continue;
    }
    for (const int v : op.inputs) {
      op.accumulate.push_back(written[static_cast<std::size_t>(v)]);
      written[static_cast<std::size_t>(v)] = true;
      plan.touch(plan.value(v).gradient, time);
    }
    if (op.output >= 0) plan.touch(plan.value(op.output).gradient, time);
  }
  for (Lifetime& slot : plan.slots) {
    if (slot.begin < 0) slot.bytes = 0;
  }
  plan.arena_bytes = place(plan.slots);
  return std::make_unique<ListProgram>(std::move(plan_));
}

}  // namespace lpmm
