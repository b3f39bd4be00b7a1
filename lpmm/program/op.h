// The elements of a program: values, and ops that each bring their backward.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "lpmm/program/program.h"

namespace lpmm {

// The initial values of a tensor. scale: standard deviation, half width of the interval, or the value itself.
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

// One of several ops that may add to the gradient of a tensor, counted in the order of forward.
struct TensorUse {
  int tensor = -1, place = 0;
};

// The state that an op is given while a program runs.
struct RunState {
  Device& device;
  const ModelMemory& memory;
  Step* step;  // null in evaluation
  const Buffers& buffers;
  Buffers* proposals;  // null in evaluation
  const Batch& batch;
  int microbatch;
  std::byte* arena;
  std::byte* workspace;
  std::byte* host_workspace;
  kernels::LossResult* loss;  // shared with the host
  std::int64_t labels = 0;    // that the loss is of
  Inference* inference = nullptr;
  std::vector<float>* outputs = nullptr;  // of the last layer; null where nobody asks
  int block = -1;                         // that is replayed or run backward
};

struct ProgramPlan;

// Convolutions of one program by height, width, channels in and out, kernel, stride, channels of a pixel of
// the output: equal ones are shared.
using Libraries =
    std::map<std::tuple<int, int, int, int, int, int, int>, std::shared_ptr<const kernels::Convolution>>;

class Op {
 public:
  virtual ~Op() = default;
  virtual void prepare(Libraries& /*libraries*/) {}  // before workspace_bytes, as is `accumulate`
  virtual std::int64_t workspace_bytes() const { return 0; }
  virtual std::int64_t host_workspace_bytes() const {
    return 0;
  }  // memory that the host writes and the device reads
  virtual std::int64_t cache_bytes(std::int64_t /*positions*/) const { return 0; }  // Program::cache_bytes
  // The largest piece of a parameter or of its gradient that exists in fp32 at once.
  virtual std::int64_t transient_bytes() const { return 0; }
  // The bytes of the gradients of one-dimensional tensors that its backward makes.
  virtual std::int64_t vector_gradient_bytes() const { return 0; }
  // Returns true if backward leaves out the gradient of the program's input, which has none.
  virtual bool skips_gradient() const { return false; }
  virtual void forward(RunState& run) const = 0;
  virtual void backward(RunState& run) const = 0;
  // Hands over the gradient of a tensor for all ops that use it (ProgramBuilder::gather), when every other
  // backward is done.
  virtual void gather(RunState& /*run*/) const {}
  // Returns true if forward only makes its output, so that it may run twice.
  virtual bool is_pure() const { return true; }

  std::vector<int> inputs;       // value ids
  int output = -1;               // value id; -1 for the loss
  std::vector<int> kept;         // values whose data the backward reads
  int gathers = -1;              // the tensor that it gathers the gradient of; -1: none
  std::vector<bool> accumulate;  // per input: its gradient already holds something; set by finish()
  int saved = -1;                // slot of what forward leaves for backward
  int block = -1;                // the block it is recomputed with; -1: none
  bool is_once = false;          // inference keeps what its first call makes of it
  int saved_again = -1;          // slot of what its second forward leaves
  int waiting = -1;              // slot of gradients that are folded at the end; -1: they are at once
  const ProgramPlan* plan = nullptr;

 protected:
  std::byte* data(const RunState& run, int value) const;
  std::byte* gradient(const RunState& run, int value) const;  // null where the value has none
  std::byte* saved_data(const RunState& run) const;
  // Returns true if gradients of one-dimensional tensors wait to be folded with those of all other ops; their
  // room, of vector_gradient_bytes(), is theirs until then.
  bool folds_later() const { return waiting >= 0; }
  std::byte* waiting_data(const RunState& run) const;  // null where they do not wait
  // The gradient of a whole tensor, which lies there where gradients wait.
  void fold_vector(RunState& run, int tensor, std::span<const float> gradient) const;
};

// Hands the values of the batch's examples, `channels` each, to whoever asked for outputs. `room`: as many
// floats of the device.
void hand_out(RunState& run, ValueType compute, const std::byte* values, int channels, float* room);

// Throws RunError where a batch has other than one label in 0..classes-1 for each of its `rows`; with
// `may_lack` negative ones, which count for nothing, may be among them. Returns how many count.
std::int64_t check_labels(const Batch& batch, std::int64_t rows, std::int64_t classes, bool may_lack = false);

}  // namespace lpmm
