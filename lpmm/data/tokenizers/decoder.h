// The decoder of a tokenizer.json, which turns tokens back into text, one at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace lpmm {

class Part;

// The bytes of a token; `first`: it begins a text. Throws RunError naming the stage that makes more than
// `room` of it.
using Decoder = std::function<std::string(std::string token, bool first, std::size_t room)>;

// The member "decoder"; none gives tokens as they are. Throws RunError for what is not supported.
Decoder make_decoder(const Part& file);
// Removes the spaces before punctuation and English endings: transformers' clean_up_tokenization.
std::string cleaned_up(std::string text);
Decoder word_piece_decoder(const std::string& prefix, bool cleanup);

}  // namespace lpmm
