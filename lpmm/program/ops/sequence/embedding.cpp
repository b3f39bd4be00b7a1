#include "lpmm/program/ops/sequence/embedding.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "kernels/compute.h"
#include "kernels/sequence.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/program/ops/sequence/documents.h"
#include "lpmm/program/ops/sequence/position_table.h"
#include "lpmm/program/ops/sequence/row_lists.h"
#include "lpmm/program/panelled_weight.h"
#include "lpmm/program/program_plan.h"
#include "lpmm/program/workspace.h"

namespace lpmm {

using kernels::value_bytes;

namespace {

// Row of the embedding of each token, plus the row of its position where positions are learned. Only rows
// that occur are decoded.
class EmbeddingOp : public Op {
 public:
  EmbeddingOp(int batch, const EmbeddingShape& shape, TensorUse tokens,
              std::optional<PositionTable> positions, std::int64_t panel)
      : length_(shape.length),
        width_(shape.width),
        rows_(std::int64_t{1} * batch * shape.length),
        vocabulary_(shape.vocabulary),
        panel_(std::clamp<std::int64_t>(panel / shape.width, 1, rows_)),
        window_(panel / 4),
        tokens_(tokens),
        positions_(positions),
        is_source_(shape.is_source) {}

  std::int64_t workspace_bytes() const override {
    return largest_layout([&](Pieces& p) { lay_out_forward(p); }, [&](Pieces& p) { lay_out_backward(p); });
  }
  std::int64_t host_workspace_bytes() const override {
    return largest_layout([&](Pieces& p) { integers(p, rows_), integers(p, length_); },
                          [&](Pieces& p) { RowLists(p, rows_); });
  }
  std::int64_t transient_bytes() const override {
    const std::int64_t places =
        positions_ ? std::max(positions_->row_floats(), positions_->gradient_floats()) : 0;
    return 4 * std::max({panel_ * width_, places, window_});
  }

  bool skips_gradient() const override { return true; }  // of the table of documents
  void forward(RunState& run) const override {
    Pieces pieces(run.workspace), host_pieces(run.host_workspace);
    const Forward f = lay_out_forward(pieces);
    std::int32_t *const tokens = integers(host_pieces, rows_), *const places = integers(host_pieces, length_);
    read_tokens(run, tokens);
    Device& device = run.device;
    const std::int32_t* ids = on_device(device, tokens, rows_, f.tokens);
    if (positions_) positions_->decode(run, places, f.places, f.positions);
    const kernels::Documents documents = documents_in(inputs.empty() ? nullptr : data(run, inputs[0]), rows_);
    for (std::int64_t first = 0; first < rows_; first += panel_) {
      const std::int64_t n = std::min(panel_, rows_ - first);
      run.memory.decode_rows(tokens_.tensor, width_, ids + first, n, f.rows);
      std::byte* out = data(run, output) + first * width_ * value_bytes(plan->compute);
      if (positions_) {
        device.embedding_forward(
            {plan->compute, width_, length_, first, n, f.rows, f.positions, out, documents.places});
      } else {
        device.from_float(plan->compute, n * width_, f.rows, out);
      }
    }
  }

  void backward(RunState& run) const override {
    Pieces pieces(run.workspace), host_pieces(run.host_workspace);
    const Backward b = lay_out_backward(pieces);
    const RowLists host(host_pieces, rows_);
    if (positions_) {
      positions_->fold(run, plan->compute, gradient(run, output), rows_, host, b.copies, b.positions);
    }
    if (run.memory.is_frozen(tokens_.tensor) || plan->is_gathered(tokens_.tensor)) return;
    const TokenRows tokens(run.device, tokens_of(run), host, b.copies);
    run.memory.applies_at_once(tokens_.tensor) ? fold_all(run, tokens, b.range)
                                               : fold_touched(run, tokens, b.range);
  }

 private:
  struct Forward {
    float *rows, *positions;
    std::byte *tokens, *places;
  };
  struct Backward {
    float *range, *positions;
    RowCopies copies;
  };
  Forward lay_out_forward(Pieces& p) const {
    return {p.floats(panel_ * width_), p.floats(positions_ ? positions_->row_floats() : 0),
            p.take(room_on(*plan->device, 4 * rows_)), p.take(room_on(*plan->device, 4 * length_))};
  }
  Backward lay_out_backward(Pieces& p) const {
    return {p.floats(window_), p.floats(positions_ ? positions_->gradient_floats() : 0),
            RowCopies(p, *plan->device, rows_)};
  }
  static std::int32_t* integers(Pieces& p, std::int64_t count) {
    return reinterpret_cast<std::int32_t*>(p.take(4 * count));
  }

