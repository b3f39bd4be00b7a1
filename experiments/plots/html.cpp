#include "experiments/plots/html.h"

#include <fmt/format.h>

#include <algorithm>

#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"

namespace lpmm {

std::string html(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string html_table(const std::vector<HtmlColumn>& columns, std::string_view label) {
  std::vector<const HtmlColumn*> shown;
  for (const HtmlColumn& c : columns) {
    if (std::any_of(c.cells.begin(), c.cells.end(), [](const HtmlCell& cell) { return !cell.html.empty(); }))
      shown.push_back(&c);
  }
  if (shown.empty()) return "";
  std::string out = fmt::format(
      "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table><thead><tr>", html(label));
  for (const HtmlColumn* c : shown) {
    out += fmt::format("<th{}><button>{}</button></th>", c->words ? " class=\"word\"" : "", html(c->title));
  }
  out += "</tr></thead><tbody>\n";
  for (std::size_t row = 0; row < shown[0]->cells.size(); ++row) {
    out += "<tr>";
    for (const HtmlColumn* c : shown) {
      const HtmlCell& cell = c->cells[row];
      out += fmt::format("<td{}{}>{}</td>", c->words ? " class=\"word\"" : "",
                         cell.value ? fmt::format(" data-value=\"{}\"", *cell.value) : "", cell.html);
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div><p class=\"more\">more to the right &rarr;</p>\n";
}

std::string filled(std::string_view page,
                   const std::vector<std::pair<std::string_view, std::string>>& texts) {
  std::string out;
  for (std::size_t at = 0;;) {
    const std::size_t open = page.find("{{", at), close = page.find("}}", open);
    if (open == page.npos || close == page.npos) return out.append(page.substr(at));
    const std::string_view name = page.substr(open + 2, close - open - 2);
    const auto text =
        std::find_if(texts.begin(), texts.end(), [&](const auto& t) { return t.first == name; });
    if (text == texts.end()) throw RunError(fmt::format("the page asks for {}, which has no text", name));
    out.append(page.substr(at, open - at)).append(text->second);
    at = close + 2;
  }
}

}  // namespace lpmm
