// Tables of comma-separated values, as RFC 4180 has them.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace lpmm {

// Quotes a text if it holds a comma, a quote or a line's end.
std::string csv_field(std::string_view text);

// "a,1.5,b\n": each field as fmt prints it.
template <class... Fields>
std::string csv_line(const Fields&... fields) {
  std::string line;
  ((line += csv_field(fmt::format("{}", fields)) + ','), ...);
  line.back() = '\n';
  return line;
}

}  // namespace lpmm
