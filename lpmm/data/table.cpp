#include "lpmm/data/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>

#include "lpmm/base/error.h"
#include "lpmm/data/utf8.h"
#include "lpmm/files/gz_file.h"
#include "lpmm/files/json.h"

namespace lpmm {
namespace {

std::string_view without_spaces(std::string_view text) {
  constexpr std::string_view kSpaces = " \r";
  const std::size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

[[noreturn]] void refuse_line(const std::string& path, std::int64_t line, std::string_view why) {
  throw RunError(fmt::format("{}: line {} {}", path, line, why));
}

std::string read_utf8(const std::string& path) {
  std::string text = read_plain_or_gz(path);
  if (text.find_first_not_of(" \r\n") == std::string::npos) throw RunError(fmt::format("{}: is empty", path));
  if (const std::size_t bad = first_bad_byte(text); bad != std::string::npos) {
    const std::size_t begin = bad == 0 ? 0 : text.rfind('\n', bad - 1) + 1;
    refuse_line(path, 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bad), '\n'),
                fmt::format("is not UTF-8 from byte {} on: save the file as UTF-8", bad - begin));
  }
  return text;
}

enum class Quotes { kText, kOnALine, kAnywhere };

// Reads cells one after the other.
class Cells {
 public:
  Cells(const std::string& path, std::string_view text, char between, Quotes quotes)
      : path_(path), text_(text), between_(between), quotes_(quotes) {}
  bool at_end() const { return at_ >= text_.size(); }

  // The next row; one of an empty line has a single empty cell.
  Table::Row row() {
    Table::Row row{line_, {}};
    for (;;) {
      row.cells.push_back(cell());
      const bool goes_on = at_ < text_.size() && text_[at_] == between_;
      if (at_ < text_.size() && text_[at_] == '\n') ++line_;
      ++at_;
      if (!goes_on) return row;
    }
  }

 private:
  bool ends_cell(std::size_t at) const {
    while (at < text_.size() && (text_[at] == '\r' || text_[at] == ' ')) ++at;
    return at >= text_.size() || text_[at] == between_ || text_[at] == '\n';
  }
  std::string cell() {
    if (quotes_ != Quotes::kText) {
      if (auto quoted = quoted_cell()) return *std::move(quoted);
    }
    const char ends[] = {between_, '\n', '\0'};
    const std::size_t end = std::min(text_.find_first_of(ends, at_, 2), text_.size());
    const std::string_view plain = text_.substr(at_, end - at_);
    at_ = end;
    return std::string(without_spaces(plain));
  }
  // Nothing where the cell is not in quotes.
  std::optional<std::string> quoted_cell() {
    if (at_ >= text_.size() || text_[at_] != '"') return {};
    std::string cell;
    std::int64_t breaks = 0;
    for (std::size_t at = at_ + 1; at < text_.size(); ++at) {
      const char c = text_[at];
      if (c == '\n' && quotes_ == Quotes::kOnALine) return {};
      if (c == '\n') ++breaks;
      if (c != '"') {
        cell += c;
      } else if (at + 1 < text_.size() && text_[at + 1] == '"') {
        cell += text_[++at];
      } else if (ends_cell(at + 1)) {
        at_ = at + 1;
        while (at_ < text_.size() && (text_[at_] == '\r' || text_[at_] == ' ')) ++at_;
        line_ += breaks;
        return std::string(without_spaces(cell));
      } else if (quotes_ == Quotes::kOnALine) {
        return {};
      } else {
        refuse_line(path_, line_ + breaks, "has a quote within a cell in quotes: write it twice, as \"\"");
      }
    }
    if (quotes_ == Quotes::kOnALine) return {};
    refuse_line(path_, line_, "opens a quote that nothing closes");
  }

