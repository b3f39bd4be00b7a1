#include "lpmm/program/ops/attention.h"

#include <fmt/format.h>

#include "kernels/sequence.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/program/ops/dropout.h"
#include "lpmm/program/program_plan.h"

namespace lpmm {

using kernels::value_bytes;

namespace {

class AttentionOp : public Op {
 public:
  // `longest`: positions that one call may see.
  AttentionOp(const kernels::AttentionShape& shape, OpDropout dropout, std::size_t index, int longest)
      : shape_(shape), dropout_(dropout), index_(index), longest_(longest) {}
  std::int64_t workspace_bytes() const override {
    kernels::AttentionShape whole = shape_;
    whole.length = longest_;
    return plan->device->attention_scratch_bytes(whole);
  }
  void forward(RunState& run) const override {
    Device& device = run.memory.device();
    if (Inference* state = run.inference; state != nullptr) {
      if (state->cache.size() <= index_) state->cache.resize(index_ + 1);
      if (state->position + shape_.length > longest_) {
        throw RunError(fmt::format("{} tokens after {} others: the model has {} positions", shape_.length,
                                   state->position, longest_));
      }
      DeviceMemory& cache = state->cache[index_];
      if (cache == nullptr) {
        cache = allocate(device, longest_ * 2 * shape_.width() * value_bytes(plan->compute),
                         "keys and values", "a model of fewer positions");
      }
      device.attention_cached(shape_, state->position, data(run, inputs[0]), cache.get(), data(run, output),
                              run.workspace);
      return;
    }
    device.attention_forward(shape_, data(run, inputs[0]), dropout_.of(run), data(run, output), log_sums(run),
                             run.workspace);
  }
  void backward(RunState& run) const override {
    run.memory.device().attention_backward(shape_, data(run, inputs[0]), dropout_.of(run), data(run, output),
                                           log_sums(run), gradient(run, output), gradient(run, inputs[0]),
                                           accumulate[0], run.workspace);
  }

 private:
  float* log_sums(const RunState& run) const { return reinterpret_cast<float*>(saved_data(run)); }
  kernels::AttentionShape shape_;
  OpDropout dropout_;
  std::size_t index_;  // among the attention ops
  int longest_;
};

}  // namespace

Value attention(ProgramBuilder& b, Value qkv, int heads, int context, double dropout) {
  const int width = qkv.channels / 3;
  const kernels::AttentionShape shape{b.batch(), qkv.width, heads, width / heads, b.compute()};
  if (dropout > 0 && kernels::attention_probabilities(shape) > kMostElements) {
    throw UsageError(fmt::format(
        "dropout of {} probabilities of attention: there are draws for {}; take fewer examples at a time",
        kernels::attention_probabilities(shape), kMostElements));
  }
  const int longest = b.inference() > 0 ? context : qkv.width;
  const Value y = b.add_value(1, qkv.width, width);
  return b.add_op(
      std::make_unique<AttentionOp>(shape, OpDropout(b.next_draws(), dropout), b.next_cache(), longest),
      {qkv}, y, {qkv.id, y.id}, 4 * shape.rows() * heads);
}

}  // namespace lpmm
