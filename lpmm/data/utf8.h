// Characters of UTF-8 text from outside.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lpmm {

struct Character {
  enum State { kGood, kBad, kCut };  // kCut: the bytes end within what may be a character
  State state;
  char32_t code;
  std::size_t bytes;  // where it is not good, those that count as one error
};

// The character at the start of `bytes`, which is not empty (Unicode, table 3-7).
Character first_character(std::string_view bytes);
// The offset of the first byte that is not UTF-8; npos: all is.
std::size_t first_bad_byte(std::string_view text);
// Throws UsageError naming the offset where it is not good.
Character character_at(std::string_view text, std::size_t at);
// Checks all characters that start in [first, end); throws as character_at() does.
void check_utf8(std::string_view text, std::size_t first, std::size_t end);

std::string utf8(char32_t code);
// U+0041 "A"; what does not print, or would change how the rest prints, by its number alone.
std::string named(char32_t code);
// The start of a text from outside, made safe to print.
std::string shown(std::string_view text);

}  // namespace lpmm
