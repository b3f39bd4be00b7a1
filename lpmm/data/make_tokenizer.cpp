// The tokenizer that a description stands for.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/data/tokenizer.h"
#include "lpmm/data/tokenizers/sentence_piece/fairseq.h"
#include "lpmm/data/utf8.h"

namespace lpmm {
namespace {

using Json = nlohmann::ordered_json;

std::string member(const Json& description, const char* name) {
  if (!description.is_object() || !description.contains(name) || !description[name].is_string()) {
    throw RunError(fmt::format("the description of a tokenizer lacks the text \"{}\"", name));
  }
  return description[name].get<std::string>();
}

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(const Json& description, const std::string& files) {
  const std::string kind = member(description, "kind");
  if (kind == "bytes") return make_byte_tokenizer();
  if (kind == "characters") {
    const std::string characters = member(description, "characters");
    auto tokenizer = make_character_tokenizer(characters);
    if (member(tokenizer->describe(), "characters") != characters) {
      throw RunError("the description of a tokenizer has characters twice or not in code point order");
    }
    return tokenizer;
  }
  if (kind == kWords) return make_word_tokenizer(member(description, "words"));
  constexpr std::string_view kInFiles[] = {kGpt2Tokenizer,     kTokenizerJson, kVocabTxt,
                                           kHuggingFaceTokens, kFairseqFile,   kSentencePiece,
                                           kMarianTokenizer};
  if (std::ranges::find(kInFiles, kind) == std::end(kInFiles)) {
    throw RunError(
        fmt::format("the description of a tokenizer has the kind {}; bytes, characters, words, {} are known",
                    shown(kind), join(kInFiles)));
  }
  const std::string expected = member(description, "checksum");
  const auto tokenizer_of = [&] {
    try {
      return load_tokenizer(files);
    } catch (const RunError& e) {
      throw RunError(fmt::format("{}; data.tokenizer names the file ({}) that the tokenizer was made from",
                                 e.what(), kind));
    }
  };
  auto tokenizer = kind == kGpt2Tokenizer ? load_gpt2_tokenizer(files) : tokenizer_of();
  const std::string found = member(tokenizer->describe(), "checksum");
  for (const SentencePieceAge age : {SentencePieceAge::kAsked, SentencePieceAge::kSpaced}) {
    if (kind != kSentencePiece || found == expected) break;
    auto old = load_tokenizer(files, age);
    if (member(old->describe(), "checksum") == expected) return old;
  }
  if (found != expected) {
    throw RunError(fmt::format(
        "{}: is another tokenizer ({}) than the one that the model was trained with: its checksum is {}, not "
        "{}. "
        "Put the old files back, or say where they are with data.tokenizer or data.tokenizer_folder",
        files, kind, found, shown(expected)));
  }
  return tokenizer;
}

}  // namespace lpmm
