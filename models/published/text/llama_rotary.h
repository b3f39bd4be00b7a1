// Reads and writes the keys of rotary positions that a Llama's config.json has, and those of its kin.
#pragma once

#include <string>
#include <string_view>

#include "lpmm/files/json.h"
#include "lpmm/program/model_config.h"
#include "lpmm/program/published_facts.h"
#include "models/published/config.h"

namespace lpmm {

// Throws RunError for a scaling that is not here, and for a Phi-3's lists that are none.
void read_rotary(const PublishedConfig& config, ModelConfig& model);
// Returns the scaling with what the model came with: its dynamic scaling holds where nothing else does, and
// keys that lpmm does not know are kept.
Json rotary_of(const ModelConfig& model, const PublishedFacts& facts, std::string_view type);
// Adds a Phi-3's keys that lie beside its scaling.
void add_phi3_rotary(const ModelConfig& model, Json& written);
// Throws UsageError, naming `path`, for a factor on what is rotated that has no key.
void check_saved_rotary(const std::string& path, const ModelConfig& model);

}  // namespace lpmm
