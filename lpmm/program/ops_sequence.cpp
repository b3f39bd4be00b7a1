// The ops of transformers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/sequence.h"
#include "lpmm/base/error.h"
#include "lpmm/program/builder.h"
#include "lpmm/program/program_plan.h"

namespace lpmm {
namespace {

using kernels::value_bytes;

// Contributions to the gradient of a tied embedding. The sparse one comes last: backward reaches it last.
constexpr int kDense = 0, kSparse = 1;

// Row of the embedding of each token plus the row of its position. Only rows that occur are decoded, and only
// those get a contribution.
class EmbeddingOp : public Op {
 public:
  EmbeddingOp(std::int64_t batch, std::int64_t context, std::int64_t length, std::int64_t width,
              std::int64_t vocabulary, int tokens, int positions)
      : context_(context),
        length_(length),
        width_(width),
        rows_(batch * length),
        vocabulary_(vocabulary),
        panel_(std::clamp<std::int64_t>(kPanel / width, 1, rows_)),
        tokens_(tokens),
        positions_(positions) {}

  std::int64_t workspace_bytes() const override {
    return largest_layout([&](Pieces& p) { lay_out_forward(p); }, [&](Pieces& p) { lay_out_backward(p); });
  }
  std::int64_t transient_bytes() const override {
    return 4 *
           std::max({panel_ * width_, length_ * width_, window_rows() * width_, kWindow, position_floats()});
  }

  void forward(RunState& run) const override {
    Pieces pieces(run.workspace);
    const Forward f = lay_out_forward(pieces);
    const auto given = static_cast<std::int64_t>(run.batch.tokens.size());
    for (std::int64_t i = 0; i < rows_; ++i) {
      // Sequences that a last batch lacks are zeros; no loss looks at them.
      const std::int32_t token = i < given ? run.batch.tokens[static_cast<std::size_t>(i)] : 0;
      if (token < 0 || token >= vocabulary_) {
        throw RunError(fmt::format("token {} at position {} of a batch: the model's vocabulary has {} tokens",
                                   token, i, vocabulary_));
      }
      f.ids[i] = token;
    }
    Pool& pool = run.memory.pool();
    const std::int64_t past = run.inference == nullptr ? 0 : run.inference->position;
    if (past + length_ > context_) {
      throw RunError(
          fmt::format("{} tokens after {} others: the model has {} positions", length_, past, context_));
    }
    std::iota(f.places, f.places + length_, static_cast<std::int32_t>(past));
    kernels::decode_rows(pool, run.memory.view(positions_, Role::kParameter), width_, f.places, length_,
                         f.positions);
    for (std::int64_t first = 0; first < rows_; first += panel_) {
      const std::int64_t n = std::min(panel_, rows_ - first);
      kernels::decode_rows(pool, run.memory.view(tokens_, Role::kParameter), width_, f.ids + first, n,
                           f.rows);
      kernels::embedding_forward(pool, plan->compute, width_, length_, first, n, f.rows, f.positions,
                                 data(run, output) + first * width_ * value_bytes(plan->compute));
    }
  }

  void backward(RunState& run) const override {
    Pieces pieces(run.workspace);
    const Backward b = lay_out_backward(pieces);
    const std::byte* dy = gradient(run, output);
    Pool& pool = run.memory.pool();
    // Position t: its rows in all sequences.
    const std::int64_t sequences = rows_ / length_;
    for (std::int64_t t = 0; t < length_; ++t) {
      b.first[t] = t * sequences;
      for (std::int64_t s = 0; s < sequences; ++s) {
        b.order[t * sequences + s] = static_cast<std::int32_t>(s * length_ + t);
      }
    }
    b.first[length_] = rows_;
    kernels::sum_rows(pool, plan->compute, width_, dy, b.order, b.first, length_, b.positions);
    std::fill(b.positions + length_ * width_, b.positions + position_floats(), 0.0F);
    run.gradients->fold(positions_, 0, span_of(b.positions, position_floats()), run.microbatch);
    if (run.gradients->is_frozen(tokens_)) return;
    // Token: its rows in order.
    const auto token = [&](std::int64_t i) { return run.batch.tokens[static_cast<std::size_t>(b.order[i])]; };
    std::iota(b.order, b.order + rows_, 0);
    std::sort(b.order, b.order + rows_, [&](std::int32_t i, std::int32_t j) {
      const std::int32_t a = run.batch.tokens[static_cast<std::size_t>(i)],
                         c = run.batch.tokens[static_cast<std::size_t>(j)];
      return a != c ? a < c : i < j;
    });
    std::int64_t groups = 0;
    for (std::int64_t i = 0; i < rows_; ++i) {
      if (i == 0 || token(i) != token(i - 1)) b.first[groups++] = i;
    }
    b.first[groups] = rows_;
    fold_groups(run, b, groups);
  }

