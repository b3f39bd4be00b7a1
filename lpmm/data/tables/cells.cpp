#include "lpmm/data/tables/cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lpmm {

std::string_view without_spaces(std::string_view text) {
  constexpr std::string_view kSpaces = " \r";
  const std::size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

bool holds_nothing(const Table::Row& row) {
  return std::ranges::all_of(row.cells, [](const std::string& cell) { return without_spaces(cell).empty(); });
}

Table::Row Cells::row() {
  Table::Row row{line_, {}};
  const std::size_t begin = at_;
  try {
    quotes_ == Quotes::kOnALine ? read_over_lines(row) : read(row);
  } catch (const BrokenRow& broken) {
    if (reads_too_often()) {
      throw RunError(path_ +
                     ": in too many rows quotes do not match: write one within a cell in quotes twice");
    }
    at_ = std::min(text_.find('\n', begin), text_.size()) + 1;
    line_ = row.line + 1;
    if (broken.line == row.line) throw;
    throw BrokenRow(path_, row.line, fmt::format("opens a quote, and line {} {}", broken.line, broken.why));
  }
  if (reading_.skips_broken) check_utf8_lines(path_, row.line, text_.substr(begin, at_ - begin));
  return row;
}

void Cells::read(Table::Row& row, std::size_t most) {
  while (row.cells.size() <= most) {
    row.cells.push_back(cell());
    const bool goes_on = at_ < text_.size() && text_[at_] == between_;
    if (at_ < text_.size() && text_[at_] == '\n') ++line_;
    ++at_;
    if (!goes_on) return;
  }
}

// As read(), of a row of a .tsv, where a quote may be text: it holds line breaks where its lines are no rows
// of their own, but together one row. Throws BrokenRow for what is only the first part of one.
void Cells::read_over_lines(Table::Row& row) {
  const std::size_t begin = at_;
  left_open_ = false;
  read(row);
  if (!left_open_ || row.cells.size() > columns_) return;
  const std::size_t next = at_;
  const std::int64_t next_line = line_;
  if (Table::Row whole{row.line, {}}; !reads_too_often() && reads_quotes(begin, whole)) {
    const std::size_t end = std::exchange(at_, next);
    const std::int64_t end_line = line_;
    bool are_rows = row.cells.size() == columns_, has_row = false;  // before the last line
    while (at_ < end) {
      const std::size_t cells = cells_of_next();
      are_rows = are_rows && (cells == columns_ || cells == 0);
      has_row = has_row || (cells == columns_ && at_ < end);
    }
    at_ = end, line_ = end_line;
    if (!are_rows && !has_row) return std::swap(row, whole);
  }
  at_ = next;
  const std::size_t after = at_end() ? 0 : cells_of_next();
  const bool is_part = row.cells.size() < columns_ || (after > 0 && after < columns_);
  at_ = next, line_ = next_line;
  if (!is_part) return;
  throw BrokenRow(path_, row.line,
                  "has a cell that begins with a quote, which does not end on its line: end it there, or "
                  "write a .csv, whose quotes may hold line breaks, with quotes within them twice");
}

// Reads a row whose quotes may hold line breaks. Returns false where it has not as many cells as expected.
bool Cells::reads_quotes(std::size_t begin, Table::Row& row) {
  at_ = begin, line_ = row.line, quotes_ = Quotes::kAnywhere;
  try {
    read(row, columns_);
  } catch (const BrokenRow&) {
    row.cells.clear();
  }
  quotes_ = Quotes::kOnALine;
  return row.cells.size() == columns_;
}

// 0: it holds nothing.
std::size_t Cells::cells_of_next() {
  Table::Row row{line_, {}};
  read(row);
  return holds_nothing(row) ? 0 : row.cells.size();
}

std::string Cells::kept(std::string_view text) const {
  if (!reading_.keeps_spaces) return std::string(without_spaces(text));
  return std::string(text.substr(0, text.size() - (text.ends_with('\r') ? 1 : 0)));
}

bool Cells::ends_cell(std::size_t at) {
  for (; at < text_.size() && (text_[at] == '\r' || text_[at] == ' '); ++at) ++bytes_read_;
  return at >= text_.size() || text_[at] == between_ || text_[at] == '\n';
}

std::string Cells::cell() {
  if (quotes_ != Quotes::kText) {
    if (auto quoted = quoted_cell()) return *std::move(quoted);
  }
  const char ends[] = {between_, '\n', '\0'};
  const std::size_t end = std::min(text_.find_first_of(ends, at_, 2), text_.size());
  const std::string_view plain = text_.substr(at_, end - at_);
  bytes_read_ += plain.size() + 1;
  at_ = end;
  return kept(plain);
}

// Nothing where the cell is not in quotes.
std::optional<std::string> Cells::quoted_cell() {
  if (at_ >= text_.size() || text_[at_] != '"') return {};
  std::string cell;
  std::int64_t breaks = 0;
  for (std::size_t at = at_ + 1; at < text_.size(); ++at) {
    const char c = text_[at];
    ++bytes_read_;
    if (c == '\n' && quotes_ == Quotes::kOnALine) {
      left_open_ = true;
      return {};
    }
    if (c == '\n') ++breaks;
    if (c != '"') {
      cell += c;
    } else if (at + 1 < text_.size() && text_[at + 1] == '"') {
      cell += text_[++at];
    } else if (ends_cell(at + 1)) {
      at_ = at + 1;
      while (at_ < text_.size() && (text_[at_] == '\r' || text_[at_] == ' ')) ++at_;
      line_ += breaks;
      return reading_.keeps_spaces ? cell : std::string(without_spaces(cell));
    } else if (quotes_ == Quotes::kOnALine) {
      return {};
    } else {
      throw BrokenRow(path_, line_ + breaks, "has a quote within a cell in quotes: write it twice, as \"\"");
    }
  }
  if (quotes_ == Quotes::kOnALine) return {};
  throw BrokenRow(path_, line_, "opens a quote that nothing closes");
}

}  // namespace lpmm
