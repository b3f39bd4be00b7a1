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

// The set that data.path names (own_sentences.h).
inline constexpr std::string_view kSentencesByPath = "sentences";

// Which part a run is tested on: the development set, or the test set where it has answers.
inline constexpr std::string_view kDevelopmentFile = "dev", kTestFile = "test";
// What files of the development set are called.
inline constexpr std::string_view kDevelopmentNames[] = {kDevelopmentFile, "validation", "valid", "val"};

// What says which sentences to load: keys of [data].
struct SentenceSource {
  std::string set;                          // a name, or kSentencesByPath
  std::string path = {};                    // from here or from data_folder(); empty: the named set's own
  std::string test_file{kDevelopmentFile};  // or kTestFile
  std::string test_path = {};               // own sentences: the file to test on, in place of both
  std::string columns = {};                 // own sentences: "TEXT,ANSWER" or "FIRST,SECOND,ANSWER"
  double validation_share = 0.1;            // own sentences: drawn for tests where there is no file for them
};

// Without a path kSentencesByPath is a set of nothing, for models that only embed. Throws RunError naming
// file and line: files that are missing, lines without a sentence or an answer, answers that no line of the
// training file has.
SentenceSet load_sentences(const SentenceSource& source);

}  // namespace lpmm
