#include "lpmm/data/sentences/own_sentences.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>
#include <span>
#include <utility>

#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"
#include "lpmm/base/text.h"
#include "lpmm/data/images.h"
#include "lpmm/data/sentences/own_columns.h"
#include "lpmm/data/sentences/own_words.h"
#include "lpmm/data/utf8.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMostClasses = 65536;

std::optional<float> as_number(const std::string& text) {
  char* end = nullptr;
  const float number = std::strtof(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(number)) return {};
  return number;
}

const std::string& cell(const Table::Row& row, int place) {
  return row.cells[static_cast<std::size_t>(place)];
}

// 1 or 0, as programs write them; nothing: it is neither.
std::optional<bool> as_yes_or_no(const std::string& said) {
  if (said == "1" || said == "1.0" || said == "true" || said == "True") return true;
  if (said == "0" || said == "0.0" || said == "false" || said == "False") return false;
  return {};
}

bool says_yes(const Table& table, const Table::Row& row, const std::string& name, const std::string& said) {
  const std::optional<bool> answer = as_yes_or_no(said);
  if (!answer) table.refuse(row, fmt::format("has {} = \"{}\": what tells of a class is 1 or 0", name, said));
  return *answer;
}

// Returns how many classes the lists have 1 or 0 for; 0: they hold labels. A list of labels has each of them
// once, so lists of 1 and 0 hold none where one repeats an item, or where all have two.
std::size_t told_classes(const Table& table, int list) {
  std::size_t most = 0, least = kMostClasses;
  bool repeats = false;
  for (const Table::Row& row : table.rows) {
    const std::vector<std::string>& items = row.lists[static_cast<std::size_t>(list)];
    if (!std::ranges::all_of(items, [](const auto& item) { return as_yes_or_no(item).has_value(); }))
      return 0;
    repeats = repeats || items.size() > 2 || (items.size() == 2 && items[0] == items[1]);
    most = std::max(most, items.size());
    least = std::min(least, items.size());
  }
  return repeats || (most == 2 && least == 2) ? most : 0;
}

// The labels of a row that may have any number, each once.
std::vector<std::string> labels_of(const Table& table, const Table::Row& row,
                                   const SentenceColumns& columns) {
  std::vector<std::string> labels;
  const auto add = [&](std::string label) {
    label.erase(0, label.find_first_not_of(' '));
    label.erase(label.find_last_not_of(' ') + 1);
    if (!label.empty() && std::ranges::count(labels, label) == 0) labels.push_back(std::move(label));
  };
  if (columns.list >= 0) {
    const std::vector<std::string>& items = row.lists[static_cast<std::size_t>(columns.list)];
    const std::string name = name_of_answer(table, columns);
    if (columns.classes > 0 && items.size() != columns.classes) {
      table.refuse(row,
                   fmt::format("has {} items in {}, where others have {}: there is 1 or 0 for each class",
                               items.size(), name, columns.classes));
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (columns.classes == 0) add(items[i]);
      if (columns.classes > 0 && says_yes(table, row, name, items[i])) add(std::to_string(i));
    }
    return labels;
  }
  for (const int place : columns.each) {
    const std::string& name = table.names[static_cast<std::size_t>(place)];
    if (says_yes(table, row, name, cell(row, place))) add(name);
  }
  if (columns.answer < 0) return labels;
  const std::string& all = cell(row, columns.answer);
  for (std::size_t at = 0; at <= all.size();) {
    const std::size_t end = std::min(all.find(columns.between, at), all.size());
    add(all.substr(at, end - at));
    at = end + columns.between.size();
  }
  return labels;
}

bool is_fraction(const std::optional<float>& number) {
  return number && *number != std::floor(*number);
}

// One that is missing, or mistyped, does not make classes of the others.
bool are_numbers(const Table& table, int answer) {
  std::size_t numbers = 0;
  bool has_fraction = false;
  for (const Table::Row& row : table.rows) {
    const std::optional<float> number = as_number(cell(row, answer));
    numbers += number ? 1 : 0;
    has_fraction = has_fraction || is_fraction(number);
  }
  return has_fraction && 2 * numbers > table.rows.size();
}

// The classes of all rows, in order.
std::vector<std::string> classes_in(const Table& table, const SentenceColumns& columns) {
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < columns.classes; ++i) labels.push_back(std::to_string(i));
  if (columns.classes > 0) return labels;
  for (const Table::Row& row : table.rows) {
    if (columns.tells_several()) {
      const std::vector<std::string> some = labels_of(table, row, columns);
      labels.insert(labels.end(), some.begin(), some.end());
    } else {
      labels.push_back(cell(row, columns.answer));
    }
  }
  return classes_in_order(std::move(labels));
}

