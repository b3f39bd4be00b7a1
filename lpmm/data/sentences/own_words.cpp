#include "lpmm/data/sentences/own_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"
#include "lpmm/base/text.h"
#include "lpmm/data/sentences/metrics.h"
#include "lpmm/data/utf8.h"
#include "lpmm/files/gz_file.h"

namespace lpmm {
namespace {

constexpr std::string_view kWordLists[] = {"tokens", "words"};
constexpr std::string_view kTagLists[] = {"ner_tags", "tags", "labels", "pos_tags", "ner"};
constexpr std::string_view kNoSentence = "-DOCSTART-";
constexpr std::string_view kNotCounted = "-100";  // the label of a word that Hugging Face's data leaves out

// A sentence as it was read: its words and their labels.
struct Tagged {
  std::int64_t line;
  std::vector<std::string> words, tags;
};
struct TaggedFile {
  std::string path;
  BrokenRows broken;
  std::vector<Tagged> sentences = {};
  [[noreturn]] void refuse(std::int64_t line, std::string_view why) const {
    throw BrokenRow(path, line, why);
  }
};

// The columns of a file of lines, which all have as many: between two tabs there may be an empty one.
struct LineColumns {
  std::size_t least = 0, most = 0;
  std::int64_t first = 0;  // line that has them
};

void add_word(const TaggedFile& file, std::int64_t number, std::string_view line, LineColumns& of,
              Tagged& sentence) {
  check_utf8_lines(file.path, number, line);
  std::vector<std::string> cells = split_at_spaces(line);
  if (cells.size() < 2) {
    file.refuse(number, fmt::format("has {}, and no label behind it: a line has a word and its label",
                                    shown(cells[0])));
  }
  std::size_t most = cells.size();
  for (std::size_t i = 1; i < line.size(); ++i) most += line[i - 1] == '\t' && line[i] == '\t' ? 1 : 0;
  if (of.least == 0) of = {cells.size(), most, number};
  if (cells.size() > of.most || most < of.least) {
    file.refuse(number,
                fmt::format("has {} columns, but line {} has {}: the word is first and its label last; "
                            "take comments out, and spaces in words",
                            cells.size(), of.first, of.least));
  }
  if (sentence.words.empty()) sentence.line = number;
  sentence.words.push_back(std::move(cells.front()));
  sentence.tags.push_back(std::move(cells.back()));
}

// Refuses files whose lines begin with the place of the word in its sentence, as CoNLL-U's do.
void refuse_places(const TaggedFile& file) {
  const auto& all = file.sentences;
  const bool are_places =
      std::ranges::all_of(all, [](const Tagged& s) { return s.words[0] == "1"; }) &&
      std::ranges::any_of(all, [](const Tagged& s) { return s.words.size() > 1 && s.words[1] == "2"; });
  if (!are_places) return;
  throw RunError(fmt::format(
      "{}: its lines begin with numbers, and the word is to be first: cut that column out", file.path));
}

TaggedFile read_lines(const std::string& path, bool skips_broken) {
  TaggedFile file{path, {skips_broken}};
  const std::string text = read_plain_or_gz(path);
  Tagged sentence{};
  LineColumns columns;
  bool is_whole = true;
  const auto end_sentence = [&] {
    if (is_whole && !sentence.words.empty()) file.sentences.push_back(std::move(sentence));
    sentence = {};
    is_whole = true;
  };
  std::int64_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    ++number;
    const std::vector<std::string> cells = split_at_spaces(line);
    if (cells.empty() || cells[0] == kNoSentence) {
      end_sentence();
    } else if (is_whole) {
      is_whole = file.broken.take([&] { add_word(file, number, line, columns, sentence); });
    }
  }
  end_sentence();
  refuse_places(file);
  return file;
}

struct WordColumns {
  int words, tags;
};
// -1: it has none.
WordColumns word_columns(const Table& table, const std::string& columns) {
  if (columns.empty()) return {table.list_of_any(kWordLists), table.list_of_any(kTagLists)};
  const std::vector<std::string> names = split_columns(columns);
  return names.size() == 2 ? WordColumns{table.list_of(names[0]), table.list_of(names[1])}
                           : WordColumns{-1, -1};
}

TaggedFile read_lists(Table table, const std::string& columns) {
  const std::string& path = table.path;
  const WordColumns of = word_columns(table, columns);
  if (of.words < 0 || of.tags < 0) {
    throw RunError(fmt::format(
        "{}: has no lists of words and of labels, but the lists {}; say which to read: "
        "data.columns = \"WORDS,LABELS\" (of `lpmm eval`: --columns). Lists that need no word: {}; {}",
        path, printable(fmt::format("{}", fmt::join(table.lists, ", "))), fmt::join(kWordLists, ", "),
        fmt::join(kTagLists, ", ")));
  }
  TaggedFile file{path, {}};
  table.keep_readable([&](Table::Row& row) {
    table.refuse_no_list(row, of.words);
    table.refuse_no_list(row, of.tags);
    auto &words = row.lists[static_cast<std::size_t>(of.words)],
         &tags = row.lists[static_cast<std::size_t>(of.tags)];
    if (words.size() != tags.size()) {
      table.refuse(row, fmt::format("has {} words and {} labels", words.size(), tags.size()));
    }
    if (!words.empty()) file.sentences.push_back({row.line, std::move(words), std::move(tags)});
  });
  file.broken = std::move(table.broken);
  return file;
}

TaggedFile read_tagged(const std::string& path, std::optional<Table> read, const SentenceSource& source) {
  const bool has_lines = is_word_file(path);
  if (has_lines && !source.columns.empty()) {
    throw UsageError(fmt::format(
        "data.columns = \"{}\" is for tables and lists; a line of {} has a word first and its label last",
        source.columns, path));
  }
  if (!has_lines && !read) read = read_table(path, {.skips_broken = source.skips_broken});
  TaggedFile file =
      has_lines ? read_lines(path, source.skips_broken) : read_lists(*std::move(read), source.columns);
  if (file.sentences.empty()) {
    file.broken.tell(path, 0);
    throw RunError(fmt::format("{}: holds no sentence", path));
  }
  return file;
}

std::vector<SentenceExample> with_classes(TaggedFile file, const SentenceSet& set) {
  std::vector<SentenceExample> examples;
  for (Tagged& sentence : file.sentences) {
    SentenceExample e;
    e.line = sentence.line;
    e.words = std::move(sentence.words);
    const auto refuse = [&](std::string_view why) { file.refuse(e.line, why); };
    const bool is_read = file.broken.take([&] {
      for (const std::string& tag : sentence.tags) {
        e.labels.push_back(tag == kNotCounted ? kNotTold : set.class_of(tag, refuse));
      }
    });
    if (is_read) examples.push_back(std::move(e));
  }
  file.broken.tell(file.path, examples.size());
  return examples;
}

}  // namespace

