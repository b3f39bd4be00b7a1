// Words between white space, as Penn Treebank and WikiText-2 are read.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "lpmm/base/error.h"
#include "lpmm/data/tokenizer.h"
#include "lpmm/data/tokenizers/characters.h"
#include "lpmm/data/utf8.h"

namespace lpmm {
namespace {

constexpr std::string_view kUnknownWord = "<unk>", kLineEnd = "<eos>";

// Calls `take` with each word, and with <eos> at each line end; to the first line end or word at or after
// `until`, and gives where that ends.
template <class Take>
std::size_t each_word(std::string_view text, std::size_t first, std::size_t until, const Take& take) {
  std::size_t at = first, begin = first;  // of the word that `at` is in
  const auto end_word = [&] {
    if (begin < at) take(text.substr(begin, at - begin));
  };
  while (at < text.size()) {
    const Character c = character_at(text, at);
    if (!is_white_space(c.code)) {
      at += c.bytes;
      continue;
    }
    end_word();
    begin = at += c.bytes;
    if (c.code == '\n') take(kLineEnd);
    if (at >= until) return at;
  }
  end_word();
  return at;
}

class WordTokenizer : public Tokenizer {
 public:
  // `words` has <unk> and <eos> in it.
  explicit WordTokenizer(const std::vector<std::string>& words) : Tokenizer(spaced(words)), words_(words) {
    for (std::size_t i = 0; i < words_.size(); ++i) ids_.emplace(words_[i], static_cast<std::int32_t>(i));
    unknown_ = ids_.at(kUnknownWord);
  }
  std::size_t encode_from(std::string_view text, std::size_t first, std::size_t until,
                          std::vector<std::int32_t>& ids) const override {
    return each_word(text, first, until, [&](std::string_view word) {
      const auto found = ids_.find(word);
      ids.push_back(found == ids_.end() ? unknown_ : found->second);
    });
  }
  nlohmann::ordered_json describe() const override {
    std::string listed;
    for (const std::string& word : words_) listed += (listed.empty() ? "" : " ") + word;
    return {{"kind", kWords}, {"words", listed}};
  }

 private:
  static std::vector<std::string> spaced(std::vector<std::string> words) {
    for (std::string& word : words) word = word == kLineEnd ? "\n" : word + " ";
    return words;
  }

  std::vector<std::string> words_;
  std::unordered_map<std::string_view, std::int32_t> ids_;  // into words_
  std::int32_t unknown_ = 0;
};

}  // namespace

std::unique_ptr<Tokenizer> make_word_tokenizer(std::string_view text, std::int64_t most) {
  struct Count {
    std::int64_t count = 0;
    std::size_t first = 0;
  };
  std::unordered_map<std::string_view, Count> counts;
  std::size_t seen = 0;
  each_word(text, 0, text.size(), [&](std::string_view word) {
    Count& count = counts[word];
    if (count.count++ == 0) count.first = seen++;
  });
  counts.erase(kUnknownWord);
  counts.erase(kLineEnd);
  if (counts.empty()) throw UsageError("a tokenizer of words cannot be made from a text without words");
  std::vector<std::pair<std::string_view, Count>> order(counts.begin(), counts.end());
  std::ranges::sort(order, [](const auto& a, const auto& b) {
    return a.second.count != b.second.count ? a.second.count > b.second.count
                                            : a.second.first < b.second.first;
  });
  if (most > 0 && std::ssize(order) > most - 2)
    order.resize(static_cast<std::size_t>(std::max<std::int64_t>(most - 2, 0)));
  std::vector<std::string> words = {std::string(kUnknownWord), std::string(kLineEnd)};
  for (const auto& [word, count] : order) words.emplace_back(word);
  return std::make_unique<WordTokenizer>(words);
}

std::unique_ptr<Tokenizer> make_word_tokenizer(std::string_view listed) {
  std::vector<std::string> words;
  try {
    each_word(listed, 0, listed.size(), [&](std::string_view word) { words.emplace_back(word); });
  } catch (const UsageError& e) {
    throw RunError(fmt::format("the description of a tokenizer: {}", e.what()));
  }
  std::vector<std::string> sorted = words;
  std::ranges::sort(sorted);
  const bool twice = std::ranges::adjacent_find(sorted) != sorted.end();
  for (const std::string_view name : {kUnknownWord, kLineEnd}) {
    if (twice || !std::ranges::binary_search(sorted, name)) {
      throw RunError("the description of a tokenizer has words twice, or lacks <unk> or <eos>");
    }
  }
  return std::make_unique<WordTokenizer>(words);
}

}  // namespace lpmm
