// How a tokenizer.json splits a normalised text into words.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lpmm {

class Part;

struct Word {
  std::string text;     // UTF-8, not empty
  bool begins = false;  // the whole text
};
using PreTokenizer = std::function<std::vector<Word>(std::vector<Word>)>;

// The member "pre_tokenizer"; none leaves words whole. Throws RunError for what is not supported.
PreTokenizer make_pre_tokenizer(const Part& file);
PreTokenizer bert_pre_tokenizer();

}  // namespace lpmm
