#include "lpmm/data/sentences/sentence_sets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>

#include "lpmm/base/error.h"
#include "lpmm/data/images.h"
#include "lpmm/data/scores.h"
#include "lpmm/data/sentences/metrics.h"
#include "lpmm/data/sentences/own_sentences.h"
#include "lpmm/data/table.h"
#include "lpmm/data/utf8.h"
#include "lpmm/files/gz_file.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

// The place of a column: by its name in the first line, or, in files without one, by its number from 0.
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

// The table of a part of a set that somebody published.
Table read_part(const fs::path& folder, const Layout& layout) {
  const std::string path = find_plain_or_gz((folder / layout.file).string() + ".tsv");
  if (path.empty()) {
    throw RunError(fmt::format("{0}: has no {1}.tsv, nor {1}.tsv.gz; `lpmm data get` downloads public sets",
                               folder.string(), layout.file));
  }
  return read_plain_tsv(path, layout.has_names);
}

int place_of(const Table& table, const Column& column) {
  const int place = column.name.empty() ? column.place : table.place_of(column.name);
  if (place >= 0) return place;
  throw RunError(fmt::format("{}: its first line has no column \"{}\", but {}", table.path, column.name,
                             shown(fmt::format("{}", fmt::join(table.names, ", ")))));
}

SentenceColumns columns_of(const Table& table, const Layout& layout) {
  const bool has_second = !layout.second.name.empty() || layout.second.place >= 0;
  return {place_of(table, layout.first), has_second ? place_of(table, layout.second) : -1,
          place_of(table, layout.answer)};
}

fs::path folder_at(const std::string& path, const char* hint) {
  std::error_code error;
  if (const std::string found = find_data(path); fs::is_directory(found, error)) return found;
  throw RunError(fmt::format(
      "{}: there is no such folder of sentences, neither here nor in the folder that LPMM_DATA names{}", path,
      hint));
}

}  // namespace

std::string_view to_string(Metric metric) {
  return kScores[static_cast<std::size_t>(metric)].name;
}

std::int64_t SentenceSet::bytes() const {
  std::size_t all = 0;
  for (const auto* examples : {&train, &test}) {
    for (const SentenceExample& e : *examples) {
      all +=
          sizeof(e) + e.first.capacity() + e.second.capacity() + sizeof(std::int32_t) * e.labels.capacity();
      for (const std::string& word : e.words) all += sizeof(std::string) + word.capacity();
    }
  }
  return static_cast<std::int64_t>(all);
}

std::int32_t SentenceSet::class_of(const std::string& label,
                                   const std::function<void(std::string_view why)>& refuse) const {
  const auto at = std::ranges::find(labels, label);
  if (at == labels.end()) {
    constexpr std::size_t kShown = 20;
    const auto some = std::span(labels).first(std::min(kShown, labels.size()));
    refuse(fmt::format("has the label \"{}\", which is none of {}{}", label, fmt::join(some, ", "),
                       labels.size() > kShown ? ", ..." : ""));
  }
  return static_cast<std::int32_t>(at - labels.begin());
}

std::vector<Metric> usual_metrics(Tells tells, const std::vector<std::string>& labels) {
  if (tells == Tells::kNumber) return {Metric::kSpearman, Metric::kPearson};
  if (tells == Tells::kClasses) return {Metric::kMicroF1, Metric::kExactMatch};
  if (tells == Tells::kWords && mark_entities(labels)) return {Metric::kEntityF1, Metric::kAccuracy};
  if (tells == Tells::kClass && labels.size() == 2)
    return {Metric::kAccuracy, Metric::kF1, Metric::kMatthews};
  return {Metric::kAccuracy};
}

void SentenceSet::tell_several() {
  tells = Tells::kClasses;
  metrics = usual_metrics(tells, labels);
  for (auto* examples : {&train, &test}) {
    for (SentenceExample& e : *examples) e.labels = {e.label};
  }
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

SentenceSet load_sentences(const SentenceSource& source) {
  const std::string &set = source.set, &path = source.path;
  if (set == kSentencesByPath) {
    return path.empty() ? SentenceSet{.name = set} : load_own_sentences(source);
  }
  const auto task =
      std::ranges::find_if(set_rows(), [&](const SentenceSetRow& t) { return t.set.name == set; });
  if (task == set_rows().end()) {
    std::string known(kSentencesByPath);
    for (const SentenceSetRow& t : set_rows()) known += fmt::format(", {}", t.set.name);
    throw UsageError(fmt::format("no set of sentences is called {}: there are {}", set, known));
  }
  if (!source.test_path.empty() || !source.columns.empty()) {
    throw UsageError(fmt::format("data.{} is for sentences of your own (data.set = {}), but data.set is {}",
                                 source.test_path.empty() ? "columns" : "test_path", kSentencesByPath, set));
  }
  const bool is_test = source.test_file == kTestFile;
  if (is_test && !task->test) {
    throw UsageError(fmt::format("data.test_file = test: the answers of {}'s test set are not public", set));
  }
  SentenceSet out;
  out.name = set;
  out.tells = task->is_number ? Tells::kNumber : Tells::kClass;
  out.labels = task->labels;
  out.metrics = task->metrics;
  out.has_pairs = !task->train.second.name.empty();
  const fs::path folder =
      path.empty() ? folder_at(std::string(task->set.folder), "; `lpmm data get` downloads public sets")
                   : folder_at(path, "");
  const Layout& test = is_test ? *task->test : task->dev;
  for (const auto& [layout, examples] : {std::pair{&task->train, &out.train}, {&test, &out.test}}) {
    Table table = read_part(folder, *layout);
    *examples = read_examples(table, columns_of(table, *layout), out);
  }
  return out;
}

}  // namespace lpmm
