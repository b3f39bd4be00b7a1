// The tokenizer of a Marian as Hugging Face publishes it: a SentencePiece model for each language, and one
// list of ids.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lpmm/data/tokenizer.h"

namespace lpmm {

inline constexpr std::string_view kMarianFiles[] = {"source.spm", "target.spm", "vocab.json"};

// Returns true if a folder holds a Marian tokenizer, even one with a file missing.
bool has_marian_tokenizer(const std::string& folder);
// Its files, with those that say which tokens are special.
std::vector<std::string> marian_tokenizer_paths(const std::string& folder);
struct Languages {
  std::string source = {}, target = {};  // empty where no file says it
};
Languages marian_languages(const std::string& folder);

// Ids are those of transformers' MarianTokenizer: a text is cut by its language's model, and a piece that
// vocab.json lacks is <unk>. >>xxx<< at its beginning is one token, and special tokens are found by their
// names. Punctuation is taken as it is: MarianTokenizer knows sacremoses' rules, but encodes without them.
// decode() leaves special tokens out. Throws RunError naming the file that is missing or wrong, and what is
// not supported, as separate_vocabs.
std::unique_ptr<Tokenizer> load_marian_tokenizer(const std::string& folder);

}  // namespace lpmm
