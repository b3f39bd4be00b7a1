// Classes of characters that published tokenizers split at, and GPT-2's spelling of bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lpmm {

bool is_white_space(char32_t c);   // Unicode's White_Space
bool is_python_space(char32_t c);  // what Python's split() and strip() take for it
bool is_letter(char32_t c);        // categories L*
bool is_number(char32_t c);        // categories Nd, Nl, No
bool is_punctuation(char32_t c);   // ASCII's, and categories P*
bool is_mark(char32_t c);          // categories M*
bool is_nonspacing_mark(char32_t c);
bool is_word(char32_t c);            // letters, marks, digits, what connects words
bool is_bert_control(char32_t c);    // category C*, but neither tab nor line ends
bool is_bert_ideograph(char32_t c);  // what BERT splits from its neighbours

// Each byte is written as a character that prints: itself where it does in Latin-1, else from U+0100 on.
std::string spelled_bytes(std::string_view bytes);
// Back; nothing where there is a character that stands for no byte.
std::optional<std::string> unspelled_bytes(std::string_view spelling);

}  // namespace lpmm
