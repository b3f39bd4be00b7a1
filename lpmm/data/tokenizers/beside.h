// The files beside a tokenizer's own that belong to it: tokenizer_config.json, special_tokens_map.json,
// added_tokens.json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lpmm/data/tokenizers/added_tokens.h"
#include "lpmm/data/tokenizers/part.h"
#include "lpmm/data/tokenizers/subwords.h"

namespace lpmm {

inline constexpr const char *kTokenizerConfig = "tokenizer_config.json",
                            *kSpecialTokensMap = "special_tokens_map.json",
                            *kAddedTokens = "added_tokens.json";
inline constexpr const char* kFilesBeside[] = {kTokenizerConfig, kSpecialTokensMap, kAddedTokens};
// The keys by which they name special tokens.
inline constexpr const char* kNamedTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                               "pad_token", "cls_token", "mask_token"};

// The settings of tokenizer_config.json, and of special_tokens_map.json those that it leaves open.
class TokensBeside {
 public:
  // `path`: of a file in their folder. Throws RunError naming the file where one is no JSON object.
  explicit TokensBeside(const std::string& path);
  TokensBeside(const TokensBeside&) = delete;
  TokensBeside& operator=(const TokensBeside&) = delete;

  const Part& settings() const { return settings_; }
  // The token that a key names, as a text or as an object with "content"; empty: none.
  std::string name(const char* key) const;
  // The end of a text: the named one, else one of the usual names; of those that are added.
  std::optional<std::int32_t> end_of_text(const std::vector<AddedToken>& added) const;
  // Adds to the tokens of a file what the files beside say: added tokens, and special ones that have an id in
  // `ids` or else get the next one, as in transformers. Returns what was added, for a checksum. Throws
  // RunError for what is no token or has no id.
  std::string complete(const TokenIds& ids, std::vector<AddedToken>& tokens) const;
  // The tokens that tokenizer_config.json or added_tokens.json lists, by id.
  std::vector<AddedToken> added() const;

 private:
  std::vector<AddedToken> special() const;  // without an id

  nlohmann::json json_;
  std::string path_, added_path_;
  Part settings_;
};

}  // namespace lpmm
