// Texts as Python counts and cuts them: by characters, that is code points.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lpmm::chat {

bool is_space(char32_t code);  // Python's isspace()
std::size_t count_characters(std::string_view text);
// Returns the offset of each character, and of the end.
std::vector<std::size_t> character_places(std::string_view text);
// Strips characters of `set` from the ends; without a set, white space.
std::string_view stripped(std::string_view text, bool left, bool right,
                          std::optional<std::string_view> set = {});
// Each character by itself, as Unicode's simple mapping has it, and ß as SS.
std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalized(std::string_view text);
// Python's str.title(); `jinja`: as the filter of this name, for which a letter after an apostrophe is no
// first one.
std::string titled(std::string_view text, bool jinja);
// Returns true if the text has characters and all are of this kind: isdigit, isalpha, isalnum, isspace;
// isupper and islower want one that has case, and none of the other. Nothing for other names.
std::optional<bool> is_all(std::string_view text, std::string_view kind);
// Python's splitlines(): without the line ends.
std::vector<std::string> lines_of(std::string_view text);

}  // namespace lpmm::chat
