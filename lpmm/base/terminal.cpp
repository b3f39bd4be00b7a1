#include "lpmm/base/terminal.h"

#include <fmt/format.h>
#include <utf8proc.h>

namespace lpmm {

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    utf8proc_int32_t point = 0;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
    const utf8proc_ssize_t length = utf8proc_iterate(bytes, std::ssize(text), &point);
    const std::string_view character = text.substr(0, length > 0 ? static_cast<std::size_t>(length) : 1);
    const utf8proc_category_t category = length > 0 ? utf8proc_category(point) : UTF8PROC_CATEGORY_CC;
    const bool is_control = category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
                            category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
    const bool is_joiner = point == 0x200C || point == 0x200D;  // within words and signs
    if (is_control && !is_joiner && character != "\n" && character != "\t") {
      for (const char c : character) out += fmt::format("\\x{:02X}", static_cast<unsigned char>(c));
    } else {
      out += character;
    }
    text.remove_prefix(character.size());
  }
  return out;
}

std::string cut_to_columns(std::string_view text, std::size_t columns) {
  std::size_t at = 0, width = 0;
  while (at < text.size()) {
    utf8proc_int32_t point = 0;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at);
    const utf8proc_ssize_t length =
        utf8proc_iterate(bytes, std::ssize(text) - static_cast<std::ptrdiff_t>(at), &point);
    width += length > 0 ? static_cast<std::size_t>(utf8proc_charwidth(point)) : 1;
    if (width > columns) break;
    at += length > 0 ? static_cast<std::size_t>(length) : 1;
  }
  return std::string(text.substr(0, at));
}

}  // namespace lpmm
