// Sets of sentences, and of pairs of sentences, with what is to be told of each: a class or a number. Files
// are tab-separated, as the General Language Understanding Evaluation (Wang et al. 2019) has them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lpmm {

enum class Metric : std::uint8_t { kAccuracy, kMatthews, kF1, kPearson, kSpearman };
std::string_view to_string(Metric metric);

// One line. Where the set has no pairs, there is no second sentence. The answer is a class, or a number.
struct SentenceExample {
  std::string first, second;
  std::int32_t label = 0;
  float score = 0;
  std::int64_t line = 0;  // of the file, from 1, for messages
};

struct SentenceSet {
  std::string name = {};
  bool has_pairs = false, is_number = false;
  std::vector<std::string> labels = {};  // of classes, in their order
  std::vector<Metric> metrics = {};      // the first is what the task is scored by
  std::vector<SentenceExample> train = {}, test = {};
  std::int64_t bytes() const;  // of all examples
};

// A public set. Its files lie in `folder` below data_folder(), each as it is or as .gz.
struct NamedSentences {
  std::string_view name, folder;
};
const std::vector<NamedSentences>& named_sentence_sets();
// The class names of a named set, in order; empty for other sets and for sets of numbers.
std::vector<std::string> class_names_of(std::string_view set);

// The set that data.path names, in files that say what they hold: train.tsv and dev.tsv begin with a line of
// names, `sentence` or `sentence1` and `sentence2`, and `label` or `score`. It is scored by all that fits:
// accuracy, of two classes F1 of the one whose name comes last and MCC besides; of scores Spearman and
// Pearson.
inline constexpr std::string_view kSentencesByPath = "sentences";

// Which file a run is tested on: dev.tsv, or test.tsv where it has answers.
inline constexpr std::string_view kDevelopmentFile = "dev", kTestFile = "test";

// `path` leads to the folder of the set, from here or from data_folder(); empty: the named set's own. Without
// a path kSentencesByPath is a set of nothing, for models that only embed. Throws RunError naming file and
// line: files that are missing, lines without a sentence or an answer, answers that no line of train.tsv has.
SentenceSet load_sentences(const std::string& set, const std::string& path, std::string_view test_file);

}  // namespace lpmm
