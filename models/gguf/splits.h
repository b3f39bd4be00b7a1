// The ways in which byte-level tokenizers split a text into words: llama.cpp names them (tokenizer.ggml.pre),
// and tokenizer.json writes them out.
#pragma once

#include <string_view>

#include "lpmm/files/json.h"

namespace lpmm {

struct GgufSplit {
  std::string_view names;  // the first is written, the others are read as well
  std::string_view regex = {};
  bool digits = false;       // each digit is a word
  bool whole_words = false;  // a word that is a token is not merged: "ignore_merges"
  bool adds_begin = false;   // the default of add_bos_token
  bool normalizes = false;   // to NFC, which llama.cpp does not
};
const GgufSplit* find_split(std::string_view name);  // null: unknown here
const GgufSplit* split_of(const Json& tokenizer);    // of a tokenizer.json
Json pre_tokenizer_json(const GgufSplit& split);

}  // namespace lpmm
