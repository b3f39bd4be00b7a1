// Reads and writes the keys in which a Qwen3-MoE's config.json differs from a Qwen3's.
#pragma once

#include "lpmm/files/json.h"
#include "lpmm/program/model_config.h"
#include "models/published/config.h"
#include "models/published/published.h"

namespace lpmm {

// Throws RunError for experts that every position goes through, for two keys of one meaning that differ, and
// for layers that are not there. The loss that balances experts counts where output_router_logits says so.
void read_experts(const PublishedConfig& config, ModelConfig& model);
void add_experts(const ModelConfig& model, Json& written);
// Throws RunError for a file that has the experts of a layer joined in one tensor, and says what to do.
void refuse_joined_experts(const PublishedTensors& tensors);

}  // namespace lpmm