  const std::string& path_;
  std::string_view text_;
  char between_;
  Quotes quotes_;
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
};

bool holds_nothing(const Table::Row& row) {
  return std::ranges::all_of(row.cells, [](const std::string& cell) { return cell.empty(); });
}

Table read_cells(const std::string& path, std::string_view text, char between, Quotes quotes,
                 bool has_names) {
  Table table;
  table.path = path;
  Cells cells(path, text, between, quotes);
  while (has_names && table.names.empty() && !cells.at_end()) {
    if (Table::Row row = cells.row(); !holds_nothing(row)) table.names = std::move(row.cells);
  }
  while (!cells.at_end()) {
    Table::Row row = cells.row();
    if (holds_nothing(row)) continue;
    if (quotes != Quotes::kText && row.cells.size() != table.names.size()) {
      table.refuse(row, fmt::format("has {} cells, but the first line names {} columns; {}", row.cells.size(),
                                    table.names.size(),
                                    row.cells.size() > table.names.size()
                                        ? fmt::format("a text with a {} in it stands in quotes",
                                                      between == '\t' ? "tab" : std::string(1, between))
                                        : "add those that are missing, or take the row out"));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Returns the separator of a first line's cells, outside of quotes.
char separator_of(std::string_view text) {
  for (const char between : {',', ';', '\t'}) {
    bool in_quotes = false;
    for (const char c : text) {
      if (c == '"') in_quotes = !in_quotes;
      if (c == '\n' && !in_quotes) break;
      if (c == between && !in_quotes) return between;
    }
  }
  return ',';
}

std::string as_cell(const Json& value) {
  return value.is_string() ? std::string(without_spaces(value.get_ref<const std::string&>())) : value.dump();
}

void add_list(const std::string& name, const Json& value, Table& table, Table::Row& row) {
  const auto at = std::ranges::find(table.lists, name);
  const auto place = static_cast<std::size_t>(at - table.lists.begin());
  if (at == table.lists.end()) table.lists.push_back(name);
  row.lists.resize(std::max(row.lists.size(), place + 1));
  if (!value.is_array()) return;
  for (const Json& one : value) {
    row.lists[place].push_back(as_cell(one));
    if (one.is_null()) row.with_null.push_back(static_cast<int>(place));
  }
}

// Adds a JSON object.
void add_object(const Json& object, std::int64_t line, Table& table) {
  Table::Row row{line, std::vector<std::string>(table.names.size())};
  if (!object.is_object()) table.refuse(row, "is no JSON object, as {\"text\": \"...\", \"label\": \"...\"}");
  for (const auto& [name, value] : object.items()) {
    if (value.is_structured()) {
      add_list(name, value, table, row);
      continue;
    }
    const auto at = std::ranges::find(table.names, name);
    const auto place = static_cast<std::size_t>(at - table.names.begin());
    if (at == table.names.end()) table.names.push_back(name);
    row.cells.resize(table.names.size());
    if (value.is_null()) continue;
    row.cells[place] = as_cell(value);
  }
  table.rows.push_back(std::move(row));
}

Table read_json_table(const std::string& path, const std::string& text, bool has_lines) {
  Table table;
  table.path = path;
  const auto parsed = [&](const std::string& piece, std::int64_t line) {
    try {
      return parse_json(piece, 64, SameNames::kRefused);
    } catch (const std::exception& e) {
      refuse_line(path, line, fmt::format("is no JSON: {}", e.what()));
    }
  };
  if (has_lines) {
    std::int64_t line = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view piece = without_spaces(std::string_view(text).substr(at, end - at));
      ++line;
      at = end + 1;
      if (!piece.empty()) add_object(parsed(std::string(piece), line), line, table);
    }
  } else {
    const Json all = parsed(text, 1);
    if (!all.is_array()) {
      throw RunError(
          fmt::format("{}: is no list of objects; a file of an object per line is a .jsonl", path));
    }
    std::int64_t number = 0;
    for (const Json& object : all) add_object(object, ++number, table);
  }
  for (Table::Row& row : table.rows) {
    row.cells.resize(table.names.size());
    row.lists.resize(table.lists.size());
  }
  return table;
}

std::string_view without_gz(std::string_view path) {
  constexpr std::string_view kGz = ".gz";
  if (path.ends_with(kGz)) path.remove_suffix(kGz.size());
  return path;
}

// Finds a name as it is written, or else in other case; -1: it is not there.
int place_in(const std::vector<std::string>& names, std::string_view name) {
  const auto place = [&](const auto& same) {
    const auto at = std::ranges::find_if(names, same);
    return at == names.end() ? -1 : static_cast<int>(at - names.begin());
  };
  const int exact = place([&](const std::string& n) { return n == name; });
  if (exact >= 0) return exact;
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return place([&](const std::string& n) { return std::ranges::equal(n, name, {}, lower, lower); });
}
int first_place(const std::vector<std::string>& names, std::span<const std::string_view> some) {
  for (const std::string_view name : some) {
    if (const int place = place_in(names, name); place >= 0) return place;
  }
  return -1;
}

}  // namespace

int Table::place_of(std::string_view name) const {
  return place_in(names, name);
}
int Table::list_of(std::string_view name) const {
  return place_in(lists, name);
}

int Table::place_of_any(std::span<const std::string_view> some) const {
  return first_place(names, some);
}
int Table::list_of_any(std::span<const std::string_view> some) const {
  return first_place(lists, some);
}

void Table::refuse_null(const Row& row, int list) const {
  if (std::ranges::count(row.with_null, list) == 0) return;
  refuse(row, fmt::format("has null in its list {}: write what belongs there, or take the row out",
                          lists[static_cast<std::size_t>(list)]));
}

void Table::refuse(const Row& row, std::string_view why) const {
  refuse_line(path, row.line, why);
}

std::string shown_column(const std::string& name) {
  return name.empty() ? "a column without a name" : name;
}

std::vector<std::string> split_columns(std::string_view columns) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= columns.size();) {
    const std::size_t end = std::min(columns.find(',', at), columns.size());
    std::string& name = names.emplace_back(columns.substr(at, end - at));
    name.erase(0, name.find_first_not_of(' '));
    name.erase(name.find_last_not_of(' ') + 1);
    at = end + 1;
    if (std::ranges::count(names, name) > 1 && !name.empty())
      throw UsageError(fmt::format("data.columns = \"{}\": {} is named twice", columns, name));
  }
  return names;
}

