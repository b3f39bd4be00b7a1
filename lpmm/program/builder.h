// The builder of programs. A model's forward code calls ops (lpmm/program/ops/) on it once per shape. The
// same code, run on a builder without a device, declares the model's tensors and buffers. Ops are made of the
// primitives below.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lpmm/program/op.h"
#include "lpmm/program/program.h"

namespace lpmm {

// Memory that several programs take turns in, as large as the largest needs.
class ProgramRoom;
std::shared_ptr<ProgramRoom> make_program_room();

class ProgramBuilder {
 public:
  ProgramBuilder();  // never finished
  // With `inference`, a call has one sequence of that many tokens, and there is no backward.
  ProgramBuilder(int batch, ValueType compute, Device& device, int inference = 0);
  ~ProgramBuilder();

  // Before any op: those that use one tensor hand over its gradient together (gather), for updates without an
  // accumulator (Policy::apply_at_once); otherwise each in its turn.
  void gather_gradients() { gathers_ = true; }

  int batch() const;
  ValueType compute() const;
  int inference() const { return inference_; }
  PanelSizes panel_sizes() const;    // the device's
  std::int64_t rows(Value x) const;  // positions of all examples
  bool has_gradient(Value x) const;

  // Tensors and buffers are numbered in the order in which they are declared.
  int add_tensor(std::string name, std::vector<std::int64_t> shape, Initial initial,
                 TensorKind kind = TensorKind::kHidden, int parts = 1, bool fp32_states = false,
                 int heads = 0);
  int add_buffer(std::string name, std::vector<std::int64_t> shape, float initial);
  // Throws std::logic_error where no op before declares it.
  int find_tensor(const std::string& name) const;
  // Registers an op that adds to the gradient of a tensor that others may add to as well.
  TensorUse use(int tensor);
  // Registers an embedding: `output` holds the tensor's rows of the source's tokens or of the other tokens.
  void note_embedding(int tensor, Value output, bool is_source);
  // Called by the last op that uses a tensor, after embeddings: true if it hands over their gradient with its
  // own, in Op::gather. Throws std::logic_error where others use the tensor.
  bool gather(int tensor);

  // Room for what an op makes. Only the program's input, and what is made of it alone, has no gradient.
  // Throws UsageError where it is too large for any machine.
  Value add_value(int height, int width, int channels, bool has_gradient = true);
  // Room for fp32 numbers that all examples share.
  Value add_table(std::int64_t floats, bool has_gradient = false);
  // Appends an op and returns its output. `kept` are the values whose data its backward reads; `saved_bytes`
  // its forward leaves for its backward besides.
  Value add_op(std::unique_ptr<Op> op, const std::vector<Value>& inputs, Value output, std::vector<int> kept,
               std::int64_t saved_bytes = 0);
  // The ordinal of an op that draws noise, and of one that keeps a cache between calls of inference.
  std::uint32_t next_draws() { return draws_++; }
  std::size_t next_cache() { return caches_++; }

  // The ops of block(x), whose inner values are dropped after forward and computed again for backward, to the
  // same bits. Batch norms and losses cannot be part of it.
  Value recompute(Value x, const std::function<Value(Value)>& block);

  // Adds the ops of block(), whose values do not change while a text grows: inference runs them once. Ops
  // that read them must keep them in a cache.
  Value once(const std::function<Value()>& block);

  // Makes the program, in memory of its own or in a room that it shares.
  std::unique_ptr<Program> finish(std::shared_ptr<ProgramRoom> room = make_program_room());

  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const std::vector<Initial>& initials() const { return initials_; }
  const std::vector<BufferInfo>& buffers() const { return buffers_; }

 private:
  int inference_ = 0;
  bool gathers_ = false;
  int blocks_ = 0;
  std::size_t caches_ = 0;
  std::uint32_t draws_ = 0;
  std::unique_ptr<ProgramPlan> plan_;
  std::vector<TensorInfo> tensors_;
  std::vector<Initial> initials_;
  std::vector<BufferInfo> buffers_;
};

}  // namespace lpmm
