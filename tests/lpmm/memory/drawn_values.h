// Values and gradients of whole memories, drawn from fixed seeds.
#pragma once

#include <vector>

#include "lpmm/memory/model_memory.h"
#include "tests/normal_values.h"

namespace lpmm {

inline void initialize(ModelMemory& memory) {
  for (int i = 0; i < memory.tensors(); ++i) {
    memory.initialize(i, 0, normal_values(memory.info(i).elements(), static_cast<std::uint64_t>(i), 0.1F));
  }
}

inline std::vector<float> gradient_of(const ModelMemory& memory, int tensor, std::uint32_t step,
                                      int microbatch, float deviation = 0.01F) {
  const std::uint64_t seed =
      100 * step + 10 * static_cast<std::uint64_t>(microbatch) + static_cast<std::uint64_t>(tensor);
  return normal_values(memory.info(tensor).elements(), seed, deviation);
}

// A step with the gradients of all tensors and microbatches.
inline Step folded_step(ModelMemory& memory, const StepOptions& options, float deviation = 0.01F) {
  Step step = memory.begin_step(options);
  for (int k = 0; k < memory.microbatches(); ++k) {
    for (int i = 0; i < memory.tensors(); ++i) {
      step.fold(i, 0, gradient_of(memory, i, options.step, k, deviation), k);
    }
  }
  return step;
}

}  // namespace lpmm
