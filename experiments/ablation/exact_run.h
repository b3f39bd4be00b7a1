// A run in fp32 whose optimizer states can be read after every step.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "experiments/ablation/ablation.h"
#include "lpmm/memory/model_memory.h"

namespace lpmm {

// Trains the shipped gpt_tiny_embedded, with these settings besides, for this percentage of its run, and
// calls after_step(memory, steps made, steps of the whole run) after every step.
void train_exactly(
    const AblationOptions& options, const std::vector<std::string>& settings, int percent,
    const std::function<void(const ModelMemory& memory, std::int64_t step, std::int64_t total)>& after_step);

// The values of a role that is stored in fp32.
std::vector<float> exact_values(const ModelMemory& memory, int tensor, Role role);

}  // namespace lpmm
