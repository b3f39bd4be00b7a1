// Tables: files of rows whose columns have names, as people keep examples in. Each may be compressed (.gz).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lpmm/base/error.h"
#include "lpmm/files/json.h"

namespace lpmm {

// A row that cannot be read: "PATH: line N WHY".
class BrokenRow : public RunError {
 public:
  BrokenRow(const std::string& path, std::int64_t in_line, std::string_view reason);
  std::int64_t line;  // of the file, from 1
  std::string why;
};

// Those of a file, which are left out or refused.
struct BrokenRows {
  bool are_left_out = false;
  std::vector<BrokenRow> rows = {};
  // Calls `read`. Where such rows are left out, keeps one that it throws, and returns false.
  bool take(const std::function<void()>& read);
  // Says how many were left out beside those that are `kept`; throws RunError where all were.
  void tell(const std::string& path, std::size_t kept) const;
};

struct TableReading {
  bool keeps_spaces = false;  // around cells of .csv and .tsv
  bool skips_broken = false;  // leaves rows that cannot be read to Table::broken; else refuses them
};

struct Table {
  struct Row {
    std::int64_t line;               // of the file, where it begins, from 1
    std::vector<std::string> cells;  // in UTF-8, one per column; spaces around them are left out
    // For each of `lists`, its items as cells; for an object none.
    std::vector<std::vector<std::string>> lists = {};
    std::vector<int> with_null = {};    // which of `lists` have a null among their items
    std::vector<int> with_object = {};  // which of `lists` are objects
  };
  std::string path;                // of the file
  std::vector<std::string> names;  // of the columns, in order; empty where the file names none
  std::vector<std::string> lists;  // names that hold lists and objects, which are no cells (JSON)
  std::vector<Row> rows;           // those that hold something
  BrokenRows broken = {};

  // The place of a column, as its name is written or else in other case; -1: there is none.
  int place_of(std::string_view name) const;
  // The place of the first of these names that is there; -1: none is.
  int place_of_any(std::span<const std::string_view> names) const;
  // The same of lists.
  int list_of(std::string_view name) const;
  int list_of_any(std::span<const std::string_view> names) const;
  // Throws BrokenRow where one of `lists` is no list in this row, or has a null among its items.
  void refuse_no_list(const Row& row, int list) const;
  [[noreturn]] void refuse(const Row& row, std::string_view why) const;  // throws BrokenRow
  // Calls `read` for each row, and takes out those that it refuses, where broken ones are left out.
  void keep_readable(const std::function<void(Row& row)>& read);
};

// Throws BrokenRow for text of a file, which begins with the given line, that is no UTF-8.
void check_utf8_lines(const std::string& path, std::int64_t line, std::string_view text);
// Says how many of a file's rows were left out, and why the first ones were.
void tell_left_out(const std::string& path, std::int64_t count, std::int64_t all,
                   std::span<const std::string> reasons);
inline constexpr std::size_t kMostReasons = 5;
inline constexpr const char* kSkipRows =
    "data.skip_broken = true (of `lpmm eval` and `lpmm data show`: --skip-broken) leaves out such rows, and "
    "counts them";

// A column's name for messages: the first one of a table that pandas wrote has none.
std::string shown_column(const std::string& name);

// The endings of tables' names, in the order in which they are looked for.
inline constexpr std::string_view kTableEndings[] = {".tsv", ".csv", ".jsonl", ".json"};

// The names that data.columns holds, with commas between: those of "FILE,LABEL". Throws UsageError for one
// that comes twice.
std::vector<std::string> split_columns(std::string_view columns);

// Classes by their names, each once; numbered ones, names that end with a number and are alike before it, by
// that.
std::vector<std::string> classes_in_order(std::vector<std::string> names);

// Returns true if a file has such an ending, with or without .gz.
bool is_table(std::string_view path);
// Says so where a folder, all of whose files are trained on, has one named for tests beside one for training.
void tell_test_files(const std::string& folder, std::span<const std::string> files);
// The table whose name is `stem` and one of these endings; empty where there is none. `stem` has its folder.
std::string find_table(const std::string& stem);

// .csv: cells between commas, or semicolons or tabs where the first line has no comma, with quotes as RFC
// 4180 has them. .tsv: tabs; a cell in quotes ends on its line, or on a later one where lines make a row only
// when they are joined, and any other quote is text. The first line has names. .jsonl: an object per line;
// .json: a list of objects; what is missing or null is an empty cell. Throws RunError naming file and line
// for what is none of these, is no UTF-8, or is over 1 GB.
Table read_table(const std::string& path, const TableReading& reading = {});

// The rows of a .json. Throws RunError naming the file for what is no list.
Json parse_rows(const std::string& path, const std::string& text, SameNames same = SameNames::kLastCounts);

// Tabs alone, where quotes are text, as GLUE's files are. Rows may be of any length. `has_names`: the first
// line is no row.
Table read_plain_tsv(const std::string& path, bool has_names);

}  // namespace lpmm
