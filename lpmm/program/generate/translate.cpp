#include "lpmm/program/generate/translate.h"

#include <fmt/format.h>

#include "lpmm/base/error.h"
#include "lpmm/program/family.h"

namespace lpmm {

std::vector<std::string> translate(const ModelConfig& config, ValueType compute, const Model& model,
                                   const ModelMemory& memory, Device& device, const Tokenizer& tokenizer,
                                   std::span<const std::string> lines, BeamOptions options,
                                   const ProgressCall& progress) {
  const ModelConfig sizes = complete(config);
  options.start = sizes.integer(kStart);
  options.end = sizes.integer(kEnd);
  options.vocabulary = tokenizer.target().vocabulary();  // a model may have more
  if (options.start < 0 || options.end < 0) {
    throw UsageError(fmt::format(
        "model.{} or model.{} is -1: name the tokens that translations begin and end with", kStart, kEnd));
  }
  const std::vector<int> lengths = filled_lengths(sizes.length);
  std::vector<std::vector<std::int32_t>> sources;
  std::vector<std::size_t> places;  // their lines
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto refuse = [&](const std::string& why) {
      throw UsageError(fmt::format("line {}: {}", i + 1, why));
    };
    std::vector<std::int32_t> ids;
    try {
      ids = tokenizer.encode(lines[i]);
    } catch (const UsageError& e) {
      refuse(e.what());
    }
    if (ids.empty()) continue;
    ids.push_back(options.end);
    if (std::ssize(ids) > lengths.back()) {
      refuse(fmt::format("has {} tokens with its end, the model reads {}", ids.size(), lengths.back()));
    }
    sources.push_back(std::move(ids));
    places.push_back(i);
  }
  std::vector<std::string> told(lines.size());
  if (sources.empty()) return told;
  const auto found = beam_search(model, memory, device, compute, lengths, sources, options,
                                 sizes.integer(kContext), progress);
  for (std::size_t i = 0; i < places.size(); ++i) told[places[i]] = tokenizer.target().decode(found[i]);
  return told;
}

std::int64_t translation_bytes(const ModelConfig& config, ValueType compute, const Model& model,
                               Device& device, std::span<const int> lines, const BeamOptions& options) {
  const ModelConfig sizes = complete(config);
  return beam_search_bytes(model, compute, device, filled_lengths(sizes.length), lines, options,
                           sizes.integer(kContext), sizes.integer(kVocabulary));
}

}  // namespace lpmm
