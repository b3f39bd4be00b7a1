#include "lpmm/data/tokenizers/subwords.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lpmm/data/tokenizers/part.h"
#include "lpmm/data/utf8.h"

namespace lpmm {
namespace {

// Words are tokens as they are.
class WordLevel : public Subwords {
 public:
  WordLevel(TokenIds ids, const std::string& unknown) : Subwords(std::move(ids)), unknown_(find(unknown)) {}
  void encode(std::string_view word, std::vector<std::int32_t>& ids) const override {
    const std::int32_t id = find(word);
    if (id < 0 && unknown_ < 0) {
      throw UsageError(
          fmt::format("the tokenizer has no token for the word {}, nor one of unknown words", shown(word)));
    }
    ids.push_back(id < 0 ? unknown_ : id);
  }

 private:
  std::int32_t unknown_;  // -1: there is none
};

std::unique_ptr<Subwords> make_word_level(const Part& model) {
  return std::make_unique<WordLevel>(read_vocabulary(model), model.text("unk_token", "<unk>"));
}

struct SubwordsRow {
  std::string_view name;
  std::unique_ptr<Subwords> (*make)(const Part&);
};
constexpr SubwordsRow kModels[] = {{"BPE", make_bpe},
                                   {"WordPiece", make_word_piece},
                                   {"Unigram", make_unigram},
                                   {"WordLevel", make_word_level}};

}  // namespace

TokenIds read_vocabulary(const Part& model) {
  constexpr std::int64_t kMost = 1 << 24;
  const Part vocabulary = model.at("vocab");
  TokenIds ids;
  ids.reserve(vocabulary.json().size());
  for (const auto& [token, id] : vocabulary.json().items()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= std::uint64_t{kMost}) {
      throw vocabulary.refusal(
          fmt::format("the token {} has the id {}, which is none", shown(token), shown(id.dump())));
    }
    ids.emplace(token, id.get<std::int32_t>());
  }
  return ids;
}

std::vector<std::pair<std::string, std::string>> read_merges(const Part& model) {
  std::vector<std::pair<std::string, std::string>> merges;
  const auto list = model.json().find("merges");
  if (list == model.json().end() || !list->is_array()) throw model.refusal("merges is no list");
  for (const nlohmann::json& merge : *list) {
    const bool two = merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    const std::string text = merge.is_string() ? merge.get<std::string>() : std::string();
    const std::size_t space = text.find(' ');
    if (two) {
      merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
    } else if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
      merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    } else {
      throw model.refusal(
          fmt::format("the merge {} is not two tokens", merge.is_string() ? shown(text) : "that is no text"));
    }
  }
  return merges;
}

std::unique_ptr<Subwords> make_subwords(const Part& file) {
  const Part model = file.at("model");
  if (model.has("type")) return make_by_type(model, "model", kModels);
  return model.has("merges") ? make_bpe(model) : make_word_piece(model);  // files of early versions
}

}  // namespace lpmm