// Says, or refuses, what numbers look like that are not read as numbers.
void check_classes(const Table& table, const SentenceColumns& columns,
                   const std::vector<std::string>& classes) {
  const std::string name = name_of_answer(table, columns);
  if (columns.list >= 0) {
    const auto odd = std::ranges::find_if(classes, [](const auto& c) { return is_fraction(as_number(c)); });
    if (odd == classes.end()) return;
    throw RunError(
        fmt::format("{}: its lists of {} hold the number {}: they are of labels, or of 1 or 0 for "
                    "each class",
                    table.path, name, *odd));
  }
  constexpr std::size_t kFew = 8;
  if (columns.tells_several() || classes.size() < kFew || 2 * classes.size() <= table.rows.size()) return;
  tell(printable(fmt::format("{}: {} different values of {} in {} rows are taken for names of classes; "
                             "numbers have a point before their fraction, as 0.5",
                             table.path, classes.size(), name, table.rows.size())) +
       "\n");
}

// Decides the kind of answer that the rows have, and how it is scored.
void describe(const Table& table, const SentenceColumns& columns, SentenceSet& set) {
  set.has_pairs = columns.second >= 0;
  const bool is_number =
      !columns.tells_several() && (is_score(table, columns) || are_numbers(table, columns.answer));
  if (is_number) set.tells = Tells::kNumber;
  if (!is_number) set.labels = classes_in(table, columns);
  if (set.labels.size() > kMostClasses) {
    throw RunError(fmt::format("{}: its lines have {} different values of {}, there may be {}", table.path,
                               set.labels.size(), name_of_answer(table, columns), kMostClasses));
  }
  check_classes(table, columns, set.labels);
  set.metrics = usual_metrics(set.tells, set.labels);
  if (columns.tells_several()) set.tell_several();
}

// Draws a share of the examples for tests; both parts stay in their order.
void hold_out(double share, SentenceSet& set) {
  const std::size_t n = set.train.size();
  const auto held =
      std::max<std::size_t>(1, static_cast<std::size_t>(std::llround(share * static_cast<double>(n))));
  std::vector<std::size_t> order(n);
  for (std::size_t i = 0; i < n; ++i) order[i] = i;
  std::mt19937_64 draws(1);  // whose numbers the standard fixes
  for (std::size_t i = 0; i < held; ++i) std::swap(order[i], order[i + draws() % (n - i)]);
  std::vector<bool> is_held(n, false);
  for (std::size_t i = 0; i < held; ++i) is_held[order[i]] = true;
  std::vector<SentenceExample> train;
  for (std::size_t i = 0; i < n; ++i) (is_held[i] ? set.test : train).push_back(std::move(set.train[i]));
  set.train = std::move(train);
}

// The tables to train and to test on; no second one: there is none.
struct OwnFiles {
  std::string train, test;
};

[[noreturn]] void refuse_part(const fs::path& folder, std::string_view part, std::string_view advice) {
  throw RunError(fmt::format("{}: has no {} (.tsv, .csv, .jsonl or .json, or one of these with .gz){}",
                             folder.string(), part, advice));
}

// A table, or a file of words.
std::string find_examples(const std::string& stem) {
  const std::string table = find_table(stem);
  return table.empty() ? find_word_file(stem) : table;
}

// Names the files of a folder that could be read and are not.
void tell_unused(const std::string& folder, const OwnFiles& files) {
  std::vector<std::string> unused;
  for (const auto& item : fs::directory_iterator(folder)) {
    const std::string path = item.path().string();
    if (!is_table(path) && !is_word_file(path)) continue;
    if (path != files.train && path != files.test) unused.push_back(item.path().filename().string());
  }
  if (unused.empty()) return;
  std::ranges::sort(unused);
  tell(printable(fmt::format("{}: reads {}{}; not used: {}", folder, files.train,
                             files.test.empty() ? "" : " and " + files.test, fmt::join(unused, ", "))) +
       "\n");
}

OwnFiles find_files(const SentenceSource& source) {
  std::error_code none;
  const std::string found = find_data(source.path);
  if (found.empty()) {
    throw RunError(fmt::format(
        "{}: there is no such file or folder of sentences, neither here nor in the folder that LPMM_DATA "
        "names",
        source.path));
  }
  OwnFiles files;
  const bool wants_test = source.test_file == kTestFile;
  if (!fs::is_directory(found, none)) {
    if (!is_table(found) && !is_word_file(found)) {
      throw RunError(fmt::format(
          "{}: is no .tsv, .csv, .jsonl or .json, nor one of these with .gz, nor a .conll of words; save a "
          "spreadsheet or a .parquet as one of them",
          found));
    }
    files.train = found;
  } else {
    const fs::path folder = found;
    files.train = find_examples((folder / "train").string());
    if (files.train.empty()) refuse_part(folder, "train", "; or name one file by data.path");
    const auto look_for = [&](std::string_view part) {
      if (files.test.empty()) files.test = find_examples((folder / part).string());
    };
    if (wants_test) {
      look_for(kTestFile);
    } else {
      std::ranges::for_each(kDevelopmentNames, look_for);
    }
  }
  if (!source.test_path.empty()) {
    files.test = find_data(source.test_path);
    if (!is_table(files.test) && !is_word_file(files.test)) {
      throw RunError(
          fmt::format("{}: there is no such .tsv, .csv, .jsonl or .json (data.test_path)", source.test_path));
    }
  }
  if (fs::is_directory(found, none)) tell_unused(found, files);
  if (files.test.empty() && wants_test) {
    refuse_part(found, "test", "; name another file by data.test_path, or leave out data.test_file");
  }
  return files;
}

