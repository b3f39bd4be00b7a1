#include "lpmm/program/ops/sequence/attention.h"

#include <fmt/format.h>

#include "kernels/sequence.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/program/ops/dropout.h"
#include "lpmm/program/ops/sequence/lengths.h"
#include "lpmm/program/program_plan.h"
#include "lpmm/program/workspace.h"

namespace lpmm {

using kernels::value_bytes;

namespace {

class AttentionOp : public Op {
 public:
  // `longest`: positions that one call may see.
  AttentionOp(const kernels::AttentionShape& shape, OpDropout dropout, std::size_t index, int longest)
      : shape_(shape), dropout_(dropout), index_(index), longest_(longest) {}
  std::int64_t workspace_bytes() const override {
    Pieces pieces(nullptr);
    lay_out(pieces);
    return pieces.used();
  }
  std::int64_t host_workspace_bytes() const override {
    return shape_.is_causal ? 0 : lengths_host_room(shape_.batch);
  }
  void forward(RunState& run) const override {
    if (run.inference != nullptr) return infer(run);
    Pieces pieces(run.workspace);
    const Room room = lay_out(pieces);
    run.memory.device().attention_forward(shape_of(run, room), data(run, inputs[0]), dropout_.of(run),
                                          data(run, output), log_sums(run), room.scratch);
  }
  void backward(RunState& run) const override {
    Pieces pieces(run.workspace);
    const Room room = lay_out(pieces);
    run.memory.device().attention_backward(shape_of(run, room), data(run, inputs[0]), dropout_.of(run),
                                           data(run, output), log_sums(run), gradient(run, output),
                                           gradient(run, inputs[0]), accumulate[0], room.scratch);
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
    if (!shape.is_causal) shape.lengths = lengths_of(run, shape.batch, shape.length, room.lengths);
    return shape;
  }
  void infer(RunState& run) const {
    Device& device = run.memory.device();
    Inference* state = run.inference;
    if (state->cache.size() <= index_) state->cache.resize(index_ + 1);
    if (state->position + shape_.length > longest_) {
      throw RunError(fmt::format("{} tokens after {} others: the model has {} positions", shape_.length,
                                 state->position, longest_));
    }
    DeviceMemory& cache = state->cache[index_];
    if (cache == nullptr) {
      cache = allocate(device, longest_ * 2 * shape_.key_width() * value_bytes(plan->compute),
                       "keys and values", "a model of fewer positions");
    }
    Pieces pieces(run.workspace);
    device.attention_cached(shape_, state->position, data(run, inputs[0]), cache.get(), data(run, output),
                            lay_out(pieces).scratch);
  }
  float* log_sums(const RunState& run) const { return reinterpret_cast<float*>(saved_data(run)); }
  kernels::AttentionShape shape_;
  OpDropout dropout_;
  std::size_t index_;  // among the attention ops
  int longest_;
};

}  // namespace

Value attention(ProgramBuilder& b, Value qkv, const AttentionConfig& c) {
  const int kv_heads = c.kv_heads > 0 ? c.kv_heads : c.heads;
  const int head_width = qkv.channels / (c.heads + 2 * kv_heads);
  const kernels::AttentionShape shape{b.batch(),   qkv.width, c.heads,    head_width,
                                      b.compute(), kv_heads,  c.is_causal};
  if (c.dropout > 0 && kernels::attention_probabilities(shape) > kMostElements) {
    throw UsageError(fmt::format(
        "dropout of {} probabilities of attention: there are draws for {}; take fewer examples at a time",
        kernels::attention_probabilities(shape), kMostElements));
  }
  const int longest = b.inference() > 0 ? c.context : qkv.width;
  const Value y = b.add_value(1, qkv.width, c.heads * head_width);
  return b.add_op(
      std::make_unique<AttentionOp>(shape, OpDropout(b.next_draws(), c.dropout), b.next_cache(), longest),
      {qkv}, y, {qkv.id, y.id}, 4 * shape.rows() * c.heads);
}

}  // namespace lpmm
