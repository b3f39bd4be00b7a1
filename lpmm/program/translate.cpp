#include "lpmm/program/translate.h"

#include <fmt/format.h>

#include "lpmm/base/error.h"
#include "lpmm/program/family.h"

namespace lpmm {

std::vector<std::string> translate(const ModelConfig& config, Compute compute, const Model& model,
                                   const ModelMemory& memory, const Tokenizer& tokenizer,
                                   std::span<const std::string> lines, BeamOptions options,
                                   const ProgressCall& progress) {
  const ModelConfig sizes = complete(config);
  options.start = sizes.integer(kStart);
  options.end = sizes.integer(kEnd);
  if (options.start < 0 || options.end < 0) {
    throw UsageError(fmt::format(
        "model.{} or model.{} is -1: name the tokens that translations begin and end with", kStart, kEnd));
  }
  const std::vector<int> lengths = filled_lengths(sizes.length);
  std::vector<std::vector<std::int32_t>> sources;
  for (const std::string& line : lines) {
    const auto refuse = [&](const std::string& why) {
      throw UsageError(fmt::format("line {}: {}", sources.size() + 1, why));
    };
    try {
      sources.push_back(tokenizer.encode(line));
    } catch (const UsageError& e) {
      refuse(e.what());
    }
    if (sources.back().empty()) {
      sources.pop_back();
      refuse("is empty");
    }
    sources.back().push_back(options.end);
    if (std::ssize(sources.back()) > lengths.back()) {
      const std::size_t tokens = sources.back().size();
      sources.pop_back();
      refuse(fmt::format("has {} tokens with its end, the model reads {}", tokens, lengths.back()));
    }
  }
  std::vector<std::string> told;
  for (const auto& ids :
       beam_search(model, memory, compute, lengths, sources, options, sizes.integer(kContext), progress)) {
    told.push_back(tokenizer.target().decode(ids));
  }
  return told;
}

}  // namespace lpmm
