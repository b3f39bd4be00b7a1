// Rows of cells with a character between them, as .csv and .tsv have them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lpmm/data/table.h"

namespace lpmm {

std::string_view without_spaces(std::string_view text);
bool holds_nothing(const Table::Row& row);

// What a quote is that a cell begins with: always text; text unless it ends where the cell does, which may be
// on a later line; never text.
enum class Quotes { kText, kOnALine, kAnywhere };

// Reads cells one after the other.
class Cells {
 public:
  Cells(const std::string& path, std::string_view text, char between, Quotes quotes,
        const TableReading& reading)
      : path_(path), text_(text), between_(between), quotes_(quotes), reading_(reading) {}
  bool at_end() const { return at_ >= text_.size(); }
  void expect(std::size_t columns) { columns_ = columns; }

  // The next row; one of an empty line has a single empty cell. Where it throws, what
  // follows begins with the next row, or where quotes have no end with the next line.
  Table::Row row();

 private:
  // One more cell than `most` is read at most.
  void read(Table::Row& row, std::size_t most = SIZE_MAX - 1);
  void read_over_lines(Table::Row& row);
  bool reads_quotes(std::size_t begin, Table::Row& row);
  std::size_t cells_of_next();
  bool reads_too_often() const { return bytes_read_ > kMostReads * text_.size() + kFreeBytes; }
  std::string kept(std::string_view text) const;
  bool ends_cell(std::size_t at);
  std::string cell();
  std::optional<std::string> quoted_cell();

  const std::string& path_;
  std::string_view text_;
  char between_;
  Quotes quotes_;
  TableReading reading_;
  std::size_t columns_ = 0;
  bool left_open_ = false;  // a cell began with a quote that does not end on its line
  // Where quotes do not match, each row may go to the end of the file, and is read again from its second line
  // on; after so many bytes the file is refused.
  static constexpr std::size_t kMostReads = 8, kFreeBytes = std::size_t{16} << 20;
  std::size_t bytes_read_ = 0;
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
};

}  // namespace lpmm
