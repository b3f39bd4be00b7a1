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
#include "lpmm/data/utf8.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMostClasses = 65536;

constexpr std::string_view kTextNames[] = {"sentence", "text",      "content", "review",
                                           "comment",  "utterance", "message", "body"};
constexpr std::pair<std::string_view, std::string_view> kPairNames[] = {
    {"sentence1", "sentence2"}, {"premise", "hypothesis"}, {"question1", "question2"}, {"text1", "text2"}};
constexpr std::string_view kScoreNames[] = {"score", "similarity"};
constexpr std::string_view kClassNames[] = {"label", "class", "category", "intent", "sentiment", "target"};

std::optional<float> as_number(const std::string& text) {
  char* end = nullptr;
  const float number = std::strtof(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(number)) return {};
  return number;
}

const std::string& cell(const Table::Row& row, int place) {
  return row.cells[static_cast<std::size_t>(place)];
}

// Classes in the order of their names; of names that end with a number and are alike before it, by that.
std::vector<std::string> in_order(std::vector<std::string> names) {
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

[[noreturn]] void refuse_columns(const Table& table, std::string_view lacks) {
  throw RunError(fmt::format(
      "{}: has no column {}, but {}{}; say which to read: data.columns = \"TEXT,LABEL\", or "
      "\"TEXT,TEXT,LABEL\" for pairs. Columns that need no word: {}; {}; {}",
      table.path, lacks, shown(fmt::format("{}", fmt::join(table.names, ", "))),
      table.lists.empty() ? "" : fmt::format(" ({} are lists or objects)", fmt::join(table.lists, ", ")),
      fmt::join(kTextNames, ", "), "sentence1 with sentence2, premise with hypothesis",
      "label, class, category, or score for numbers"));
}

SentenceColumns named_columns(const Table& table, const std::string& columns) {
  std::vector<int> places;
  for (std::string& name : split_columns(columns)) {
    name.erase(0, name.find_first_not_of(' '));
    name.erase(name.find_last_not_of(' ') + 1);
    places.push_back(table.place_of(name));
    if (places.back() < 0) refuse_columns(table, fmt::format("\"{}\" (data.columns)", name));
  }
  if (places.size() == 2) return {places[0], -1, places[1]};
  if (places.size() == 3) return {places[0], places[1], places[2]};
  throw UsageError(fmt::format(
      "data.columns = \"{}\": two names are expected, of the text and of its label, or three for pairs",
      columns));
}

SentenceColumns usual_columns(const Table& table) {
  SentenceColumns out{-1, -1, -1};
  for (const auto& [first, second] : kPairNames) {
    if (table.place_of(first) < 0 || table.place_of(second) < 0) continue;
    out.first = table.place_of(first);
    out.second = table.place_of(second);
    break;
  }
  if (out.second < 0) out.first = table.place_of_any(kTextNames);
  if (out.first < 0) refuse_columns(table, "of texts");
  out.answer = table.place_of_any(kClassNames);
  if (out.answer < 0) out.answer = table.place_of_any(kScoreNames);
  if (out.answer < 0) refuse_columns(table, "\"label\"");
  return out;
}

SentenceColumns columns_of(const Table& table, const std::string& columns) {
  return columns.empty() ? usual_columns(table) : named_columns(table, columns);
}

// Says which columns are read where others are left out, or where a file has usual names for two things.
void tell_columns(const Table& table, const SentenceColumns& columns, bool is_number) {
  std::vector<std::string> unused = table.lists;
  for (int i = 0; i < static_cast<int>(table.names.size()); ++i) {
    if (i == columns.first || i == columns.second || i == columns.answer) continue;
    unused.push_back(table.names[static_cast<std::size_t>(i)]);
  }
  if (unused.empty()) return;
  const auto name = [&](int place) { return table.names[static_cast<std::size_t>(place)]; };
  tell(printable(fmt::format("{}: reads {}{}, tells {}{}; not used: {}", table.path, name(columns.first),
                             columns.second < 0 ? "" : " and " + name(columns.second), name(columns.answer),
                             is_number ? ", a number" : "", fmt::join(unused, ", "))) +
       "\n");
}

bool are_numbers(const Table& table, int answer) {
  bool has_fraction = false;
  for (const Table::Row& row : table.rows) {
    const std::optional<float> number = as_number(cell(row, answer));
    if (!number) return false;
    has_fraction = has_fraction || *number != std::floor(*number);
  }
  return has_fraction;
}

std::vector<Metric> fitting_metrics(const SentenceSet& set) {
  if (set.is_number) return {Metric::kSpearman, Metric::kPearson};
  if (set.labels.size() == 2) return {Metric::kAccuracy, Metric::kF1, Metric::kMatthews};
  return {Metric::kAccuracy};
}

// What the rows are told, and how it is scored.
void describe(const Table& table, const SentenceColumns& columns, SentenceSet& set) {
  const std::string& answer = table.names[static_cast<std::size_t>(columns.answer)];
  set.has_pairs = columns.second >= 0;
  set.is_number =
      std::ranges::any_of(kScoreNames, [&](auto n) { return table.place_of(n) == columns.answer; }) ||
      are_numbers(table, columns.answer);
  if (!set.is_number) {
    for (const Table::Row& row : table.rows) {
      if (cell(row, columns.answer).empty()) table.refuse(row, fmt::format("has no {}", answer));
      set.labels.push_back(cell(row, columns.answer));
    }
    set.labels = in_order(std::move(set.labels));
    if (set.labels.size() > kMostClasses) {
      throw RunError(fmt::format("{}: its lines have {} different values of {}, there may be {}", table.path,
                                 set.labels.size(), answer, kMostClasses));
    }
  }
  set.metrics = fitting_metrics(set);
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
    if (!is_table(found)) {
      throw RunError(fmt::format("{}: is no .tsv, .csv, .jsonl or .json, nor one of these with .gz", found));
    }
    files.train = found;
  } else {
    const fs::path folder = found;
    files.train = find_table((folder / "train").string());
    if (files.train.empty()) refuse_part(folder, "train", "; or name one file by data.path");
    const auto look_for = [&](std::string_view part) {
      if (files.test.empty()) files.test = find_table((folder / part).string());
    };
    if (wants_test) {
      look_for(kTestFile);
    } else {
      std::ranges::for_each(kDevelopmentNames, look_for);
    }
  }
  if (!source.test_path.empty()) {
    files.test = find_data(source.test_path);
    if (!is_table(files.test)) {
      throw RunError(
          fmt::format("{}: there is no such .tsv, .csv, .jsonl or .json (data.test_path)", source.test_path));
    }
  }
  if (files.test.empty() && wants_test) {
    refuse_part(found, "test", "; name another file by data.test_path, or leave out data.test_file");
  }
  return files;
}

}  // namespace