std::vector<std::string> classes_in_order(std::vector<std::string> names) {
  const auto digits_at = [](const std::string& name) { return name.find_last_not_of("0123456789") + 1; };
  const auto stem = [&](const std::string& name) { return name.substr(0, digits_at(name)); };
  constexpr std::size_t kMostDigits = 18;
  const bool are_numbered = std::ranges::all_of(names, [&](const std::string& name) {
    const std::size_t digits = name.size() - digits_at(name);
    return digits > 0 && digits <= kMostDigits && stem(name) == stem(names[0]);
  });
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  if (!are_numbered) return names;
  std::ranges::stable_sort(names, {},
                           [&](const std::string& n) { return std::stoll(n.substr(digits_at(n))); });
  return names;
}

bool is_table(std::string_view path) {
  return std::ranges::any_of(kTableEndings,
                             [&](std::string_view ending) { return without_gz(path).ends_with(ending); });
}

std::string find_table(const std::string& stem) {
  for (const std::string_view ending : kTableEndings) {
    if (std::string found = find_plain_or_gz(stem + std::string(ending)); !found.empty()) return found;
  }
  return "";
}

Table read_table(const std::string& path) {
  const std::string text = read_utf8(path);
  const std::string_view name = without_gz(path);
  if (name.ends_with(".jsonl")) return read_json_table(path, text, true);
  if (name.ends_with(".json")) return read_json_table(path, text, false);
  if (name.ends_with(".tsv")) return read_cells(path, text, '\t', Quotes::kOnALine, true);
  return read_cells(path, text, separator_of(text), Quotes::kAnywhere, true);
}

Table read_plain_tsv(const std::string& path, bool has_names) {
  return read_cells(path, read_utf8(path), '\t', Quotes::kText, has_names);
}

}  // namespace lpmm
