// Text and tables as HTML.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lpmm {

// Printable text with what HTML gives a meaning escaped, for elements and for attributes in double quotes.
std::string html(std::string_view text);

struct HtmlCell {
  std::string html;
  std::optional<double> value = {};  // the number by which the column is sorted, if it is one
};
struct HtmlColumn {
  std::string title;
  bool words = false;
  std::vector<HtmlCell> cells = {};  // one per row
};
// A table that can be sorted by its heads. Columns that are empty in every row are left out.
std::string html_table(const std::vector<HtmlColumn>& columns, std::string_view label);

// `page` with every {{name}} replaced by the text of that name, once: what is put in is not looked at again.
// Throws RunError for a name that has no text.
std::string filled(std::string_view page, const std::vector<std::pair<std::string_view, std::string>>& texts);

}  // namespace lpmm
