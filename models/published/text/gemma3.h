// What config.json of a Gemma 3 says otherwise than that of a Llama, both ways.
#pragma once

#include "lpmm/files/json.h"
#include "lpmm/program/model_config.h"
#include "models/published/config.h"

namespace lpmm {

// Which layers have a window: all but every `every`th; 0: all.
Json layer_types(std::int64_t layers, std::int64_t every);
// With the rotary positions of layers with a window apart from those of the others, as transformers wrote
// them before version 5.
PublishedConfig with_flat_rotary(const PublishedConfig& config);
// Sets all but what a Llama has too. Throws RunError for caps on logits, attention to what comes later, and
// layers whose windows follow no pattern.
void read_gemma(const PublishedConfig& config, ModelConfig& model);
// Throws UsageError for an attention_scale that transformers has no key for.
void add_gemma(const ModelConfig& model, Json& written);

}  // namespace lpmm
