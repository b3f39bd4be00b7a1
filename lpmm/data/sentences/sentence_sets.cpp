#include "lpmm/data/sentences/sentence_sets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <span>

#include "lpmm/base/error.h"
#include "lpmm/data/images.h"
#include "lpmm/data/scores.h"
#include "lpmm/data/utf8.h"
#include "lpmm/files/gz_file.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMostClasses = 65536;

// Where in a line something is: under a name of the first line, or at a place, from 0, of files without one.
struct Column {
  std::string_view name = {};
  int place = -1;
};
struct Layout {
  std::string_view file;  // without .tsv
  bool has_names = true;
  Column first, second = {}, answer;
};
struct SentenceSetRow {
  NamedSentences set;
  bool is_number;
  std::vector<std::string> labels;
  std::vector<Metric> metrics;
  Layout train, dev;
  std::optional<Layout> test = {};  // with its answers
};

Layout named(std::string_view file, std::string_view first, std::string_view second,
             std::string_view answer) {
  return {file, true, {first}, {second}, {answer}};
}

const std::vector<SentenceSetRow>& set_rows() {
  constexpr Column kColaSentence{{}, 3}, kColaLabel{{}, 1};
  static const std::vector<SentenceSetRow> kRows = {
      {{"sst2", "glue/SST-2"},
       false,
       {"0", "1"},
       {Metric::kAccuracy},
       named("train", "sentence", "", "label"),
       named("dev", "sentence", "", "label")},
      {{"cola", "glue/CoLA"},
       false,
       {"0", "1"},
       {Metric::kMatthews},
       {"train", false, kColaSentence, {}, kColaLabel},
       {"dev", false, kColaSentence, {}, kColaLabel}},
      {{"mrpc", "glue/MRPC"},
       false,
       {"0", "1"},
       {Metric::kF1, Metric::kAccuracy},
       named("train", "#1 String", "#2 String", "Quality"),
       named("dev", "#1 String", "#2 String", "Quality"),
       named("test_labelled", "#1 String", "#2 String", "Quality")},
      {{"rte", "glue/RTE"},
       false,
       {"entailment", "not_entailment"},
       {Metric::kAccuracy},
       named("train", "sentence1", "sentence2", "label"),
       named("dev", "sentence1", "sentence2", "label")},
      {{"stsb", "glue/STS-B"},
       true,
       {},
       {Metric::kSpearman, Metric::kPearson},
       named("train", "sentence1", "sentence2", "score"),
       named("dev", "sentence1", "sentence2", "score"),
       Layout{"test_labelled", false, {{}, 5}, {{}, 6}, {{}, 4}}}};
  return kRows;
}

// All of NAME.tsv in a folder, which may be compressed. Throws where it is not there.
std::string read_tsv(const fs::path& folder, std::string_view name, std::string& path) {
  path = find_plain_or_gz((folder / name).string() + ".tsv");
  if (path.empty()) {
    std::error_code none;
    const std::string own = (folder / name).string();
    throw RunError(fmt::format(
        "{0}: has no {1}.tsv, nor {1}.tsv.gz, whose first line names columns with tabs between them: "
        "sentence and "
        "label, for one{2}",
        folder.string(), name,
        fs::exists(own + ".csv", none)
            ? fmt::format(
                  "; make it: python3 -c \"import csv, sys; [print(*(' '.join(c.split()) for c in r), "
                  "sep='\\t') for r in csv.reader(sys.stdin)]\" < {0}.csv > {0}.tsv",
                  own)
            : ""));
  }
  return read_plain_or_gz(path);
}

std::vector<std::string_view> split(std::string_view text, char between) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0;;) {
    const std::size_t end = text.find(between, at);
    parts.push_back(text.substr(at, end == std::string_view::npos ? end : end - at));
    if (end == std::string_view::npos) return parts;
    at = end + 1;
  }
}

std::string_view without_ends(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return text;
}

// The place of a column in lines that begin with these names; -1: there is none.
int place_of(const Column& column, std::span<const std::string_view> names) {
  if (column.name.empty()) return column.place;
  const auto at = std::find(names.begin(), names.end(), column.name);
  return at == names.end() ? -1 : static_cast<int>(at - names.begin());
}

