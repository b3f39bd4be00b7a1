#include "lpmm/program/ops/sequence/attention.h"

#include <fmt/format.h>

#include <stdexcept>

#include "kernels/sequence.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/program/ops/dropout.h"
#include "lpmm/program/ops/sequence/documents.h"
#include "lpmm/program/ops/sequence/lengths.h"
#include "lpmm/program/program_plan.h"
#include "lpmm/program/workspace.h"

namespace lpmm {

using kernels::value_bytes;

namespace {

class AttentionOp : public Op {
 public:
  // `longest`: positions that one call may see. With documents their table is the second input.
  AttentionOp(const kernels::AttentionShape& shape, OpDropout dropout, std::size_t index, int longest,
              bool has_documents)
      : shape_(shape), dropout_(dropout), index_(index), longest_(longest), has_documents_(has_documents) {}
  bool skips_gradient() const override { return has_documents_; }  // the table has none
  std::int64_t workspace_bytes() const override {
    Pieces pieces(nullptr);
    lay_out(pieces);
    return pieces.used();
  }
  std::int64_t host_workspace_bytes() const override {
    return shape_.is_causal ? 0 : lengths_host_room(shape_.batch);
  }
  void forward(RunState& run) const override {
    if (run.inference != nullptr && shape_.is_causal) return infer(run);
    Pieces pieces(run.workspace);
    const Room room = lay_out(pieces);
    run.device.attention_forward({.shape = shape_of(run, room),
                                  .q = data(run, inputs[0]),
                                  .kv = others(run),
                                  .drop = dropout_.of(run),
                                  .y = data(run, output),
                                  .log_sums = log_sums(run),
                                  .scratch = room.scratch,
                                  .bias = bias(run)});
  }
  void backward(RunState& run) const override {
    Pieces pieces(run.workspace);
    const Room room = lay_out(pieces);
    kernels::AttentionBackward args{.shape = shape_of(run, room),
                                    .q = data(run, inputs[0]),
                                    .drop = dropout_.of(run),
                                    .y = data(run, output),
                                    .dy = gradient(run, output),
                                    .log_sums = log_sums(run),
                                    .dq = gradient(run, inputs[0]),
                                    .accumulate = accumulate[0],
                                    .scratch = room.scratch,
                                    .bias = bias(run)};
    if (shape_.has_bias) {  // the second input: this is self-attention
      args.bias_gradient = reinterpret_cast<float*>(gradient(run, inputs[1]));
      args.accumulate_bias = accumulate[1];
    }
    if (!shape_.is_self()) {
      args.kv = data(run, inputs[1]);
      args.dkv = gradient(run, inputs[1]);
      args.accumulate_kv = accumulate[1];
    }
    run.device.attention_backward(args);
  }
  std::int64_t cache_bytes(std::int64_t positions) const override {
    if (shape_.is_self() && !shape_.is_causal) return 0;  // an encoder's
    return shape_.batch * position_bytes() *
           (shape_.is_self() ? std::min<std::int64_t>(positions, longest_) : shape_.key_rows());
  }

