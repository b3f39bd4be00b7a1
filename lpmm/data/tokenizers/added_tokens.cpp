#include "lpmm/data/tokenizers/added_tokens.h"

#include <algorithm>

#include "lpmm/data/tokenizers/characters.h"
#include "lpmm/data/tokenizers/growth.h"
#include "lpmm/data/tokenizers/part.h"
#include "lpmm/data/utf8.h"

namespace lpmm {
namespace {

// Returns the offset of the last character of a text, which is not empty.
std::size_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80) --at;
  return at;
}

bool is_space_at(std::string_view text, std::size_t at) {
  return is_white_space(first_character(text.substr(at)).code);
}

bool stands_alone(std::string_view before, std::string_view after) {
  const bool joins_left =
      !before.empty() && is_word(first_character(before.substr(last_character(before))).code);
  const bool joins_right = !after.empty() && is_word(first_character(after).code);
  return !joins_left && !joins_right;
}

}  // namespace

AddedToken read_added_token(const Part& one, std::int32_t id) {
  AddedToken t{id, one.text("content")};
  t.special = one.flag("special", false);
  t.single_word = one.flag("single_word", false);
  t.left = one.flag("lstrip", false);
  t.right = one.flag("rstrip", false);
  t.normalized = one.flag("normalized", !t.special);
  if (t.text.empty()) throw one.refusal("is empty");
  return t;
}

std::vector<AddedToken> read_added_tokens(const Part& file) {
  std::vector<AddedToken> tokens;
  if (!file.has("added_tokens")) return tokens;
  for (const Part& one : file.list("added_tokens")) {
    tokens.push_back(read_added_token(one, static_cast<std::int32_t>(one.integer("id", 0, (1 << 24) - 1))));
  }
  return tokens;
}

void TokenFinder::add(std::string_view text, const AddedToken& token) {
  std::uint32_t node = 0;
  for (const char c : text) {
    const auto next = static_cast<std::uint32_t>(ends_.size());
    const std::uint64_t edge = std::uint64_t{node} << 8 | static_cast<unsigned char>(c);
    const auto [child, is_new] = children_.emplace(edge, next);
    if (is_new) ends_.push_back(nullptr);
    node = child->second;
  }
  if (ends_[node] == nullptr) ends_[node] = &token;
}

const AddedToken* TokenFinder::longest_at(std::string_view text, std::size_t at, std::size_t& bytes) const {
  const AddedToken* found = nullptr;
  std::uint32_t node = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    const auto child = children_.find(std::uint64_t{node} << 8 | static_cast<unsigned char>(text[i]));
    if (child == children_.end()) break;
    node = child->second;
    if (ends_[node] != nullptr) found = ends_[node], bytes = i + 1 - at;
  }
  return found;
}

std::vector<TextPart> TokenFinder::split(std::string_view text) const {
  std::vector<TextPart> parts;
  std::size_t done = 0, bytes = 0;
  for (std::size_t at = 0; at < text.size() && !children_.empty();) {
    const AddedToken* token = longest_at(text, at, bytes);
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + bytes;
    at = end;
    if (token->single_word && !stands_alone(text.substr(0, begin), text.substr(end))) continue;
    while (token->left && begin > done) {
      const std::size_t last = last_character(text.substr(0, begin));
      if (!is_space_at(text, last)) break;
      begin = last;
    }
    while (token->right && end < text.size() && is_space_at(text, end)) {
      end += first_character(text.substr(end)).bytes;
    }
    begin = std::max(begin, done);
    if (done < begin) parts.push_back({text.substr(done, begin - done), {}});
    parts.push_back({text.substr(begin, end - begin), token->id});
    done = end;
    at = std::max(at, end);
  }
  if (done < text.size()) parts.push_back({text.substr(done), {}});
  return parts;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizer& normalizer)
    : tokens_(std::move(tokens)) {
  std::size_t bytes = 0;
  for (const AddedToken& token : tokens_) bytes += token.text.size();
  std::size_t room = room_for(bytes);
  for (const AddedToken& token : tokens_) {
    if (token.normalized) {
      const std::string text = normalizer(token.text, room);
      normalized_.add(text, token);
      room -= std::min(room, text.size());
    } else {
      raw_.add(token.text, token);
    }
  }
}

}  // namespace lpmm
