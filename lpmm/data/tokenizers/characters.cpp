#include "lpmm/data/tokenizers/characters.h"

#include <utf8proc.h>

#include <array>
#include <unordered_map>

#include "lpmm/data/utf8.h"

namespace lpmm {
namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool is_between(char32_t c, utf8proc_category_t first, utf8proc_category_t last) {
  return category(c) >= first && category(c) <= last;
}

constexpr auto kSpellings = [] {
  std::array<char32_t, 256> spellings{};
  char32_t next = 0x100;
  for (char32_t b = 0; b < 256; ++b) {
    const bool prints = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    spellings[b] = prints ? b : next++;
  }
  return spellings;
}();

}  // namespace

bool is_white_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_python_space(char32_t c) {
  return is_white_space(c) || (c >= 0x1C && c <= 0x1F);
}

bool is_letter(char32_t c) {
  return is_between(c, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO);
}

bool is_number(char32_t c) {
  return is_between(c, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) return c > 0x20 && c < 0x7F && !is_letter(c) && !is_number(c);
  return is_between(c, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

bool is_mark(char32_t c) {
  return is_between(c, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME);
}

bool is_nonspacing_mark(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_MN;
}

bool is_word(char32_t c) {
  const auto found = category(c);
  return is_letter(c) || is_mark(c) || found == UTF8PROC_CATEGORY_ND || found == UTF8PROC_CATEGORY_NL ||
         found == UTF8PROC_CATEGORY_PC || c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) ||
         (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

bool is_bert_control(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  const auto found = category(c);
  return found == UTF8PROC_CATEGORY_CC || found == UTF8PROC_CATEGORY_CF || found == UTF8PROC_CATEGORY_CO;
}

bool is_bert_ideograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

std::string spelled_bytes(std::string_view bytes) {
  std::string spelling;
  spelling.reserve(bytes.size());
  for (const char b : bytes) {
    const char32_t code = kSpellings[static_cast<unsigned char>(b)];
    if (code < 0x80) {
      spelling += static_cast<char>(code);
    } else {
      spelling += {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
    }
  }
  return spelling;
}

std::optional<std::string> unspelled_bytes(std::string_view spelling) {
  static const auto byte_of = [] {
    std::unordered_map<char32_t, char> bytes;
    for (std::size_t b = 0; b < 256; ++b) bytes[kSpellings[b]] = static_cast<char>(b);
    return bytes;
  }();
  std::string bytes;
  while (!spelling.empty()) {
    const Character c = first_character(spelling);
    const auto found = byte_of.find(c.code);
    if (c.state != Character::kGood || found == byte_of.end()) return std::nullopt;
    bytes.push_back(found->second);
    spelling.remove_prefix(c.bytes);
  }
  return bytes;
}

}  // namespace lpmm
