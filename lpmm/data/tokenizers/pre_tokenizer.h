// The pre-tokenizer of a tokenizer.json, which splits a normalised text into words.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace lpmm {

class Part;

struct Word {
  std::string text;     // UTF-8, not empty
  bool begins = false;  // the whole text
};
// Throws RunError naming the stage that makes more than `room` bytes of the words.
using PreTokenizer = std::function<std::vector<Word>(std::vector<Word>, std::size_t room)>;

// The member "pre_tokenizer"; none leaves words whole. Throws RunError for what is not supported.
PreTokenizer make_pre_tokenizer(const Part& file);
PreTokenizer bert_pre_tokenizer();
std::size_t bytes_of(const std::vector<Word>& words);

}  // namespace lpmm
