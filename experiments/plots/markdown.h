// Tables as Markdown.
#pragma once

#include <string>
#include <vector>

namespace lpmm {

// Its first row is the head, its first column the names of rows; the others stand to the right.
std::string markdown_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace lpmm
