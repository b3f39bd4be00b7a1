// Text through a translator.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lpmm/base/progress.h"
#include "lpmm/data/tokenizer.h"
#include "lpmm/memory/model_memory.h"
#include "lpmm/program/generate/beam_search.h"
#include "lpmm/program/model_config.h"

namespace lpmm {

// Each line's translation; an empty line stays one. The tokens at both ends are the model's, whatever
// `options` say. Throws UsageError naming the line that cannot be encoded, or is longer than the model reads;
// Interrupted.
std::vector<std::string> translate(const ModelConfig& config, ValueType compute, const Model& model,
                                   const ModelMemory& memory, Device& device, const Tokenizer& tokenizer,
                                   std::span<const std::string> lines, BeamOptions options,
                                   const ProgressCall& progress = {});
// The most that it takes besides the model, for lines of so many tokens with their ends: what it takes where
// translations grow as long as they may.
std::int64_t translation_bytes(const ModelConfig& config, ValueType compute, const Model& model,
                               Device& device, std::span<const int> lines, const BeamOptions& options);

}  // namespace lpmm