  const std::vector<std::int32_t>& tokens_of(const RunState& run) const {
    return is_source_ ? run.batch.source : run.batch.tokens;
  }

  void read_tokens(const RunState& run, std::int32_t* ids) const {
    const std::vector<std::int32_t>& all = tokens_of(run);
    const auto given = static_cast<std::int64_t>(all.size());
    if (is_source_ && given < run.batch.count * length_) {
      throw RunError(fmt::format("a batch has {} tokens of sources, {} were expected", given,
                                 run.batch.count * length_));
    }
    for (std::int64_t i = 0; i < rows_; ++i) {
      // Sequences that a last batch lacks are zeros; no loss looks at them.
      const std::int32_t token = i < given ? all[static_cast<std::size_t>(i)] : 0;
      if (token < 0 || token >= vocabulary_) {
        throw RunError(fmt::format("token {} at position {} of a batch: the model's vocabulary has {} tokens",
                                   token, i, vocabulary_));
      }
      ids[i] = token;
    }
  }

  void fold(RunState& run, const TokenRows& tokens, std::int64_t begin, std::int64_t end,
            float* range) const {
    tokens.sum(run.device, plan->compute, width_, gradient(run, output), begin, end, range);
    run.step->fold(tokens_.tensor, begin, span_of(range, end - begin), run.microbatch,
                   plan->contribution(tokens_), tokens_.place == 0);
  }

  // Rows that no token touches have a gradient of zero, which moves them where there is decay or momentum.
  void fold_all(RunState& run, const TokenRows& tokens, float* range) const {
    const std::int64_t elements = vocabulary_ * width_;
    for (std::int64_t begin = 0; begin < elements; begin += window_) {
      fold(run, tokens, begin, std::min(begin + window_, elements), range);
    }
  }

  // Folds windows of the tensor: rows that share a block are always in one fold. Rows that no token touches
  // add 0, which changes no code of an accumulator. A momentum that gradients are accumulated in is rounded
  // there, without bias, where its block's step is chosen anew.
  void fold_touched(RunState& run, const TokenRows& tokens, float* range) const {
    const kernels::RoleView accumulator = run.memory.view(tokens_.tensor, Role::kAccumulator);
    const std::int64_t unit = std::max<std::int64_t>(kGroup, accumulator.codec.block);
    const auto row_of = [&](std::int64_t i) { return width_ * tokens.token(i); };
    std::int64_t done = 0;  // elements
    for (std::int64_t i = 0; i < tokens.count();) {
      const std::int64_t start = std::max(done, row_of(i));
      const std::int64_t window_end = (start / window_ + 1) * window_;
      std::int64_t last = i;
      while (last + 1 < tokens.count() && row_of(last + 1) < window_end) ++last;
      const std::int64_t last_end = row_of(last) + width_;
      const std::int64_t end =
          std::min({window_end, (last_end + unit - 1) / unit * unit, accumulator.elements});
      fold(run, tokens, start / unit * unit, end, range);
      done = end;
      i = last_end > end ? last : last + 1;
    }
  }

  std::int64_t length_, width_, rows_, vocabulary_, panel_, window_;  // window_: elements
  TensorUse tokens_;
  std::optional<PositionTable> positions_;
  bool is_source_;
};

}  // namespace

Value embedding(ProgramBuilder& b, const std::string& tokens, const EmbeddingShape& shape) {
  const std::string name = tokens + ".weight";
  const TensorUse rows =
      b.use(shape.is_shared ? b.find_tensor(name)
                            : b.add_tensor(name, {shape.vocabulary, shape.width}, shape.initial,
                                           TensorKind::kEmbedding, 1, shape.fp32_states));
  EmbeddingShape used = shape;
  if (b.inference() > 0 && !shape.is_source) used.length = b.inference();
  std::optional<PositionTable> positions;
  if (!shape.positions.empty()) {
    const int table = b.add_tensor(shape.positions + ".weight", {shape.context, shape.width},
                                   EmbeddingShape::kUsual, TensorKind::kEmbedding);
    positions.emplace(table, shape.context, used.length, shape.width);
  }
  const Value out = b.add_value(1, used.length, used.width);
  b.note_embedding(rows.tensor, out, shape.is_source);
  std::vector<Value> inputs;
  if (positions && shape.documents.id >= 0) inputs.push_back(shape.documents);
  return b.add_op(std::make_unique<EmbeddingOp>(b.batch(), used, rows, positions, b.panel_sizes().weights),
                  inputs, out, {});
}

}  // namespace lpmm