std::vector<std::string> split_at_spaces(std::string_view line) {
  constexpr std::string_view kSpaces = " \t\r";
  std::vector<std::string> pieces;
  for (std::size_t at = line.find_first_not_of(kSpaces); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kSpaces, at), line.size());
    pieces.emplace_back(line.substr(at, end - at));
    at = line.find_first_not_of(kSpaces, end);
  }
  return pieces;
}

bool is_word_file(std::string_view path) {
  return std::ranges::any_of(kWordEndings, [&](std::string_view ending) { return has_ending(path, ending); });
}

std::string find_word_file(const std::string& stem) {
  for (const std::string_view ending : kWordEndings) {
    if (std::string found = find_plain_or_gz(stem + std::string(ending)); !found.empty()) return found;
  }
  return "";
}

bool holds_words(const Table& table, const std::string& columns) {
  const WordColumns of = word_columns(table, columns);
  return of.words >= 0 && of.tags >= 0;
}

void read_words(const std::string& train, std::optional<Table> read, const std::string& test,
                const SentenceSource& source, SentenceSet& set) {
  TaggedFile file = read_tagged(train, std::move(read), source);
  std::vector<std::string> tags;
  for (const Tagged& sentence : file.sentences) {
    tags.insert(tags.end(), sentence.tags.begin(), sentence.tags.end());
    set.labels = classes_in_order(std::move(tags));  // few: they do not grow with the file
    tags = set.labels;
  }
  std::erase(set.labels, kNotCounted);
  if (set.labels.size() < 2 && !source.only_tests(test))
    throw RunError(fmt::format("{}: its words have one label, there must be two", train));
  set.tells = Tells::kWords;
  set.metrics = usual_metrics(set.tells, set.labels);
  set.train = with_classes(std::move(file), set);
  if (!test.empty()) set.test = with_classes(read_tagged(test, {}, source), set);
}

}  // namespace lpmm
