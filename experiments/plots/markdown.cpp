#include "experiments/plots/markdown.h"

#include <algorithm>

namespace lpmm {
namespace {

std::size_t shown_width(const std::string& text) {  // UTF-8 continuation bytes take no place
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::string markdown_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows[0].size());
  for (const std::vector<std::string>& row : rows) {
    for (std::size_t c = 0; c < widths.size(); ++c) widths[c] = std::max(widths[c], shown_width(row[c]));
  }
  std::string out;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t c = 0; c < widths.size(); ++c) {
      const std::string& text = rows[r][c];
      const std::string space(widths[c] - shown_width(text), ' ');
      out += "| " + (c == 0 ? text + space : space + text) + ' ';
    }
    out += "|\n";
    if (r > 0) continue;
    for (std::size_t c = 0; c < widths.size(); ++c) {
      out += '|' + std::string(widths[c] + 1, '-') + (c == 0 ? '-' : ':');
    }
    out += "|\n";
  }
  return out;
}

}  // namespace lpmm
