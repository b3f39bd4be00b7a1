#include "lpmm/data/tokenizers/sentence_piece/with_added.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/data/tokenizers/beside.h"
#include "lpmm/data/tokenizers/cuts.h"
#include "lpmm/data/tokenizers/sentence_piece/message.h"
#include "lpmm/data/utf8.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace {

// What each id is within a text.
std::vector<std::string> all_tokens(const Tokenizer& inner, const std::vector<AddedToken>& added) {
  std::vector<std::string> tokens;
  for (std::int32_t id = 0; id < inner.vocabulary(); ++id) {
    tokens.push_back(inner.decode(std::span(&id, 1), false));
  }
  for (const AddedToken& token : added) tokens.push_back(token.text);
  return tokens;
}

// The ids of a model's pieces. Appends its controls, and what it takes for unknown.
TokenIds read_ids(const std::string& path, std::vector<AddedToken>& controls) {
  constexpr std::uint64_t kMost = 64 << 20;
  const std::string model = read_text(path, kMost);
  TokenIds ids;
  std::int32_t id = 0;
  for (const Piece& piece : read_pieces(model, path)) {
    const std::string text(piece.text);
    if (piece.type == Piece::kUnknown || piece.type == Piece::kControl) {
      controls.push_back({.id = id, .text = text, .special = true});
    }
    ids.emplace(text, id++);
  }
  return ids;
}

class WithAdded : public Tokenizer {
 public:
  // `found`: the added ones, and special ones of the file.
  WithAdded(std::unique_ptr<Tokenizer> inner, std::unique_ptr<Tokenizer> behind,
            const std::vector<AddedToken>& added, std::vector<AddedToken> found, std::string said)
      : Tokenizer(all_tokens(*inner, added)),
        inner_(std::move(inner)),
        behind_(std::move(behind)),
        added_(std::move(found), {}),
        said_(std::move(said)) {}

  std::size_t encode_from(std::string_view text, std::size_t first, std::size_t until,
                          std::vector<std::int32_t>& ids) const override {
    if (first >= text.size()) return first;
    const auto stretch = [&](std::string_view part) {
      const auto at = static_cast<std::size_t>(part.data() - text.data());
      check_utf8(text, at, at + part.size());
      std::vector<std::int32_t> out;
      for (const TextPart& piece : added_.raw().split(part)) {
        if (piece.token) {
          out.push_back(*piece.token);
          continue;
        }
        const bool is_behind = behind_ != nullptr && piece.text.data() != part.data();
        const std::vector<std::int32_t> found = (is_behind ? behind_ : inner_)->encode(piece.text);
        out.insert(out.end(), found.begin(), found.end());
      }
      return out;
    };
    const std::size_t end = until < text.size() ? find_cut(text, first, until, stretch) : text.size();
    const std::vector<std::int32_t> found = encode_stretch(text, first, end, stretch);
    ids.insert(ids.end(), found.begin(), found.end());
    return end;
  }
  nlohmann::ordered_json describe() const override {
    nlohmann::ordered_json described = inner_->describe();
    const std::string all = described["checksum"].get<std::string>() + said_;
    described["vocabulary"] = tokens().size();
    described["checksum"] = fmt::format("{:08x}", crc32(std::as_bytes(std::span(all))));
    return described;
  }
  std::optional<std::int32_t> end_of_text() const override { return inner_->end_of_text(); }
  std::vector<std::int32_t> before_text() const override { return inner_->before_text(); }

 private:
  std::int64_t least_rows() const override { return inner_->vocabulary(); }
  std::string first_bytes(std::int32_t id) const override {
    return id < inner_->vocabulary() ? inner_->decode(std::span(&id, 1))
                                     : tokens()[static_cast<std::size_t>(id)];
  }

  std::unique_ptr<Tokenizer> inner_, behind_;
  AddedTokens added_;
  std::string said_;
};

}  // namespace

std::unique_ptr<Tokenizer> with_added_tokens(std::unique_ptr<Tokenizer> inner,
                                             std::unique_ptr<Tokenizer> behind, const std::string& path,
                                             SentencePieceAge age) {
  const auto own = static_cast<std::int32_t>(inner->vocabulary());
  const TokensBeside beside(path);
  std::string said = behind == nullptr ? "" : " first";
  std::vector<AddedToken> all, added;
  if (age < SentencePieceAge::kControls) {
    all = beside.added();
  } else if (!beside.settings().json().empty()) {
    const TokenIds ids = read_ids(path, all);
    said += " controls " + beside.complete(ids, all);
  }
  for (AddedToken& token : all) {
    token.normalized = false;
    if (token.id >= own) added.push_back(token);
  }
  if (added.empty() && (age < SentencePieceAge::kControls || all.empty())) return inner;
  std::ranges::sort(added, {}, &AddedToken::id);
  for (std::size_t i = 0; i < added.size(); ++i) {
    if (added[i].id != own + static_cast<std::int32_t>(i)) {
      throw RunError(fmt::format("{}: the added token {} has the id {}, expected {}", path,
                                 shown(added[i].text), added[i].id, own + static_cast<std::int32_t>(i)));
    }
    said += fmt::format(" {} {} {}", added[i].text, added[i].left, added[i].right);
  }
  return std::make_unique<WithAdded>(std::move(inner), std::move(behind), added, std::move(all),
                                     std::move(said));
}

}  // namespace lpmm
