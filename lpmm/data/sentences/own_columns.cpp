#include "lpmm/data/sentences/own_columns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"
#include "lpmm/base/text.h"
#include "lpmm/data/utf8.h"

namespace lpmm {
namespace {

constexpr std::string_view kTextNames[] = {"sentence", "text",      "content", "review",
                                           "comment",  "utterance", "message", "body"};
constexpr std::pair<std::string_view, std::string_view> kPairNames[] = {
    {"sentence1", "sentence2"}, {"premise", "hypothesis"}, {"question1", "question2"}, {"text1", "text2"}};
constexpr std::string_view kScoreNames[] = {"score", "similarity"};
constexpr std::string_view kSeveralNames[] = {"labels", "classes", "categories", "tags", "genres", "topics"};
constexpr std::string_view kClassNames[] = {"label", "class", "category", "intent", "sentiment", "target"};

[[noreturn]] void refuse_columns(const Table& table, std::string_view lacks) {
  const bool is_one = table.names.size() == 1 && table.lists.empty();
  throw RunError(fmt::format(
      "{}: has no column {}, but {}{}; say which to read: data.columns = \"TEXT,LABEL\" (of `lpmm eval`: "
      "--columns), or \"TEXT,TEXT,LABEL\" for pairs. Columns that need no word: {}; {}; {}{}",
      table.path, lacks, shown(fmt::format("{}", fmt::join(table.names, ", "))),
      table.lists.empty() ? "" : fmt::format(" ({} are lists or objects)", fmt::join(table.lists, ", ")),
      fmt::join(kTextNames, ", "), "sentence1 with sentence2, premise with hypothesis",
      "label, class, category, or score for numbers",
      is_one ? ". Columns have commas, semicolons or tabs between them, in a .tsv tabs" : ""));
}

// The answer that data.columns names: a column, a list, or A+B+C, columns of 1 and 0.
void name_answer(const Table& table, const std::string& name, SentenceColumns& out) {
  out.answer = table.place_of(name);
  if (out.answer < 0) out.list = table.list_of(name);
  if (out.answer >= 0 || out.list >= 0) return;
  for (std::size_t at = 0; name.find('+') != std::string::npos && at <= name.size();) {
    const std::size_t end = std::min(name.find('+', at), name.size());
    out.each.push_back(table.place_of(name.substr(at, end - at)));
    if (out.each.back() < 0) {
      refuse_columns(table, fmt::format("\"{}\" (data.columns)", name.substr(at, end - at)));
    }
    at = end + 1;
  }
  if (out.each.empty()) refuse_columns(table, fmt::format("\"{}\" (data.columns)", name));
}

SentenceColumns named_columns(const Table& table, const std::string& columns) {
  const std::vector<std::string> names = split_columns(columns);
  if (names.size() != 2 && names.size() != 3) {
    throw UsageError(fmt::format(
        "data.columns = \"{}\": two names are expected, of the text and of its label, or three for pairs",
        columns));
  }
  SentenceColumns out{-1, -1, -1};
  for (std::size_t i = 0; i + 1 < names.size(); ++i) {
    int& place = i == 0 ? out.first : out.second;
    place = table.place_of(names[i]);
    if (place < 0) refuse_columns(table, fmt::format("\"{}\" (data.columns)", names[i]));
  }
  name_answer(table, names.back(), out);
  return out;
}

SentenceColumns usual_columns(const Table& table, bool has_several) {
  SentenceColumns out{-1, -1, -1};
  for (const auto& [first, second] : kPairNames) {
    if (table.place_of(first) < 0 || table.place_of(second) < 0) continue;
    out.first = table.place_of(first);
    out.second = table.place_of(second);
    break;
  }
  if (out.second < 0) out.first = table.place_of_any(kTextNames);
  if (out.first < 0) refuse_columns(table, "of texts");
  if (has_several) out.answer = table.place_of_any(kSeveralNames);
  if (out.answer < 0) out.answer = table.place_of_any(kClassNames);
  if (out.answer < 0) out.list = table.list_of_any(kSeveralNames);
  if (out.answer < 0 && out.list < 0) out.list = table.list_of_any(kClassNames);
  if (out.answer < 0 && out.list < 0) out.answer = table.place_of_any(kScoreNames);
  if (out.answer >= 0 || out.list >= 0) return out;
  if (const int several = table.place_of_any(kSeveralNames); several >= 0) {
    const auto name = [&](int place) { return table.names[static_cast<std::size_t>(place)]; };
    throw RunError(fmt::format(
        "{0}: has no column \"label\", but \"{1}\". Where a text has several labels, say what stands between "
        "them: data.labels_between = \";\"; where it has one: data.columns = \"{2},{1}\". A list such as "
        "['a', 'b'] is read from a .jsonl: {{\"{2}\": \"...\", \"{1}\": [\"a\", \"b\"]}}",
        table.path, name(several), name(out.first)));
  }
  refuse_columns(table, "\"label\"");
}

}  // namespace

SentenceColumns columns_of(const Table& table, const SentenceSource& source) {
  SentenceColumns out = source.columns.empty() ? usual_columns(table, !source.between.empty())
                                               : named_columns(table, source.columns);
  if (!source.between.empty() && out.answer < 0) {
    throw UsageError(fmt::format(
        "data.labels_between = \"{}\" is for labels in one column; those of {} are {}", source.between,
        table.path, out.list >= 0 ? "lists" : "columns of their own (data.columns)"));
  }
  out.between = source.between;
  return out;
}

std::string name_of_answer(const Table& table, const SentenceColumns& columns) {
  if (columns.list >= 0) return table.lists[static_cast<std::size_t>(columns.list)];
  std::vector<std::string> names;
  for (const int place : columns.each) names.push_back(table.names[static_cast<std::size_t>(place)]);
  if (columns.answer < 0) return fmt::format("{}", fmt::join(names, "+"));
  return table.names.empty() ? "answer" : table.names[static_cast<std::size_t>(columns.answer)];
}

bool is_score(const Table& table, const SentenceColumns& columns) {
  return std::ranges::any_of(kScoreNames, [&](auto name) { return table.place_of(name) == columns.answer; });
}

void tell_columns(const Table& table, const SentenceColumns& columns, bool is_number) {
  std::vector<std::string> unused = table.lists;
  if (columns.list >= 0) unused.erase(unused.begin() + columns.list);
  for (int i = 0; i < static_cast<int>(table.names.size()); ++i) {
    if (i == columns.first || i == columns.second || i == columns.answer) continue;
    const bool is_list_too = std::ranges::count(table.lists, table.names[static_cast<std::size_t>(i)]) > 0;
    if (is_list_too || std::ranges::count(columns.each, i) > 0) continue;
    unused.push_back(shown_column(table.names[static_cast<std::size_t>(i)]));
  }
  if (unused.empty()) return;
  const auto name = [&](int place) { return table.names[static_cast<std::size_t>(place)]; };
  tell(printable(fmt::format("{}: reads {}{}, tells {}{}; not used: {}", table.path, name(columns.first),
                             columns.second < 0 ? "" : " and " + name(columns.second),
                             name_of_answer(table, columns), is_number ? ", a number" : "",
                             fmt::join(unused, ", "))) +
       "\n");
}

}  // namespace lpmm
