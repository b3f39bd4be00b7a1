// Text from outside, as a terminal may show it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lpmm {

// Bytes of control characters, which names from outside may hold, and bytes that are not UTF-8 as \xNN; line
// ends and tabs stay.
std::string printable(std::string_view text);

// The start of printable text of one line that fills at most so many columns of a terminal.
std::string cut_to_columns(std::string_view text, std::size_t columns);

}  // namespace lpmm
