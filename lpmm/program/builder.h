// Ops and the builder of programs. A model's forward code calls the builder once per shape; every op brings
// its backward. The same code, run on a builder that is never finished, declares the model's tensors and
// buffers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "lpmm/memory/pages.h"
#include "lpmm/program/program.h"

namespace lpmm {

// How a tensor starts. scale: standard deviation, half width of the interval, or the value itself.
enum class InitialKind : std::uint8_t { kNormal, kUniform, kConstant };
struct Initial {
  InitialKind kind = InitialKind::kConstant;
  double scale = 0;
};

// A value of the program: one microbatch of images, of vectors (1 x 1 x channels) or of sequences (1 x length
// x channels).
struct Value {
  int id = -1;
  int height = 0, width = 0, channels = 0;
  std::int64_t values() const { return std::int64_t{1} * height * width * channels; }  // of one example
};

// What an op sees while a program runs.
struct RunState {
  const ModelMemory& memory;
  ModelMemory* gradients;  // null in evaluation
  const Buffers& buffers;
  Buffers* proposals;  // null in evaluation
  const Batch& batch;
  int microbatch;
  std::byte* arena;
  std::byte* workspace;
  BatchResult result;
  Inference* inference = nullptr;
  int block = -1;  // that is replayed or run backward
};

struct ProgramPlan;

// Convolutions of one program by height, width, channels in and out, kernel, stride: equal ones are shared.
using Libraries =
    std::map<std::tuple<int, int, int, int, int, int>, std::shared_ptr<const kernels::Convolution>>;

class Op {
 public:
  virtual ~Op() = default;
  virtual void prepare(Libraries& /*libraries*/) {}  // before workspace_bytes
  virtual std::int64_t workspace_bytes() const { return 0; }
  // The largest piece of a parameter or of its gradient that exists in fp32 at once.
  virtual std::int64_t transient_bytes() const { return 0; }
  // Whether backward leaves out the gradient of what has none: the program's input.
  virtual bool skips_gradient() const { return false; }
  virtual void forward(RunState& run) const = 0;
  virtual void backward(RunState& run) const = 0;
  // Whether forward does nothing but make its output, so that it may run twice.
  virtual bool is_pure() const { return true; }

  std::vector<int> inputs;       // value ids
  int output = -1;               // value id; -1 for the loss
  std::vector<int> kept;         // values whose data the backward reads
  std::vector<bool> accumulate;  // per input: its gradient already holds something; set by finish()
  int saved = -1;                // slot of what forward leaves for backward
  int block = -1;                // the block it is recomputed with; -1: none
  int saved_again = -1;          // slot of what its second forward leaves
  const ProgramPlan* plan = nullptr;

 protected:
  std::byte* data(const RunState& run, int value) const;
  std::byte* gradient(const RunState& run, int value) const;  // null where the value has none
  std::byte* saved_data(const RunState& run) const;
};

class ProgramBuilder {
 public:
  // With `inference`, one sequence of that many tokens a call, and no backward.
  ProgramBuilder(int batch, Compute compute, int threads, int inference = 0);
  ~ProgramBuilder();

  Value input(int height, int width, int channels);
  // Square kernel, padding kernel / 2, no bias. Tensor `name`.weight, OIHW, He normal over fan-out.
  Value convolution(const std::string& name, Value x, int channels, int kernel, int stride);
  // Batch norm, then the residual is added, then ReLU. Tensors `name`.weight and .bias, buffers
  // .running_mean and .running_var.
  Value batch_norm(const std::string& name, Value x, bool relu, Value residual = {});
  Value relu(Value x);
  Value add(Value a, Value b);
  Value average_pool(Value x, int kernel, int stride);
  Value max_pool(Value x, int kernel, int stride);
  Value shortcut(Value x, int channels, int stride);  // He et al. 2016, option A
  // On flattened values. Tensors `name`.weight (outputs, inputs) and .bias.
  Value linear(const std::string& name, Value x, int outputs, bool relu);
  void loss(Value logits, double label_smoothing);

  // The ops of block(x), whose inner values are dropped after forward and computed again for backward, to the
  // same bits. Batch norms and losses cannot be part of it.
  Value recompute(Value x, const std::function<Value(Value)>& block);

  // Token and learned position embeddings of sequences of `length` <= `context` tokens. Tensors
  // `tokens`.weight (vocabulary, width) and `positions`.weight (context, width). Inference has its own
  // length.
  Value embedding(const std::string& tokens, const std::string& positions, int vocabulary, int context,
                  int length, int width);
  // Over channels. Tensors `name`.weight and .bias.
  Value layer_norm(const std::string& name, Value x);
  // At every position. Tensors `name`.weight (outputs, channels), normal of that deviation, and .bias, zero.
  Value projection(const std::string& name, Value x, int outputs, double deviation);
  Value gelu(Value x);
  // x with each value 0 with that probability, the others scaled to keep the mean; in training only.
  Value dropout(Value x, double probability);
  // Causal self-attention of the three parts of the channels: queries, keys, values. No call sees more than
  // `context` positions. Dropout is of the probabilities.
  Value attention(Value qkv, int heads, int context, double dropout = 0);
  // Cross-entropy of the labels under logits = x times the embedding's transpose.
  void token_loss(Value x, const std::string& embedding);

  std::unique_ptr<Program> finish();

  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const std::vector<Initial>& initials() const { return initials_; }
  const std::vector<BufferInfo>& buffers() const { return buffers_; }

 private:
  std::int64_t rows(Value x) const;  // positions of all examples
  int find_tensor(const std::string& name) const;
  int add_tensor(std::string name, std::vector<std::int64_t> shape, Initial initial);
  void find_inner_values();
  std::vector<int> replayed(int last) const;
  Value add_value(int height, int width, int channels);
  Value add_op(std::unique_ptr<Op> op, const std::vector<Value>& inputs, Value output, std::vector<int> kept);

  Compute compute_;
  int inference_;
  int attentions_ = 0, blocks_ = 0;
  std::uint32_t dropouts_ = 0;
  std::unique_ptr<ProgramPlan> plan_;
  std::vector<TensorInfo> tensors_;
  std::vector<Initial> initials_;
  std::vector<BufferInfo> buffers_;
};

}  // namespace lpmm
