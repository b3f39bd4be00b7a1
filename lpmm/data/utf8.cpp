#include "lpmm/data/utf8.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"

namespace lpmm {

Character first_character(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {Character::kGood, lead, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Character::kBad, 0, 1};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte tells overlong forms, surrogates and what is past U+10FFFF.
  unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t code = lead & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return {Character::kCut, 0, i};
    if (byte(i) < low || byte(i) > high) return {Character::kBad, 0, i};
    code = code << 6 | (byte(i) & 0x3FU);
    low = 0x80;
    high = 0xBF;
  }
  return {Character::kGood, code, length};
}

std::size_t first_bad_byte(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Character c = first_character(text.substr(at));
    if (c.state != Character::kGood) return at;
    at += c.bytes;
  }
  return std::string_view::npos;
}

Character character_at(std::string_view text, std::size_t at) {
  const Character c = first_character(text.substr(at));
  if (c.state != Character::kGood) {
    throw UsageError(fmt::format(
        "byte {} of the text, 0x{:02X}, is not UTF-8: save the text as UTF-8, or take the tokenizer "
        "of bytes",
        at, static_cast<unsigned char>(text[at])));
  }
  return c;
}

void check_utf8(std::string_view text, std::size_t first, std::size_t end) {
  while (first < end) first += character_at(text, first).bytes;
}

std::string utf8(char32_t code) {
  utf8proc_uint8_t bytes[4];
  const auto n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
  return {reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(n)};
}

std::string named(char32_t code) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  const bool prints = category != UTF8PROC_CATEGORY_CN && category < UTF8PROC_CATEGORY_ZL;
  return fmt::format("U+{:04X}{}", static_cast<std::uint32_t>(code),
                     prints ? fmt::format(" \"{}\"", utf8(code)) : "");
}

std::string shown(std::string_view text) {
  using Json = nlohmann::json;
  return Json(text.substr(0, 60)).dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace lpmm