// Refuses a row that lacks a sentence or its answer.
void check_row(const Table& table, const Table::Row& row, const SentenceColumns& columns) {
  const auto most = static_cast<std::size_t>(std::max({columns.first, columns.second, columns.answer}));
  if (row.cells.size() <= most) {
    table.refuse(row, fmt::format("has {} columns, {} are expected", row.cells.size(), most + 1));
  }
  if (cell(row, columns.first).empty() || (columns.second >= 0 && cell(row, columns.second).empty()))
    table.refuse(row, "has an empty sentence: write it, or take the row out");
  if (columns.list >= 0) table.refuse_no_list(row, columns.list);
  if (!columns.tells_several() && cell(row, columns.answer).empty()) {
    table.refuse(row,
                 fmt::format("has no {}: write it, or take the row out", name_of_answer(table, columns)));
  }
}

SentenceExample example_of(const Table& table, const Table::Row& row, const SentenceColumns& columns,
                           const SentenceSet& set) {
  const auto refuse = [&](std::string_view why) { table.refuse(row, why); };
  check_row(table, row, columns);
  SentenceExample e{.first = cell(row, columns.first), .second = {}, .line = row.line};
  if (columns.second >= 0) e.second = cell(row, columns.second);
  if (columns.tells_several()) {
    for (const std::string& label : labels_of(table, row, columns)) {
      e.labels.push_back(set.class_of(label, refuse));
    }
    return e;
  }
  const std::string& answer = cell(row, columns.answer);
  if (!set.is_number()) {
    e.label = set.class_of(answer, refuse);
    return e;
  }
  const std::optional<float> number = as_number(answer);
  if (!number)
    refuse(fmt::format("has the score \"{}\", which is no number: write one, or take the row out", answer));
  e.score = *number;
  return e;
}

}  // namespace

std::vector<SentenceExample> read_examples(Table& table, const SentenceColumns& columns,
                                           const SentenceSet& set) {
  std::vector<SentenceExample> examples;
  table.keep_readable(
      [&](const Table::Row& row) { examples.push_back(example_of(table, row, columns, set)); });
  table.broken.tell(table.path, examples.size());
  if (examples.empty()) throw RunError(fmt::format("{}: holds no sentence", table.path));
  return examples;
}

namespace {

// Describes the set by its training file, and reads the file to test on where there is one.
void read_tables(Table& train, const OwnFiles& files, const SentenceSource& source, SentenceSet& set) {
  SentenceColumns columns = columns_of(train, source);
  train.keep_readable([&](const Table::Row& row) { check_row(train, row, columns); });
  if (columns.list >= 0) columns.classes = told_classes(train, columns.list);
  if (columns.classes > 0) {
    tell(printable(fmt::format("{}: a list of {} has 1 or 0 for each of the classes 0 to {}", train.path,
                               name_of_answer(train, columns), columns.classes - 1)) +
         "\n");
  }
  if (columns.tells_several()) {
    train.keep_readable([&](const Table::Row& row) { labels_of(train, row, columns); });
  }
  if (!train.rows.empty()) describe(train, columns, set);
  tell_columns(train, columns, set.is_number());
  set.train = read_examples(train, columns, set);
  if (!set.is_number() && set.labels.size() < 2 && !source.only_tests(files.test)) {
    throw RunError(fmt::format("{}: its lines have one {}, there must be two", train.path,
                               name_of_answer(train, columns)));
  }
  if (files.test.empty()) return;
  Table test = read_table(files.test, {.skips_broken = source.skips_broken});
  SentenceColumns of_test = columns_of(test, source);
  of_test.classes = columns.classes;
  set.test = read_examples(test, of_test, set);
}

void read_files(const OwnFiles& files, const SentenceSource& source, SentenceSet& set) {
  std::optional<Table> train;
  if (!is_word_file(files.train)) train = read_table(files.train, {.skips_broken = source.skips_broken});
  if (!train || holds_words(*train, source.columns)) {
    read_words(files.train, std::move(train), files.test, source, set);
  } else {
    read_tables(*train, files, source, set);
  }
}

}  // namespace

SentenceSet load_own_sentences(const SentenceSource& source) {
  const OwnFiles files = find_files(source);
  SentenceSet set{.name = source.path};
  try {
    read_files(files, source, set);
  } catch (const BrokenRow& row) {
    if (source.skips_broken) throw;
    throw RunError(fmt::format("{}; {}", row.what(), kSkipRows));
  }
  if (!files.test.empty()) return set;
  const std::size_t all = set.train.size();
  hold_out(source.validation_share, set);
  tell(
      fmt::format("{}: {} of {} rows, drawn, are kept for tests (data.validation_share = {}); data.test_path "
                  "names a file of them\n",
                  files.train, set.test.size(), all, source.validation_share));
  return set;
}

}  // namespace lpmm
