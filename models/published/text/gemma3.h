// Reads and writes the keys in which a Gemma 3's config.json differs from a Llama's.
#pragma once

#include "lpmm/files/json.h"
#include "lpmm/program/model_config.h"
#include "models/published/config.h"

namespace lpmm {

// Lists the layers' types: all but every `every`th have a window; 0: all have one.
Json layer_types(std::int64_t layers, std::int64_t every);
// Returns it with the rotary base of layers with a window under a key of its own, as transformers wrote it
// before version 5.
PublishedConfig with_flat_rotary(const PublishedConfig& config);
// Sets all but what a Llama has too. Throws RunError for caps on logits, attention to what comes later, and
// layers whose windows follow no pattern.
void read_gemma(const PublishedConfig& config, ModelConfig& model);
// Throws UsageError for an attention_scale that transformers has no key for.
void add_gemma(const ModelConfig& model, Json& written);

}  // namespace lpmm