class TsvFile {
 public:
  TsvFile(const fs::path& folder, std::string_view name) : text_(read_tsv(folder, name, path_)) {
    if (text_.find_first_not_of(" \r\n") == std::string::npos)
      throw RunError(fmt::format("{}: is empty", path_));
    lines_ = split(text_, '\n');
    if (without_ends(lines_.back()).empty()) lines_.pop_back();
  }
  std::vector<std::string_view> names() const {
    std::vector<std::string_view> names;
    for (const std::string_view name : split(lines_.front(), '\t')) names.push_back(without_ends(name));
    return names;
  }
  // Adds its lines to a set whose labels are known; `adds_labels`: those that are new belong to it too.
  std::vector<SentenceExample> read(const Layout& layout, SentenceSet& set, bool adds_labels) const {
    const std::vector<std::string_view> heading =
        layout.has_names ? names() : std::vector<std::string_view>{};
    const int first = expect(layout.first, heading), answer = expect(layout.answer, heading);
    const bool has_second = !layout.second.name.empty() || layout.second.place >= 0;
    const int second = has_second ? expect(layout.second, heading) : -1;
    const int most = std::max({first, second, answer});
    std::vector<SentenceExample> examples;
    for (std::size_t i = layout.has_names ? 1 : 0; i < lines_.size(); ++i) {
      if (const std::size_t bad = first_bad_byte(lines_[i]); bad != std::string_view::npos) {
        refuse(i, fmt::format("is not UTF-8 from byte {} on: save the file as UTF-8", bad));
      }
      const std::vector<std::string_view> parts = split(lines_[i], '\t');
      if (std::ssize(parts) <= most)
        refuse(i, fmt::format("has {} columns, {} are expected", parts.size(), most + 1));
      const auto part = [&](int place) { return without_ends(parts[static_cast<std::size_t>(place)]); };
      SentenceExample e;
      e.line = static_cast<std::int64_t>(i) + 1;
      e.first = part(first);
      if (has_second) e.second = part(second);
      if (e.first.empty() || (has_second && e.second.empty())) refuse(i, "has an empty sentence");
      set.is_number ? read_score(part(answer), i, e) : read_label(part(answer), i, adds_labels, set, e);
      examples.push_back(std::move(e));
    }
    if (examples.empty()) throw RunError(fmt::format("{}: holds no sentence", path_));
    return examples;
  }

 private:
  [[noreturn]] void refuse(std::size_t line, const std::string& why) const {
    throw RunError(fmt::format("{}: line {} {}", path_, line + 1, why));
  }
  int expect(const Column& column, std::span<const std::string_view> heading) const {
    const int place = place_of(column, heading);
    if (place < 0) {
      throw RunError(
          fmt::format("{}: its first line has no column \"{}\", but {}; name sentences \"sentence\", or "
                      "\"sentence1\" and \"sentence2\", and what to tell \"label\" or \"score\"",
                      path_, column.name, shown(fmt::format("{}", fmt::join(heading, ", ")))));
    }
    return place;
  }
  void read_score(std::string_view text, std::size_t line, SentenceExample& e) const {
    const std::string number(text);
    char* end = nullptr;
    e.score = std::strtof(number.c_str(), &end);
    if (number.empty() || *end != '\0' || !std::isfinite(e.score)) {
      refuse(line, fmt::format("has the score \"{}\", which is no number", number));
    }
  }
  void read_label(std::string_view text, std::size_t line, bool adds, SentenceSet& set,
                  SentenceExample& e) const {
    auto at = std::find(set.labels.begin(), set.labels.end(), text);
    if (at == set.labels.end()) {
      if (!adds || text.empty() || set.labels.size() == kMostClasses) {
        constexpr std::size_t kShown = 20;
        const auto shown = std::span(set.labels).first(std::min(kShown, set.labels.size()));
        refuse(line, fmt::format("has the label \"{}\", which is none of {}{}", text, fmt::join(shown, ", "),
                                 set.labels.size() > kShown ? ", ..." : ""));
      }
      at = set.labels.emplace(at, text);
    }
    e.label = static_cast<std::int32_t>(at - set.labels.begin());
  }

  std::string path_, text_;
  std::vector<std::string_view> lines_;
};

fs::path folder_at(const std::string& path, const char* hint) {
  std::error_code error;
  if (const std::string found = find_data(path); fs::is_directory(found, error)) return found;
  throw RunError(fmt::format(
      "{}: there is no such folder of sentences, neither here nor in the folder that LPMM_DATA names{}", path,
      hint));
}

