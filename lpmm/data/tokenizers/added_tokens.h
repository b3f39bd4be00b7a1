// Tokens that a tokenizer takes out of a text before anything else happens to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lpmm/data/tokenizers/normalizer.h"

namespace lpmm {

class Part;

struct AddedToken {
  std::int32_t id;
  std::string text;
  bool special = false;
  bool single_word = false;          // not within a longer word
  bool left = false, right = false;  // takes the white space on that side too
  bool normalized = true;            // looked for in the normalised text
};

// One with its "content" and how it is found, and the list "added_tokens" of a tokenizer.json.
AddedToken read_added_token(const Part& one, std::int32_t id);
std::vector<AddedToken> read_added_tokens(const Part& file);

// A stretch of a text: a token, or what lies between.
struct TextPart {
  std::string_view text;
  std::optional<std::int32_t> token;
};

// The leftmost of some tokens in a text, the longest of those that start there.
class TokenFinder {
 public:
  void add(std::string_view text, const AddedToken& token);
  std::vector<TextPart> split(std::string_view text) const;

 private:
  const AddedToken* longest_at(std::string_view text, std::size_t at, std::size_t& bytes) const;

  std::unordered_map<std::uint64_t, std::uint32_t> children_;  // of a node of the trie, by node << 8 | byte
  std::vector<const AddedToken*> ends_ = {nullptr};            // by node: the token that ends there
};

class AddedTokens {
 public:
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer& normalizer);
  AddedTokens(const AddedTokens&) = delete;
  AddedTokens& operator=(const AddedTokens&) = delete;
  AddedTokens(AddedTokens&&) = default;

  const std::vector<AddedToken>& all() const { return tokens_; }
  const TokenFinder& raw() const { return raw_; }                // in the text as it is
  const TokenFinder& normalized() const { return normalized_; }  // in what the normaliser makes of the rest

 private:
  std::vector<AddedToken> tokens_;
  TokenFinder raw_, normalized_;  // they point into tokens_, which moves with them
};

}  // namespace lpmm
