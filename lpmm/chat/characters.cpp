#include "lpmm/chat/characters.h"

#include <utf8proc.h>

#include <algorithm>

#include "lpmm/data/utf8.h"

namespace lpmm::chat {
namespace {

template <class Change>
std::string changed(std::string_view text, const Change& change) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Character one = character_at(text, at);
    out += change(one.code);
    at += one.bytes;
  }
  return out;
}

utf8proc_int32_t number(char32_t code) {
  return static_cast<utf8proc_int32_t>(code);
}
utf8proc_category_t category(char32_t code) {
  return utf8proc_category(number(code));
}

bool is_letter(char32_t code) {
  return category(code) >= UTF8PROC_CATEGORY_LU && category(code) <= UTF8PROC_CATEGORY_LO;
}

std::string upper_of(char32_t code) {
  constexpr char32_t kSharpS = 0xdf;
  return code == kSharpS ? "SS" : utf8(static_cast<char32_t>(utf8proc_toupper(number(code))));
}
std::string title_of(char32_t code) {
  constexpr char32_t kSharpS = 0xdf;
  return code == kSharpS ? "Ss" : utf8(static_cast<char32_t>(utf8proc_totitle(number(code))));
}
std::string lower_of(char32_t code) {
  return utf8(static_cast<char32_t>(utf8proc_tolower(number(code))));
}

bool is_line_end(char32_t code) {
  return (code >= '\n' && code <= '\r') || (code >= 0x1c && code <= 0x1e) || code == 0x85 || code == 0x2028 ||
         code == 0x2029;
}

}  // namespace

bool is_space(char32_t code) {
  return (code >= '\t' && code <= '\r') || (code >= 0x1c && code <= 0x20) || code == 0x85 || code == 0xa0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 ||
         code == 0x202f || code == 0x205f || code == 0x3000;
}

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::vector<std::size_t> character_places(std::string_view text) {
  std::vector<std::size_t> places;
  for (std::size_t at = 0; at < text.size(); at += character_at(text, at).bytes) places.push_back(at);
  places.push_back(text.size());
  return places;
}

std::string_view stripped(std::string_view text, bool left, bool right, std::optional<std::string_view> set) {
  const auto goes = [&](std::string_view bytes) {
    return set ? set->find(bytes) != set->npos : is_space(character_at(bytes, 0).code);
  };
  while (left && !text.empty()) {
    const std::size_t bytes = character_at(text, 0).bytes;
    if (!goes(text.substr(0, bytes))) break;
    text.remove_prefix(bytes);
  }
  while (right && !text.empty()) {
    std::size_t at = text.size() - 1;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
    if (!goes(text.substr(at))) break;
    text = text.substr(0, at);
  }
  return text;
}

std::string upper(std::string_view text) {
  return changed(text, upper_of);
}
std::string lower(std::string_view text) {
  return changed(text, lower_of);
}

std::string capitalized(std::string_view text) {
  bool is_first = true;
  return changed(text, [&](char32_t code) {
    std::string one = is_first ? title_of(code) : lower_of(code);
    is_first = false;
    return one;
  });
}

std::string titled(std::string_view text, bool jinja) {
  bool in_word = false;
  return changed(text, [&](char32_t code) {
    std::string one = in_word ? lower_of(code) : jinja ? upper_of(code) : title_of(code);
    constexpr std::string_view kBefore = "-({[<";
    in_word = jinja
                  ? !is_space(code) && (code >= 0x80 || kBefore.find(static_cast<char>(code)) == kBefore.npos)
                  : is_letter(code);
    return one;
  });
}

std::optional<bool> is_all(std::string_view text, std::string_view kind) {
  bool all = !text.empty(), has_case = false, has_other = false;
  for (std::size_t at = 0; at < text.size();) {
    const Character one = character_at(text, at);
    at += one.bytes;
    const utf8proc_category_t of = category(one.code);
    has_case = has_case || of == (kind == "isupper" ? UTF8PROC_CATEGORY_LU : UTF8PROC_CATEGORY_LL);
    has_other = has_other || of == (kind == "isupper" ? UTF8PROC_CATEGORY_LL : UTF8PROC_CATEGORY_LU) ||
                of == UTF8PROC_CATEGORY_LT;
    const bool is_digit = of == UTF8PROC_CATEGORY_ND, is_number = is_digit || of == UTF8PROC_CATEGORY_NO;
    all = all && (kind == "isdigit" || kind == "isnumeric" || kind == "isdecimal" ? is_digit
                  : kind == "isalpha"                                             ? is_letter(one.code)
                  : kind == "isalnum" ? is_letter(one.code) || is_number
                  : kind == "isspace" ? is_space(one.code)
                                      : true);
  }
  if (kind == "isupper" || kind == "islower") return has_case && !has_other;
  constexpr std::string_view kKinds[] = {"isdigit", "isnumeric", "isdecimal",
                                         "isalpha", "isalnum",   "isspace"};
  if (std::ranges::find(kKinds, kind) == std::end(kKinds)) return {};
  return all;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character one = character_at(text, at);
    const std::size_t end = at;
    at += one.bytes;
    if (!is_line_end(one.code)) continue;
    lines.emplace_back(text.substr(begin, end - begin));
    if (one.code == '\r' && at < text.size() && text[at] == '\n') ++at;
    begin = at;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return lines;
}

}  // namespace lpmm::chat