std::vector<SentenceExample> read_examples(const Table& table, const SentenceColumns& columns,
                                           const SentenceSet& set) {
  const auto most = static_cast<std::size_t>(std::max({columns.first, columns.second, columns.answer}));
  std::vector<SentenceExample> examples;
  for (const Table::Row& row : table.rows) {
    if (row.cells.size() <= most) {
      table.refuse(row, fmt::format("has {} columns, {} are expected", row.cells.size(), most + 1));
    }
    SentenceExample e{.first = cell(row, columns.first), .second = {}, .line = row.line};
    if (columns.second >= 0) e.second = cell(row, columns.second);
    if (e.first.empty() || (columns.second >= 0 && e.second.empty()))
      table.refuse(row, "has an empty sentence");
    const std::string& answer = cell(row, columns.answer);
    if (set.is_number) {
      const std::optional<float> number = as_number(answer);
      if (!number) table.refuse(row, fmt::format("has the score \"{}\", which is no number", answer));
      e.score = *number;
    } else {
      const auto at = std::ranges::find(set.labels, answer);
      if (at == set.labels.end()) {
        constexpr std::size_t kShown = 20;
        const auto some = std::span(set.labels).first(std::min(kShown, set.labels.size()));
        table.refuse(row, fmt::format("has the label \"{}\", which is none of {}{}", answer,
                                      fmt::join(some, ", "), set.labels.size() > kShown ? ", ..." : ""));
      }
      e.label = static_cast<std::int32_t>(at - set.labels.begin());
    }
    examples.push_back(std::move(e));
  }
  if (examples.empty()) throw RunError(fmt::format("{}: holds no sentence", table.path));
  return examples;
}

SentenceSet load_own_sentences(const SentenceSource& source) {
  const OwnFiles files = find_files(source);
  SentenceSet set{.name = source.path};
  const Table train = read_table(files.train);
  const SentenceColumns columns = columns_of(train, source.columns);
  if (train.rows.empty()) throw RunError(fmt::format("{}: holds no sentence", train.path));
  describe(train, columns, set);
  tell_columns(train, columns, set.is_number);
  set.train = read_examples(train, columns, set);
  if (!set.is_number && set.labels.size() < 2) {
    throw RunError(fmt::format("{}: its lines have one {}, there must be two", train.path,
                               train.names[static_cast<std::size_t>(columns.answer)]));
  }
  if (!files.test.empty()) {
    const Table test = read_table(files.test);
    set.test = read_examples(test, columns_of(test, source.columns), set);
    return set;
  }
  hold_out(source.validation_share, set);
  tell(
      fmt::format("{}: {} of {} rows, drawn, are kept for tests (data.validation_share = {}); data.test_path "
                  "names a file of them\n",
                  files.train, set.test.size(), train.rows.size(), source.validation_share));
  return set;
}

}  // namespace lpmm