 private:
  struct Room {
    std::byte *scratch, *lengths;
  };
  Room lay_out(Pieces& p) const {
    kernels::AttentionShape whole = shape_;
    whole.length = longest_;
    return {p.take(plan->device->attention_scratch_bytes(whole)),
            p.take(shape_.is_causal ? 0 : lengths_room(*plan->device, shape_.batch))};
  }
  kernels::AttentionShape shape_of(const RunState& run, const Room& room) const {
    kernels::AttentionShape shape = shape_;
    if (!shape.is_causal) shape.lengths = lengths_of(run, shape.batch, shape.key_rows(), room.lengths);
    if (has_documents_) shape.documents = documents_in(data(run, inputs[1]), shape.rows());
    return shape;
  }
  Inference::Cache& cache_of(const RunState& run) const {
    std::vector<Inference::Cache>& all = run.inference->cache;
    if (all.size() <= index_) all.resize(index_ + 1);
    return all[index_];
  }
  // Keys and values of another value; null where there is none.
  const std::byte* others(const RunState& run) const {
    if (shape_.is_self()) return nullptr;
    if (run.inference == nullptr) return data(run, inputs[1]);
    Inference::Cache& cache = cache_of(run);
    if (run.inference->position == 0) {
      const std::int64_t bytes = shape_.batch * shape_.key_rows() * position_bytes();
      cache.memory = allocate(run.device, bytes, "keys and values", "fewer beams");
      run.device.copy(cache.memory.get(), data(run, inputs[1]), bytes);
    }
    return cache.memory.get();
  }
  void infer(RunState& run) const {
    Device& device = run.device;
    const Inference* state = run.inference;
    const std::int64_t room =
        state->positions > 0 ? std::min<std::int64_t>(state->positions, longest_) : longest_;
    if (state->position + shape_.length > room) {
      throw RunError(fmt::format("{} tokens after {} others: there is room for {} positions", shape_.length,
                                 state->position, room));
    }
    Inference::Cache& cache = cache_of(run);
    if (cache.memory == nullptr) {
      cache.position_bytes = position_bytes();
      cache.sequence_bytes = room * cache.position_bytes;
      cache.memory = allocate(device, shape_.batch * cache.sequence_bytes, "keys and values",
                              "a model of fewer positions");
    }
    Pieces pieces(run.workspace);
    device.attention_forward({.shape = shape_,
                              .q = data(run, inputs[0]),
                              .y = data(run, output),
                              .scratch = lay_out(pieces).scratch,
                              .cache = cache.memory.get(),
                              .room = room,
                              .past = static_cast<int>(state->position)});
  }
  // The bytes of the keys and values at one position of a sequence.
  std::int64_t position_bytes() const { return 2 * shape_.key_width() * value_bytes(shape_.type); }
  const float* bias(const RunState& run) const {
    return shape_.has_bias ? reinterpret_cast<const float*>(data(run, inputs[1])) : nullptr;
  }
  float* log_sums(const RunState& run) const { return reinterpret_cast<float*>(saved_data(run)); }
  kernels::AttentionShape shape_;
  OpDropout dropout_;
  std::size_t index_;  // among the attention ops
  int longest_;
  bool has_documents_;
};

}  // namespace

namespace {

Value add_attention(ProgramBuilder& b, const std::vector<Value>& inputs, const kernels::AttentionShape& shape,
                    const AttentionConfig& c, bool has_documents = false) {
  if (c.dropout > 0 && kernels::attention_probabilities(shape) > kMostElements) {
    throw UsageError(fmt::format(
        "dropout of {} probabilities of attention: there are draws for {}; take fewer examples at a time",
        kernels::attention_probabilities(shape), kMostElements));
  }
  const int longest = b.inference() > 0 && shape.is_causal ? c.context : shape.length;
  const Value y = b.add_value(1, shape.length, static_cast<int>(shape.width()));
  std::vector<int> kept{y.id};
  for (const Value& x : inputs) kept.push_back(x.id);
  return b.add_op(std::make_unique<AttentionOp>(shape, OpDropout(b.next_draws(), c.dropout), b.next_cache(),
                                                longest, has_documents),
                  inputs, y, std::move(kept), 4 * shape.rows() * c.heads);
}

int key_heads(const AttentionConfig& c) {
  return c.kv_heads > 0 ? c.kv_heads : c.heads;
}

}  // namespace

Value attention(ProgramBuilder& b, Value qkv, const AttentionConfig& c, Value documents) {
  const int kv_heads = key_heads(c);
  const bool has_documents = documents.id >= 0;
  if (has_documents && !c.is_causal)
    throw std::logic_error("attention: only a causal one keeps documents apart");
  const bool has_bias = c.bias.id >= 0;
  if (has_bias && c.is_causal) throw std::logic_error("attention: a causal one has no bias");
  const int head_width = qkv.channels / (c.heads + 2 * kv_heads);
  std::vector<Value> inputs{qkv};
  if (has_documents) inputs.push_back(documents);
  if (has_bias) inputs.push_back(c.bias);
  return add_attention(b, inputs,
                       {.batch = b.batch(),
                        .length = qkv.width,
                        .heads = c.heads,
                        .head_width = head_width,
                        .type = b.compute(),
                        .kv_heads = kv_heads,
                        .is_causal = c.is_causal,
                        .window = c.window,
                        .has_bias = has_bias},
                       c, has_documents);
}

Value cross_attention(ProgramBuilder& b, Value q, Value kv, const AttentionConfig& c) {
  return add_attention(b, {q, kv},
                       {.batch = b.batch(),
                        .length = q.width,
                        .heads = c.heads,
                        .head_width = q.channels / c.heads,
                        .type = b.compute(),
                        .kv_heads = key_heads(c),
                        .is_causal = false,
                        .key_length = kv.width},
                       c);
}

}  // namespace lpmm
