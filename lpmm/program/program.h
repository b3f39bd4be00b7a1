// A program: the linear list of ops a model's forward code builds for one shape, with its backward, laid out
// by liveness in one arena. Training runs the list; planning only measures it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "lpmm/base/progress.h"
#include "lpmm/data/batch.h"
#include "lpmm/memory/model_memory.h"

namespace lpmm {

// fp32 statistics beside the parameters (batch norm's running mean and variance).
struct BufferInfo {
  std::string name;
  std::vector<std::int64_t> shape;
  float initial = 0;
};

// The bytes of the buffers' values; the proposals, which are workspace of one step, take as many again.
std::int64_t buffer_bytes(std::span<const BufferInfo> infos);

// Values of all buffers, in the device's memory; a step's proposals are kept apart until they are committed.
// A microbatch's proposal builds on that of the one before; or, where microbatches are computed apart, each
// proposes from 0, and propose() puts together what all of them said.
class Buffers {
 public:
  Buffers(std::vector<BufferInfo> infos, Device& device);
  Device& device() const { return device_; }
  const std::vector<BufferInfo>& infos() const { return infos_; }
  std::span<float> value(int buffer) { return part(values_, buffer); }
  std::span<const float> value(int buffer) const { return part(values_, buffer); }
  std::span<float> proposal(int buffer);  // to be changed
  bool* finite(int buffer) const;         // becomes false where a proposal is not
  void begin();                           // proposals <- values
  void begin_apart();                     // proposals <- 0, as each microbatch finds them
  std::vector<float> proposed() const;    // by this one, of all buffers
  // Proposals <- values, moved on by what each microbatch proposed, in their order, of those buffers that
  // changed since begin().
  void propose(std::span<const float> of_microbatches);
  void commit();                        // values <- proposals
  std::string failed_proposal() const;  // the first that is not finite, or empty; once synchronized

 private:
  std::span<float> part(const DeviceMemory& memory, int buffer) const;
  Device& device_;
  std::vector<BufferInfo> infos_;
  std::vector<std::int64_t> offsets_;
  std::vector<bool> changed_;
  DeviceMemory values_, proposals_, finite_;
};

struct BatchResult {
  double loss_sum = 0;  // over the labels, label smoothing included
  std::int64_t correct = 0;
  std::int64_t count = 0;  // of labels: images or tokens, or of pairs of answers
  double margin_sum = 0;   // of these: over pairs
};

// The same where a device is still to write it: once that is synchronized, and until the next step begins.
struct PendingLoss {
  const kernels::LossResult* result = nullptr;
  std::int64_t count = 0;
  BatchResult read() const { return {result->sum, result->correct, count, result->margin}; }
};

// The state of text generation between calls: the keys and values of every position so far.
struct Inference {
  // The cache of one attention op. Caches of another text, such as a source's, do not grow.
  struct Cache {
    DeviceMemory memory;
    std::int64_t sequence_bytes = 0, position_bytes = 0;  // position_bytes 0: it does not grow
  };
  std::int64_t position = 0;  // of the next token
  std::vector<Cache> cache;
  std::int64_t positions = 0;  // that caches have room for; 0: as many as the model has
  bool all = false;            // logits of every token, not of the last one alone
  std::int64_t whole = 0;      // tokens of the text that is being read; 0: no more are known than have come
  // A model with LongRoPE says the length beyond which it rotates all positions otherwise, and whether it has
  // done so: a text that grows beyond that must be read again from its beginning.
  std::int64_t short_length = 0;
  bool is_long = false;
  std::vector<float> logits;  // (tokens or 1, vocabulary), of the last call; of several sequences (sequences,
                              // vocabulary)
  // For a model of pairs, needed until the first call: the source of each sequence, (sequences, length), and
  // how much of it is there.
  std::vector<std::int32_t> source, source_lengths;

  // Sequence i goes on with what sequence parents[i] has kept. Sequences of one source only.
  void reorder(std::span<const std::int32_t> parents, Device& device);
};

class Program {
 public:
  virtual ~Program() = default;
  virtual std::int64_t activation_bytes() const = 0;  // the arena
  virtual std::int64_t workspace_bytes() const = 0;   // panels, packed weights, partial sums, library
                                                      // scratch, and what of it the host has
  // The largest piece of a parameter or of its gradient that exists in fp32 at once; part of the workspace.
  virtual std::int64_t largest_transient_bytes() const = 0;
  // The times that train() reads the weights: forward, backward, and forward again where values are
  // recomputed.
  virtual int passes() const { return 2; }
  // Forward and backward of one microbatch; gradients are folded in `step`, which is one of `memory`, as they
  // appear, those of norms and of biases of linear layers at the end where the device would rather have them
  // together. If it throws, the step has failed.
  virtual PendingLoss train(const ModelMemory& memory, Step& step, Buffers& buffers, const Batch& batch,
                            int microbatch) = 0;
  // Forward with running statistics; batch.count <= the program's batch. `outputs`, if not null, gets the
  // last layer's output for every example: logits of classes, a number, an embedding.
  virtual BatchResult evaluate(const ModelMemory& memory, const Buffers& buffers, const Batch& batch,
                               std::vector<float>* outputs = nullptr) = 0;
  // Returns the bytes that infer() keeps for sequences of so many positions, and needs to reorder them.
  virtual std::int64_t cache_bytes(std::int64_t /*positions*/) const { return 0; }
  // The next tokens of one sequence, or the next of each, as many as the program was built for
  // (build_inference, build_decoder).
  virtual void infer(const ModelMemory& memory, std::span<const std::int32_t> tokens, Inference& state);
};

// A model: its tensors, its buffers, their initial values and its programs. make_model (family.h) makes it.
class Model {
 public:
  virtual ~Model() = default;
  virtual const std::vector<TensorInfo>& tensors() const = 0;
  virtual const std::vector<BufferInfo>& buffers() const = 0;
  // Encodes initial values range by range; no tensor is ever whole in fp32. `progress` counts parameters.
  virtual void initialize(ModelMemory& memory, std::uint64_t seed, const ProgressCall& progress) const = 0;
  // `batch` images or sequences per microbatch; nothing large is allocated before the first train or
  // evaluate. `longest`: no batch will be filled up to more than that (Batch::length); 0: to the model's
  // length.
  virtual std::unique_ptr<Program> build(int batch, ValueType compute, Device& device,
                                         int longest = 0) const = 0;
  // Builds a program for `length` tokens per call. Throws UsageError for a model that does not read tokens.
  virtual std::unique_ptr<Program> build_inference(int length, ValueType compute, Device& device) const;
  // Builds one for a model of pairs: one token of each of `sequences` per call, sources padded to `length`.
  // Throws UsageError for another model.
  virtual std::unique_ptr<Program> build_decoder(int sequences, int length, ValueType compute,
                                                 Device& device) const;
};

}  // namespace lpmm
