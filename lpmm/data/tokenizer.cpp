#include "lpmm/data/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/data/utf8.h"

namespace lpmm {
namespace {

using Json = nlohmann::ordered_json;
constexpr char32_t kCodePoints = 0x110000;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

class ByteTokenizer : public Tokenizer {
 public:
  ByteTokenizer() : Tokenizer(all_bytes()) {}
  std::size_t encode_from(std::string_view text, std::size_t first, std::size_t until,
                          std::vector<std::int32_t>& ids) const override {
    const std::string_view part = text.substr(first, until - first);
    for (const char c : part) ids.push_back(static_cast<unsigned char>(c));
    return first + part.size();
  }
  Json describe() const override { return {{"kind", "bytes"}}; }

 private:
  static std::vector<std::string> all_bytes() {
    std::vector<std::string> tokens;
    for (int b = 0; b < 256; ++b) tokens.emplace_back(1, static_cast<char>(b));
    return tokens;
  }
};

class CharacterTokenizer : public Tokenizer {
 public:
  explicit CharacterTokenizer(const std::vector<char32_t>& codes)
      : Tokenizer(spelled(codes)), ids_(codes.back() + 1, -1) {
    for (std::size_t i = 0; i < codes.size(); ++i) ids_[codes[i]] = static_cast<std::int32_t>(i);
  }
  std::size_t encode_from(std::string_view text, std::size_t first, std::size_t until,
                          std::vector<std::int32_t>& ids) const override {
    std::size_t at = first;
    while (at < std::min(until, text.size())) {
      const Character c = character_at(text, at);
      const std::int32_t id = c.code < ids_.size() ? ids_[c.code] : -1;
      if (id < 0) {
        throw UsageError(fmt::format(
            "byte {} of the text: the character {} is none of the {} that the tokenizer has: take it out, or "
            "make the tokenizer from a text that has it",
            at, named(c.code), vocabulary()));
      }
      ids.push_back(id);
      at += c.bytes;
    }
    return at;
  }
  Json describe() const override {
    std::string characters;
    for (const std::string& token : tokens()) characters += token;
    return {{"kind", "characters"}, {"characters", characters}};
  }

 private:
  static std::vector<std::string> spelled(const std::vector<char32_t>& codes) {
    std::vector<std::string> tokens;
    for (const char32_t code : codes) tokens.push_back(utf8(code));
    return tokens;
  }

  std::vector<std::int32_t> ids_;  // by code point
};

// A token for a message, without the space that stands before a word.
std::string_view spelled(const std::vector<std::string>& tokens, std::int64_t id) {
  std::string_view token = tokens[static_cast<std::size_t>(id)];
  if (token.starts_with(' ')) token.remove_prefix(1);
  return token;
}

}  // namespace

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, const ProgressCall& progress) const {
  constexpr std::size_t kPiece = 1 << 20;
  std::vector<std::int32_t> ids;
  for (std::size_t at = 0; at < text.size();) {
    const bool first = at == 0;
    at = encode_from(text, at, at + std::min(kPiece, text.size() - at), ids);
    if (first && at < text.size()) {  // the first piece tells how many to expect
      const double share = static_cast<double>(at) / static_cast<double>(text.size());
      ids.reserve(static_cast<std::size_t>(1.1 * static_cast<double>(ids.size()) / share));
    }
    if (progress) progress(static_cast<std::int64_t>(at), static_cast<std::int64_t>(text.size()));
  }
  if (vocabulary_ == std::ssize(tokens_)) return ids;
  const auto bad = std::ranges::find_if(ids, [&](std::int32_t id) { return id >= vocabulary_; });
  if (bad == ids.end()) return ids;
  throw UsageError(
      fmt::format("the text has the token {} (id {}), for which the model has no row: take it out",
                  shown(spelled(tokens_, *bad)), *bad));
}

std::string Tokenizer::fit(std::int64_t rows) {
  constexpr std::int64_t kShown = 5;
  const std::int64_t all = std::ssize(tokens_);
  if (all <= rows || least_rows() > rows) return "";
  vocabulary_ = rows;
  std::string left_out;
  for (std::int64_t i = rows; i < std::min(all, rows + kShown); ++i) {
    left_out += (i == rows ? "" : ", ") + shown(spelled(tokens_, i));
  }
  return left_out + (all > rows + kShown ? ", ..." : "");
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool begins) const {
  const bool from_start = begins;
  std::string bytes;
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocabulary()) {
      throw UsageError(
          fmt::format("the token id {} is outside the vocabulary of {}: were the ids made by "
                      "another tokenizer?",
                      id, vocabulary()));
    }
    const std::string& token = tokens_[static_cast<std::size_t>(id)];
    bytes += begins ? first_bytes(id) : token;
    begins = begins && token.empty();
  }
  return from_start ? finished(std::move(bytes)) : bytes;
}

std::unique_ptr<Tokenizer> make_byte_tokenizer() {
  return std::make_unique<ByteTokenizer>();
}

std::unique_ptr<Tokenizer> make_character_tokenizer(std::string_view text) {
  if (text.empty()) throw UsageError("a tokenizer of characters cannot be made from an empty text");
  std::vector<bool> seen(kCodePoints);
  std::vector<char32_t> codes;
  for (std::size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    if (!seen[c.code]) codes.push_back(c.code);
    seen[c.code] = true;
    at += c.bytes;
  }
  std::ranges::sort(codes);
  return std::make_unique<CharacterTokenizer>(codes);
}

std::string Utf8Stream::push(std::string_view bytes) {
  held_ += bytes;
  std::string out;
  std::size_t at = 0;
  while (at < held_.size()) {
    const std::string_view rest = std::string_view(held_).substr(at);
    const Character c = first_character(rest);
    if (c.state == Character::kCut) break;
    out += c.state == Character::kGood ? rest.substr(0, c.bytes) : kReplacement;
    at += c.bytes;
  }
  held_.erase(0, at);
  return out;
}

std::string Utf8Stream::finish() {
  std::string out(held_.empty() ? "" : kReplacement);
  held_.clear();
  return out;
}

}  // namespace lpmm
