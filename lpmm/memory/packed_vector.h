// A vector of weights with its optimizer, packed: for a loop of your own that holds its weights in one fp32
// vector. Whole models use ModelMemory, which hands out ranges of tensors and takes gradients range by range.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/pool.h"
#include "lpmm/memory/model_memory.h"

namespace lpmm {

class PackedVector {
 public:
  // Packs `values` by a preset of make_policy, error feedback included. Throws UsageError or RunError as
  // ModelMemory does. Threads as in Pool; the result does not depend on them.
  PackedVector(std::span<const float> values, std::string_view preset, const OptimizerConfig& optimizer,
               std::uint64_t seed = 1, int threads = 0);

  std::int64_t size() const { return memory_.info(0).elements(); }
  // The weights decoded to fp32: a temporary, gone with the expression that asked for it.
  operator std::vector<float>() const;  // NOLINT(google-explicit-constructor): it stands in for the vector
  // One update. Throws RunError where the gradient is not finite; the weights are then as before.
  void step(std::span<const float> gradient, double learning_rate);
  void step(std::span<const float> gradient) { step(gradient, memory_.optimizer().learning_rate); }

  const ModelMemory& memory() const { return memory_; }

 private:
  Pool pool_;
  ModelMemory memory_;
  std::uint32_t step_ = 0;
};

}  // namespace lpmm