// The metrics of a set whose publisher names none: all that fit its answers.
std::vector<Metric> fitting_metrics(const SentenceSet& set) {
  if (set.is_number) return {Metric::kSpearman, Metric::kPearson};
  if (set.labels.size() == 2) return {Metric::kAccuracy, Metric::kF1, Metric::kMatthews};
  return {Metric::kAccuracy};
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
  if (!are_numbered) return names;
  std::ranges::stable_sort(names, {},
                           [&](const std::string& n) { return std::stoll(n.substr(digits_at(n))); });
  return names;
}

// A set that says what it holds.
SentenceSet load_own(const std::string& path, std::string_view test_file) {
  SentenceSet set;
  set.name = path;
  const fs::path folder = folder_at(path, "");
  const TsvFile train(folder, "train"), test(folder, test_file);
  const std::vector<std::string_view> names = train.names();
  const auto has = [&](std::string_view name) { return std::ranges::find(names, name) != names.end(); };
  set.has_pairs = has("sentence2");
  set.is_number = !has("label") && has("score");
  Layout layout = named("", set.has_pairs ? "sentence1" : "sentence", set.has_pairs ? "sentence2" : "",
                        set.is_number ? "score" : "label");
  set.train = train.read(layout, set, true);
  // Classes in the order of their names, whatever the order of the lines.
  const std::vector<std::string> sorted = in_order(set.labels);
  std::map<std::string_view, std::int32_t> place;
  for (const std::string& name : sorted) place.emplace(name, static_cast<std::int32_t>(place.size()));
  for (SentenceExample& e : set.train) {
    if (set.is_number) break;
    const std::string& label = set.labels[static_cast<std::size_t>(e.label)];
    e.label = place.at(label);
  }
  set.labels = sorted;
  if (!set.is_number && set.labels.size() < 2) {
    throw RunError(fmt::format("{}: its lines have one label, there must be two", path));
  }
  set.metrics = fitting_metrics(set);
  set.test = test.read(layout, set, false);
  return set;
}

}  // namespace

std::string_view to_string(Metric metric) {
  return kScores[static_cast<std::size_t>(metric)].name;
}

std::int64_t SentenceSet::bytes() const {
  std::size_t all = 0;
  for (const auto* examples : {&train, &test}) {
    for (const SentenceExample& e : *examples) all += sizeof(e) + e.first.capacity() + e.second.capacity();
  }
  return static_cast<std::int64_t>(all);
}

const std::vector<NamedSentences>& named_sentence_sets() {
  static const std::vector<NamedSentences> kSets = [] {
    std::vector<NamedSentences> sets;
    for (const SentenceSetRow& task : set_rows()) sets.push_back(task.set);
    return sets;
  }();
  return kSets;
}

std::vector<std::string> class_names_of(std::string_view set) {
  const auto task =
      std::ranges::find_if(set_rows(), [&](const SentenceSetRow& t) { return t.set.name == set; });
  return task == set_rows().end() ? std::vector<std::string>() : task->labels;
}

SentenceSet load_sentences(const std::string& set, const std::string& path, std::string_view test_file) {
  if (set == kSentencesByPath) return path.empty() ? SentenceSet{.name = set} : load_own(path, test_file);
  const auto task =
      std::ranges::find_if(set_rows(), [&](const SentenceSetRow& t) { return t.set.name == set; });
  if (task == set_rows().end()) {
    std::string known(kSentencesByPath);
    for (const SentenceSetRow& t : set_rows()) known += fmt::format(", {}", t.set.name);
    throw UsageError(fmt::format("no set of sentences is called {}: there are {}", set, known));
  }
  const bool is_test = test_file == kTestFile;
  if (is_test && !task->test) {
    throw UsageError(fmt::format("data.test_file = test: the answers of {}'s test set are not public", set));
  }
  SentenceSet out;
  out.name = set;
  out.is_number = task->is_number;
  out.labels = task->labels;
  out.metrics = task->metrics;
  out.has_pairs = !task->train.second.name.empty();
  const fs::path folder =
      path.empty() ? folder_at(std::string(task->set.folder), "; `lpmm data get` downloads public sets")
                   : folder_at(path, "");
  const Layout& test = is_test ? *task->test : task->dev;
  out.train = TsvFile(folder, task->train.file).read(task->train, out, false);
  out.test = TsvFile(folder, test.file).read(test, out, false);
  return out;
}

}  // namespace lpmm
