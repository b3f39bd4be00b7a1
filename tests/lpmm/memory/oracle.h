// The whole step in scalar code over plain containers: fold, clip, rule, encode. The specification that
// ModelMemory and every backend are compared with, byte for byte. Slow; for tests.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lpmm/memory/model_memory.h"

namespace lpmm {

class Oracle {
 public:
  // One role of one tensor as it is stored; empty where the rule has no such state.
  struct Stored {
    Codec codec;
    std::int64_t elements = 0;
    std::vector<std::uint8_t> codes;
    std::vector<std::uint16_t> steps;
  };

  Oracle(std::span<const TensorInfo> tensors, const Policy& policy, const OptimizerConfig& optimizer,
         std::uint64_t seed, int microbatches, int slots = 1);

  // As in ModelMemory, for whole tensors.
  void initialize(int tensor, std::span<const float> values);
  void begin_step(std::uint32_t step);
  void fold(int tensor, std::span<const float> gradient, int microbatch, int contribution = 0,
            bool is_last = true);
  StepReport commit(double learning_rate);

  const Stored& stored(int tensor, Role role) const;
  std::vector<float> decode(int tensor, Role role) const;

 private:
  struct Tensor {
    TensorInfo info;
    RoleArray<Stored> roles;
    std::vector<float> history;  // for percentile clipping: square sums of the last 100 gradients
    double square_sum = -1;      // that of the accumulated gradient; negative: not known from a last fold
    std::vector<Stored> slots;   // accumulators, if there are several; the first role's then stays empty
    std::vector<float> sum;      // the sum of these accumulators
  };

  static Rule complete(const Rule& rule, const RoleArray<std::vector<float>>& values);
  void update(std::uint32_t ordinal, double learning_rate, double clip);
  std::vector<float> gradient(const Tensor& t) const;
  double clip_by_history(Tensor& tensor, double square_sum) const;
  // Returns the role that a role is stored in: the momentum, for an accumulator whose gradients go there.
  Role place_of(const Tensor& t, Role role) const;

  OptimizerConfig optimizer_;
  Policy policy_;
  std::uint64_t seed_;
  int microbatches_, slots_;
  std::uint32_t step_ = 0;
  std::int64_t updates_ = 0;
  double last_learning_rate_ = kNoLearningRate;
  std::string failed_tensor_;
  std::vector<Tensor> tensors_;
};

}  // namespace lpmm
