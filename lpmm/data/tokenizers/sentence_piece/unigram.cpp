// Unigram (Kudo 2018): of all ways to cut a word into tokens, the one whose scores have the largest sum.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "lpmm/data/tokenizers/part.h"
#include "lpmm/data/tokenizers/subwords.h"
#include "lpmm/data/utf8.h"

namespace lpmm {
namespace {

struct UnigramOptions {
  std::vector<double> scores;  // by id: logarithms of how probable tokens are
  std::int32_t unknown = -1;   // -1: what has no token is refused
  bool byte_fallback = false;
};

class Unigram : public Subwords {
 public:
  Unigram(TokenIds ids, UnigramOptions options) : Subwords(std::move(ids)), options_(std::move(options)) {
    for (const auto& [token, id] : tokens()) sorted_.push_back({token, id});
    std::ranges::sort(sorted_, {}, &Token::text);
    constexpr double kUnknownCosts = 10;  // as in SentencePiece
    unknown_score_ = std::ranges::min(options_.scores) - kUnknownCosts;
  }
  void encode(std::string_view word, std::vector<std::int32_t>& ids) const override;

 private:
  struct Token {
    std::string_view text;  // a key of tokens()
    std::int32_t id;
  };
  struct Node {  // of the best way to a place
    double score = 0;
    std::size_t from = kNone;
    std::int32_t id = -1;
  };
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  template <class Found>
  void find_prefixes(std::string_view text, const Found& found) const;
  std::vector<Node> best_ways(std::string_view word) const;
  void add(std::string_view part, std::vector<std::int32_t>& ids) const;

  UnigramOptions options_;
  double unknown_score_;
  std::vector<Token> sorted_;
};

// Calls found(id, bytes) for each token that the text starts with, the shortest first.
template <class Found>
void Unigram::find_prefixes(std::string_view text, const Found& found) const {
  auto first = sorted_.begin(), last = sorted_.end();
  for (std::size_t depth = 0; depth < text.size() && first != last; ++depth) {
    const auto byte = [depth](const Token& t) {  // what ends before sorts before
      return t.text.size() <= depth ? -1 : static_cast<int>(static_cast<unsigned char>(t.text[depth]));
    };
    const int wanted = static_cast<unsigned char>(text[depth]);
    first = std::ranges::lower_bound(first, last, wanted, {}, byte);
    last = std::ranges::upper_bound(first, last, wanted, {}, byte);
    if (first != last && first->text.size() == depth + 1) found(first->id, depth + 1);
  }
}

std::vector<Unigram::Node> Unigram::best_ways(std::string_view word) const {
  std::vector<Node> ways(word.size() + 1);
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t bytes = first_character(word.substr(at)).bytes;
    const double here = ways[at].score;
    const auto offer = [&](std::size_t to, double score, std::int32_t id) {
      if (ways[to].from == kNone || score > ways[to].score) ways[to] = {score, at, id};
    };
    bool has_one = false;
    find_prefixes(word.substr(at), [&](std::int32_t id, std::size_t size) {
      offer(at + size, here + options_.scores[static_cast<std::size_t>(id)], id);
      has_one = has_one || size == bytes;
    });
    if (!has_one) offer(at + bytes, here + unknown_score_, options_.unknown);
    at += bytes;
  }
  return ways;
}

void Unigram::add(std::string_view part, std::vector<std::int32_t>& ids) const {
  const std::int32_t id = find(part);
  if (id >= 0) return ids.push_back(id);
  if (options_.byte_fallback) {
    std::vector<std::int32_t> bytes;
    for (const char c : part) bytes.push_back(find(fmt::format("<0x{:02X}>", static_cast<unsigned char>(c))));
    if (std::ranges::find(bytes, -1) == bytes.end()) {
      ids.insert(ids.end(), bytes.begin(), bytes.end());
      return;
    }
  }
  if (options_.unknown < 0) {
    throw UsageError(fmt::format(
        "the tokenizer has no token for {}, nor one of what it does not know (unk_id)", shown(part)));
  }
  ids.push_back(options_.unknown);
}

void Unigram::encode(std::string_view word, std::vector<std::int32_t>& ids) const {
  const std::vector<Node> ways = best_ways(word);
  std::vector<std::string_view> parts;  // the last first
  bool joins = false;                   // unknown neighbours are one
  for (std::size_t end = word.size(); end > 0; end = ways[end].from) {
    const std::size_t from = ways[end].from;
    const bool is_unknown = ways[end].id == options_.unknown;
    const std::size_t bytes = end - from + (joins && is_unknown ? parts.back().size() : 0);
    if (joins && is_unknown) parts.pop_back();
    parts.push_back(word.substr(from, bytes));
    joins = is_unknown;
  }
  for (; !parts.empty(); parts.pop_back()) add(parts.back(), ids);
}

}  // namespace

std::unique_ptr<Subwords> make_unigram(const Part& model) {
  constexpr std::size_t kLongest = 1 << 10, kMost = 1 << 24;  // a text is searched that far at every place
  const auto list = model.json().find("vocab");
  if (list == model.json().end() || !list->is_array() || list->empty() || list->size() > kMost) {
    throw model.refusal("vocab is no list of tokens and their scores");
  }
  TokenIds ids;
  UnigramOptions options;
  for (const nlohmann::json& one : *list) {
    const bool is_pair = one.is_array() && one.size() == 2 && one[0].is_string() && one[1].is_number();
    const std::string text = is_pair ? one[0].get<std::string>() : "";
    if (!is_pair || text.size() > kLongest || !std::isfinite(one[1].get<double>())) {
      throw model.refusal(fmt::format("vocab[{}] is {}, expected a token of at most {} bytes and its score",
                                      ids.size(), shown(one.dump()), kLongest));
    }
    if (!ids.emplace(text, static_cast<std::int32_t>(ids.size())).second) {
      throw model.refusal(fmt::format("the token {} comes twice", shown(text)));
    }
    options.scores.push_back(one[1].get<double>());
  }
  if (model.has("unk_id")) {
    options.unknown = static_cast<std::int32_t>(model.integer("unk_id", 0, std::ssize(options.scores) - 1));
  }
  options.byte_fallback = model.flag("byte_fallback", false);
  return std::make_unique<Unigram>(std::move(ids), std::move(options));
}

}  // namespace lpmm