 private:
  struct Forward {
    float *rows, *positions;
    std::int32_t *ids, *places;
  };
  struct Backward {
    float *rows, *range, *positions;
    std::int32_t* order;
    std::int64_t* first;
  };
  Forward lay_out_forward(Pieces& p) const {
    return {p.floats(panel_ * width_), p.floats(length_ * width_), ids_room(p, rows_), ids_room(p, length_)};
  }
  Backward lay_out_backward(Pieces& p) const {
    return {p.floats(window_rows() * width_), p.floats(kWindow), p.floats(position_floats()),
            ids_room(p, rows_), reinterpret_cast<std::int64_t*>(p.take(8 * (rows_ + 1)))};
  }
  static std::int32_t* ids_room(Pieces& p, std::int64_t count) {
    return reinterpret_cast<std::int32_t*>(p.take(4 * count));
  }

  // Rows of the positions in use, to the end of a tile.
  std::int64_t position_floats() const {
    const std::int64_t tiles = (length_ * width_ + kernels::kTile - 1) / kernels::kTile;
    return std::min(tiles * kernels::kTile, context_ * width_);
  }

  // Groups are summed and folded by windows of the tensor: rows that share a block are always in one fold.
  static constexpr std::int64_t kWindow = 64 * kernels::kTile;
  std::int64_t window_rows() const { return std::min(kWindow / width_ + 2, rows_); }

  // What no token touches adds 0, which changes no code of an accumulator. A momentum that gradients are
  // accumulated in is rounded there, without bias, where its block's step is chosen anew.
  void fold_groups(RunState& run, const Backward& b, std::int64_t groups) const {
    const kernels::RoleView accumulator = run.memory.view(tokens_, Role::kAccumulator);
    const std::int64_t unit = std::max<std::int64_t>(kGroup, accumulator.codec.block);
    const auto row_of = [&](std::int64_t group) {
      return width_ * run.batch.tokens[static_cast<std::size_t>(b.order[b.first[group]])];
    };
    std::int64_t done = 0;  // elements
    for (std::int64_t i = 0; i < groups;) {
      const std::int64_t start = std::max(done, row_of(i));
      const std::int64_t window_end = (start / kWindow + 1) * kWindow;
      std::int64_t last = i;
      while (last + 1 < groups && row_of(last + 1) < window_end) ++last;
      const std::int64_t last_end = row_of(last) + width_;
      const std::int64_t begin = start / unit * unit;
      const std::int64_t end =
          std::min({window_end, (last_end + unit - 1) / unit * unit, accumulator.elements});
      kernels::sum_rows(run.memory.pool(), plan->compute, width_, gradient(run, output), b.order, b.first + i,
                        last + 1 - i, b.rows);
      std::fill_n(b.range, end - begin, 0.0F);
      for (std::int64_t g = i; g <= last; ++g) {
        const std::int64_t row = row_of(g), from = std::max(row, begin), to = std::min(row + width_, end);
        std::copy(b.rows + (g - i) * width_ + (from - row), b.rows + (g - i) * width_ + (to - row),
                  b.range + (from - begin));
      }
      run.gradients->fold(tokens_, begin, span_of(b.range, end - begin), run.microbatch, kSparse);
      done = end;
      i = last_end > end ? last : last + 1;
    }
  }

