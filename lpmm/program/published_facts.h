// Facts that a publisher states of a model besides sizes and weights. Runs carry them from import to export.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lpmm/files/json.h"

namespace lpmm {

// Ids of tokens, one or more, by what config.json calls them.
inline constexpr const char *kBeginToken = "bos_token_id", *kEndToken = "eos_token_id",
                            *kPadToken = "pad_token_id";
using SpecialTokens = std::vector<std::pair<std::string, std::vector<std::int32_t>>>;

struct PublishedFacts {
  SpecialTokens tokens;              // those that are said
  std::vector<std::string> classes;  // names in their order; empty: there are none
  std::string files = {};            // the folder with the files that came with it; empty: none
  std::string type = {};  // that an export is to be of: fp32, bf16 or fp16; empty: the one that it came in
};

// The tokens that an object names, each as an id or a list. `left_out`, where it is not null, takes what is
// there but is not one of so many tokens, for a message; a negative id stands for none.
SpecialTokens parse_special_tokens(const Json& object, std::int64_t vocabulary,
                                   std::string* left_out = nullptr);
// The same as an object.
Json special_tokens_json(const SpecialTokens& tokens);

}  // namespace lpmm
