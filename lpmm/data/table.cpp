#include "lpmm/data/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"
#include "lpmm/base/text.h"
#include "lpmm/data/tables/cells.h"
#include "lpmm/data/utf8.h"
#include "lpmm/files/files.h"
#include "lpmm/files/gz_file.h"
#include "lpmm/files/json.h"

namespace lpmm {
namespace {

// Text of UTF-8, unless its lines are looked at one by one.
std::string table_text(const std::string& path, const TableReading& reading) {
  std::string text = read_plain_or_gz(path);
  if (text.find_first_not_of(" \r\n") == std::string::npos) throw RunError(fmt::format("{}: is empty", path));
  if (!reading.skips_broken) check_utf8_lines(path, 1, text);
  return text;
}

Table read_cells(const std::string& path, std::string_view text, char between, Quotes quotes, bool has_names,
                 const TableReading& reading) {
  Table table;
  table.path = path;
  table.broken.are_left_out = reading.skips_broken;
  Cells cells(path, text, between, quotes, reading);
  while (has_names && table.names.empty() && !cells.at_end()) {
    if (Table::Row row = cells.row(); !holds_nothing(row)) table.names = std::move(row.cells);
  }
  for (std::string& name : table.names) name = without_spaces(name);
  cells.expect(table.names.size());
  while (!cells.at_end()) {
    table.broken.take([&] {
      Table::Row row = cells.row();
      if (holds_nothing(row)) return;
      if (quotes != Quotes::kText && row.cells.size() != table.names.size()) {
        std::ptrdiff_t breaks = 0;
        for (const std::string& cell : row.cells) breaks += std::ranges::count(cell, '\n');
        table.refuse(
            row, fmt::format(
                     "has {} cells{}, but the first line names {} columns; {}", row.cells.size(),
                     breaks > 0 ? fmt::format(" up to line {}, where its quotes end", row.line + breaks) : "",
                     table.names.size(),
                     row.cells.size() > table.names.size()
                         ? fmt::format("a text with a {} in it stands in quotes",
                                       between == '\t' ? "tab" : std::string(1, between))
                         : "add those that are missing, or take the row out"));
      }
      table.rows.push_back(std::move(row));
    });
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
  if (value.is_object()) row.with_object.push_back(static_cast<int>(place));
  if (!value.is_array()) return;
  for (const Json& one : value) {
    row.lists[place].push_back(as_cell(one));
    if (one.is_null()) row.with_null.push_back(static_cast<int>(place));
  }
}

// Adds a JSON object.
void add_object(const Json& object, std::int64_t line, Table& table) {
  Table::Row row{line, std::vector<std::string>(table.names.size())};
  if (!object.is_object())
    table.refuse(row, fmt::format("is no JSON object, as {{\"text\": \"...\", \"label\": \"...\"}}{}",
                                  object.is_array() ? "; a list of them is a .json" : ""));
  for (const auto& [name, value] : object.items()) {
    if (value.is_structured()) {
      add_list(name, value, table, row);
      continue;
    }
    const auto at = std::ranges::find(table.names, name);
    const auto place = static_cast<std::size_t>(at - table.names.begin());
    if (value.is_null() && std::ranges::count(table.lists, name) > 0) continue;
    if (at == table.names.end()) table.names.push_back(name);
    row.cells.resize(table.names.size());
    if (value.is_null()) continue;
    row.cells[place] = as_cell(value);
  }
  table.rows.push_back(std::move(row));
}

Table read_json_table(const std::string& path, const std::string& text, bool has_lines,
                      const TableReading& reading) {
  Table table;
  table.path = path;
  table.broken.are_left_out = reading.skips_broken;
  const auto parsed = [&](const std::string& piece, std::int64_t line) {
    try {
      return parse_json(piece, 64, SameNames::kRefused);
    } catch (const std::exception& e) {
      throw BrokenRow(path, line, fmt::format("is no JSON: {}", error_text(e)));
    }
  };
  if (has_lines) {
    std::int64_t line = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view piece = without_spaces(std::string_view(text).substr(at, end - at));
      ++line;
      at = end + 1;
      if (!piece.empty())
        table.broken.take([&] { add_object(parsed(std::string(piece), line), line, table); });
    }
  } else {
    std::int64_t number = 0;
    for (const Json& object : parse_rows(path, text, SameNames::kRefused))
      table.broken.take([&] { add_object(object, ++number, table); });
  }
  for (Table::Row& row : table.rows) {
    row.cells.resize(table.names.size());
    row.lists.resize(table.lists.size());
  }
  return table;
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

void Table::refuse_no_list(const Row& row, int list) const {
  const std::string& name = lists[static_cast<std::size_t>(list)];
  const auto cell = std::ranges::find(names, name);
  const bool has_cell =
      cell != names.end() && !row.cells[static_cast<std::size_t>(cell - names.begin())].empty();
  if (has_cell || std::ranges::count(row.with_object, list) > 0) {
    refuse(row, fmt::format(
                    "has no list in {0}, as others have: write {{\"{0}\": [\"...\"]}}, or take the row out",
                    name));
  }
  if (std::ranges::count(row.with_null, list) == 0) return;
  refuse(row, fmt::format("has null in its list {}: write what belongs there, or take the row out", name));
}

void Table::refuse(const Row& row, std::string_view why) const {
  throw BrokenRow(path, row.line, why);
}

void check_utf8_lines(const std::string& path, std::int64_t line, std::string_view text) {
  const std::size_t bad = first_bad_byte(text);
  if (bad == std::string::npos) return;
  const std::string_view before = text.substr(0, bad);
  throw BrokenRow(
      path, line + std::ranges::count(before, '\n'),
      fmt::format("is not UTF-8 from byte {} on: save the file as UTF-8", bad - (before.rfind('\n') + 1)));
}

bool BrokenRows::take(const std::function<void()>& read) {
  try {
    read();
    return true;
  } catch (const BrokenRow& row) {
    if (!are_left_out) throw;
    rows.push_back(row);
    return false;
  }
}

void BrokenRows::tell(const std::string& path, std::size_t kept) const {
  std::vector<BrokenRow> in_order = rows;  // they are found in several passes
  std::ranges::stable_sort(in_order, {}, &BrokenRow::line);
  std::vector<std::string> reasons;
  for (const BrokenRow& row : in_order) {
    if (reasons.size() < kMostReasons) reasons.emplace_back(row.what());
  }
  if (kept == 0 && !rows.empty()) throw RunError(fmt::format("no row can be read; {}", reasons[0]));
  tell_left_out(path, std::ssize(rows), std::ssize(rows) + static_cast<std::int64_t>(kept), reasons);
}

void Table::keep_readable(const std::function<void(Row& row)>& read) {
  std::vector<Row> kept;
  for (Row& row : rows) {
    if (broken.take([&] { read(row); })) kept.push_back(std::move(row));
  }
  rows = std::move(kept);
}

BrokenRow::BrokenRow(const std::string& path, std::int64_t in_line, std::string_view reason)
    : RunError(fmt::format("{}: line {} {}", path, in_line, reason)), line(in_line), why(reason) {}

void tell_left_out(const std::string& path, std::int64_t count, std::int64_t all,
                   std::span<const std::string> reasons) {
  if (count == 0) return;
  tell(fmt::format("{}: {} of {} cannot be read and are left out, the first ones:\n", path, count, all));
  for (const std::string& reason : reasons) tell(fmt::format("  {}\n", printable(reason)));
}

std::string shown_column(const std::string& name) {
  return name.empty() ? "a column without a name" : name;
}

std::vector<std::string> split_columns(std::string_view columns) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= columns.size();) {
    const std::size_t end = std::min(columns.find(',', at), columns.size());
    const std::string& name = names.emplace_back(without_spaces(columns.substr(at, end - at)));
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
                             [&](std::string_view ending) { return has_ending(path, ending); });
}

void tell_test_files(const std::string& folder, std::span<const std::string> files) {
  constexpr std::string_view kTrain[] = {"train"};
  constexpr std::string_view kTests[] = {"test", "dev", "validation", "valid", "val", "eval"};
  const auto named = [&](std::span<const std::string_view> names) -> std::string {
    for (const std::string& file : files) {
      const std::string name = std::filesystem::path(file).filename().string();
      if (std::ranges::count(names, std::string_view(name).substr(0, name.find('.'))) > 0) return file;
    }
    return "";
  };
  const std::string train = named(kTrain), test = named(kTests);
  if (train.empty() || test.empty()) return;
  tell(printable(fmt::format("{}: all its files are trained on, {} too; to test on that: data.path = \"{}\", "
                             "data.test_path = \"{}\"",
                             folder, test, train, test)) +
       "\n");
}

std::string find_table(const std::string& stem) {
  for (const std::string_view ending : kTableEndings) {
    if (std::string found = find_plain_or_gz(stem + std::string(ending)); !found.empty()) return found;
  }
  return "";
}

Json parse_rows(const std::string& path, const std::string& text, SameNames same) {
  if (!without_spaces(text).starts_with('[')) {
    throw RunError(
        fmt::format("{}: is no list of objects; a file of an object per line is a .jsonl: rename it", path));
  }
  try {
    return parse_json(text, 64, same);
  } catch (const std::exception& e) {
    throw RunError(fmt::format("{}: is no JSON: {}", path, error_text(e)));
  }
}

Table read_table(const std::string& path, const TableReading& reading) {
  const std::string text = table_text(path, reading);
  if (has_ending(path, ".jsonl")) return read_json_table(path, text, true, reading);
  if (has_ending(path, ".json")) return read_json_table(path, text, false, reading);
  if (has_ending(path, ".tsv")) return read_cells(path, text, '\t', Quotes::kOnALine, true, reading);
  return read_cells(path, text, separator_of(text), Quotes::kAnywhere, true, reading);
}

Table read_plain_tsv(const std::string& path, bool has_names) {
  return read_cells(path, table_text(path, {}), '\t', Quotes::kText, has_names, {});
}

}  // namespace lpmm