  std::int64_t context_, length_, width_, rows_, vocabulary_, panel_;
  int tokens_, positions_;
};

class LayerNormOp : public Op {
 public:
  LayerNormOp(kernels::RowNormShape shape, int weight, int bias)
      : shape_(shape), weight_(weight), bias_(bias) {}
  std::int64_t workspace_bytes() const override {
    return 4 * kernels::aligned(4 * shape_.width) + kernels::layer_norm_scratch_bytes(shape_);
  }
  std::int64_t transient_bytes() const override { return 4 * shape_.width; }
  void forward(RunState& run) const override {
    Pieces pieces(run.workspace);
    float* weight = decoded(run, weight_, pieces);
    float* bias = decoded(run, bias_, pieces);
    kernels::layer_norm_forward(run.memory.pool(), shape_, data(run, inputs[0]), weight, bias,
                                data(run, output), mean(run), mean(run) + shape_.rows);
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
    kernels::layer_norm_backward(run.memory.pool(), shape_, args,
                                 pieces.take(kernels::layer_norm_scratch_bytes(shape_)));
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

class GeluOp : public Op {
 public:
  explicit GeluOp(std::int64_t count) : count_(count) {}
  void forward(RunState& run) const override {
    kernels::gelu_forward(run.memory.pool(), plan->compute, count_, data(run, inputs[0]), data(run, output));
  }
  void backward(RunState& run) const override {
    kernels::gelu_backward(run.memory.pool(), plan->compute, count_, data(run, inputs[0]),
                           gradient(run, output), gradient(run, inputs[0]), accumulate[0]);
  }

 private:
  std::int64_t count_;
};

// Dropout of one op: the same elements forward and backward, for the noise is that of op, step and
// microbatch.
class OpDropout {
 public:
  OpDropout(std::uint32_t ordinal, double probability)
      : ordinal_(ordinal),
        threshold_(static_cast<std::uint32_t>(std::lround(probability * 0x1p16))),
        scale_(static_cast<float>(0x1p16 / (0x1p16 - threshold_))) {}
  // None outside of training.
  kernels::Dropout of(const RunState& run) const {
    if (run.gradients == nullptr) return {};
    const auto stream =
        static_cast<std::uint32_t>(Stream::kDropout) | static_cast<std::uint32_t>(run.microbatch) << 4;
    return {run.memory.noise(ordinal_, stream), threshold_, scale_};
  }

 private:
  std::uint32_t ordinal_, threshold_;
  float scale_;
};

class DropoutOp : public Op {
 public:
  DropoutOp(std::int64_t count, OpDropout dropout) : count_(count), dropout_(dropout) {}
  void forward(RunState& run) const override { drop(run, data(run, inputs[0]), data(run, output), false); }
  void backward(RunState& run) const override {
    drop(run, gradient(run, output), gradient(run, inputs[0]), accumulate[0]);
  }

 private:
  void drop(RunState& run, const std::byte* x, std::byte* y, bool add) const {
    const kernels::Dropout dropout = dropout_.of(run);
    Pool& pool = run.memory.pool();
    if (dropout.threshold == 0) return kernels::copy_or_add(pool, plan->compute, count_, x, y, add);
    kernels::dropout(pool, plan->compute, count_, dropout, x, y, add);
  }
  std::int64_t count_;
  OpDropout dropout_;
};

class AttentionOp : public Op {
 public:
  // `longest`: positions that one call may see.
  AttentionOp(const kernels::AttentionShape& shape, OpDropout dropout, std::size_t index, int longest,
              int threads)
      : shape_(shape), dropout_(dropout), index_(index), longest_(longest), threads_(threads) {}
  std::int64_t workspace_bytes() const override {
    kernels::AttentionShape whole = shape_;
    whole.length = longest_;
    return kernels::attention_scratch_bytes(whole, threads_);
  }
  void forward(RunState& run) const override {
    Pool& pool = run.memory.pool();
    if (Inference* state = run.inference; state != nullptr) {
      if (state->cache.size() <= index_) state->cache.resize(index_ + 1);
      std::vector<std::byte>& cache = state->cache[index_];
      cache.resize(static_cast<std::size_t>((state->position + shape_.length) * 2 * shape_.width() *
                                            value_bytes(plan->compute)));
      kernels::attention_cached(pool, shape_, state->position, data(run, inputs[0]), cache.data(),
                                data(run, output), run.workspace);
      return;
    }
    kernels::attention_forward(pool, shape_, data(run, inputs[0]), dropout_.of(run), data(run, output),
                               log_sums(run), run.workspace);
  }
  void backward(RunState& run) const override {
    kernels::attention_backward(run.memory.pool(), shape_, data(run, inputs[0]), dropout_.of(run),
                                data(run, output), log_sums(run), gradient(run, output),
                                gradient(run, inputs[0]), accumulate[0], run.workspace);
  }

 private:
  float* log_sums(const RunState& run) const { return reinterpret_cast<float*>(saved_data(run)); }
  kernels::AttentionShape shape_;
  OpDropout dropout_;
  std::size_t index_;  // among the attention ops
  int longest_, threads_;
};

// Cross-entropy of the next token, logits = x E^T with the embedding E. Logits exist one chunk of the
// vocabulary at a time; backward computes them again.
class TokenLossOp : public Op {
  static constexpr std::int64_t kLogits = std::int64_t{1} << 22;  // of a chunk
 public:
  bool is_pure() const override { return false; }
  TokenLossOp(std::int64_t rows, Compute compute, std::int64_t length, std::int64_t width,
              std::int64_t vocabulary, int embedding)
      : rows_(rows),
        length_(length),
        width_(width),
        embedding_(embedding, compute, vocabulary, width, std::max<std::int64_t>(64, kLogits / rows)) {}

  std::int64_t workspace_bytes() const override {
    return largest_layout([&](Pieces& p) { lay_out_forward(p); }, [&](Pieces& p) { lay_out_backward(p); });
  }
  std::int64_t transient_bytes() const override { return embedding_.transient_bytes(); }

  void forward(RunState& run) const override {
    if (run.inference != nullptr) return infer(run);
    Pieces pieces(run.workspace);
    const Forward f = lay_out_forward(pieces);
    Pool& pool = run.memory.pool();
    const std::int64_t rows = run.batch.count * length_;
    check_labels(run.batch, rows, embedding_.rows());
    std::fill_n(f.state, rows, kernels::SoftmaxRow{});
    embedding_.for_each_panel([&](std::int64_t first, std::int64_t columns) {
      multiply(run, data(run, inputs[0]), rows, first, columns, f.panel, f.logits, f.matmul);
      kernels::softmax_scan(pool, rows, first, columns, f.logits, run.batch.labels.data(), f.state);
    });
    auto* log_sums = reinterpret_cast<float*>(saved_data(run));
    for (std::int64_t r = 0; r < rows; ++r) {
      const kernels::SoftmaxRow& s = f.state[r];
      const double log_sum = s.maximum + std::log(s.sum);
      log_sums[r] = static_cast<float>(log_sum);
      run.result.loss_sum += log_sum - s.target;
      run.result.correct += s.best == run.batch.labels[static_cast<std::size_t>(r)] ? 1 : 0;
    }
    run.result.count += rows;
  }

  void backward(RunState& run) const override {
    Pieces pieces(run.workspace);
    const Backward b = lay_out_backward(pieces);
    Pool& pool = run.memory.pool();
    const auto* log_sums = reinterpret_cast<const float*>(saved_data(run));
    const float scale = 1.0F / static_cast<float>(rows_);
    PanelledWeight::Folder folder(embedding_, run, b.gradient, kDense, false);
    embedding_.for_each_panel([&](std::int64_t first, std::int64_t columns) {
      const std::byte* x = data(run, inputs[0]);
      const std::byte* e = multiply(run, x, rows_, first, columns, b.panel, b.logits, b.matmul);
      kernels::softmax_gradient(pool, plan->compute, rows_, first, columns, scale, log_sums,
                                run.batch.labels.data(), b.logits, b.logit_gradients);
      kernels::matmul(pool,
                      {.m = rows_,
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
      if (embedding_.is_frozen(run)) return;
      kernels::matmul(pool,
                      {.transpose_a = true,
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
    kernels::from_float(pool, plan->compute, rows_ * width_, b.dx, gradient(run, inputs[0]));
  }

 private:
  struct Forward {
    std::byte* panel;
    float* logits;
    kernels::SoftmaxRow* state;
    std::byte* matmul;
  };
  struct Backward {
    std::byte* panel;
    float* logits;
    void* logit_gradients;
    float *dx, *gradient;
    std::byte* matmul;
  };
  // Logits of all rows, or of the last one.
  void infer(RunState& run) const {
    Pieces pieces(run.workspace);
    const Forward f = lay_out_forward(pieces);
    Inference& state = *run.inference;
    const std::int64_t rows = state.all ? rows_ : 1, vocabulary = embedding_.rows();
    const std::byte* x = data(run, inputs[0]) + (rows_ - rows) * width_ * value_bytes(plan->compute);
    state.logits.resize(static_cast<std::size_t>(rows * vocabulary));
    embedding_.for_each_panel([&](std::int64_t first, std::int64_t columns) {
      multiply(run, x, rows, first, columns, f.panel, f.logits, f.matmul);
      for (std::int64_t r = 0; r < rows; ++r) {
        std::copy_n(f.logits + r * columns, columns, state.logits.data() + r * vocabulary + first);
      }
    });
  }

  float* logits_room(Pieces& p) const { return p.floats(rows_ * embedding_.panel_rows()); }
  Forward lay_out_forward(Pieces& p) const {
    return {p.take(embedding_.panel_bytes()), logits_room(p),
            reinterpret_cast<kernels::SoftmaxRow*>(
                p.take(rows_ * static_cast<std::int64_t>(sizeof(kernels::SoftmaxRow)))),
            p.take(embedding_.matmul_bytes(rows_, plan->threads))};
  }
  Backward lay_out_backward(Pieces& p) const {
    std::byte* panel = p.take(embedding_.panel_bytes());
    float* logits = logits_room(p);
    const bool in_place = plan->compute == Compute::kFp32;
    return {panel,
            logits,
            in_place ? logits : static_cast<void*>(p.take(2 * rows_ * embedding_.panel_rows())),
            p.floats(rows_ * width_),
            p.floats(embedding_.gradient_floats()),
            p.take(embedding_.matmul_bytes(rows_, plan->threads))};
  }
  // logits <- x times rows first..first+columns-1 of the embedding, which are returned.
  const std::byte* multiply(RunState& run, const std::byte* x, std::int64_t rows, std::int64_t first,
                            std::int64_t columns, std::byte* panel, float* logits, void* matmul) const {
    const std::byte* e = embedding_.decode(run, first, columns, panel);
    kernels::matmul(run.memory.pool(),
                    {.transpose_b = true,
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
  PanelledWeight embedding_;
};

}  // namespace

// ---- builder ---------------------------------------------------------------------------------------------
Value ProgramBuilder::embedding(const std::string& tokens, const std::string& positions, int vocabulary,
                                int context, int length, int width) {
  constexpr double kDeviation = 0.02;  // Radford et al. 2019
  const int e = add_tensor(tokens + ".weight", {vocabulary, width}, {InitialKind::kNormal, kDeviation});
  const int p = add_tensor(positions + ".weight", {context, width}, {InitialKind::kNormal, kDeviation});
  if (inference_ > 0) length = inference_;
  return add_op(std::make_unique<EmbeddingOp>(plan_->batch, context, length, width, vocabulary, e, p), {},
                add_value(1, length, width), {});
}

Value ProgramBuilder::layer_norm(const std::string& name, Value x) {
  const int weight = add_tensor(name + ".weight", {x.channels}, {InitialKind::kConstant, 1});
  const int bias = add_tensor(name + ".bias", {x.channels}, {InitialKind::kConstant, 0});
  const kernels::RowNormShape shape{rows(x), x.channels, compute_};
  const Value y = add_op(std::make_unique<LayerNormOp>(shape, weight, bias), {x},
                         add_value(x.height, x.width, x.channels), {x.id});
  plan_->ops.back()->saved = plan_->add_slot(8 * shape.rows);
  return y;
}

Value ProgramBuilder::gelu(Value x) {
  return add_op(std::make_unique<GeluOp>(plan_->batch * x.values()), {x},
                add_value(x.height, x.width, x.channels), {x.id});
}

Value ProgramBuilder::dropout(Value x, double probability) {
  if (probability == 0) return x;
  auto op = std::make_unique<DropoutOp>(plan_->batch * x.values(), OpDropout(dropouts_++, probability));
  return add_op(std::move(op), {x}, add_value(x.height, x.width, x.channels), {});
}

Value ProgramBuilder::attention(Value qkv, int heads, int context, double dropout) {
  const int width = qkv.channels / 3;
  const kernels::AttentionShape shape{plan_->batch, qkv.width, heads, width / heads, compute_};
  if (dropout > 0 && kernels::attention_probabilities(shape) > kMostElements) {
    throw UsageError(fmt::format(
        "dropout of {} probabilities of attention: there are draws for {}; take fewer examples at a time",
        kernels::attention_probabilities(shape), kMostElements));
  }
  const Value y = add_value(1, qkv.width, width);
  add_op(std::make_unique<AttentionOp>(shape, OpDropout(dropouts_++, dropout),
                                       static_cast<std::size_t>(attentions_++),
                                       inference_ > 0 ? context : qkv.width, plan_->threads),
         {qkv}, y, {qkv.id, y.id});
  plan_->ops.back()->saved = plan_->add_slot(4 * shape.rows() * heads);
  return y;
}

void ProgramBuilder::token_loss(Value x, const std::string& embedding) {
  const int tensor = find_tensor(embedding + ".weight");
  const std::int64_t vocabulary = tensors_[static_cast<std::size_t>(tensor)].shape[0];
  add_op(std::make_unique<TokenLossOp>(rows(x), compute_, x.width, x.channels, vocabulary, tensor), {x}, {},
         {x.id});
  plan_->ops.back()->saved = plan_->add_slot(4 * rows(x));
}

}  // namespace lpmm
