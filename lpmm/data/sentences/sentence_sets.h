// Sets of sentences, and of pairs of sentences, with what is to be told of each: a class or a number. Files
// are tab-separated, as the General Language Understanding Evaluation (Wang et al. 2019) has them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lpmm {

enum class Metric : std::uint8_t {
  kAccuracy,
  kMatthews,
  kF1,
  kPearson,
  kSpearman,
  kMicroF1,
  kExactMatch,
  kEntityF1
};
std::string_view to_string(Metric metric);

// The kind of answer that a model learns: one class of an example, a number, all of the classes that it has,
// or a class of each of its words.
enum class Tells : std::uint8_t { kClass, kNumber, kClasses, kWords };

// One line. Where the set has no pairs, there is no second sentence.
inline constexpr std::int32_t kNotTold = -1;  // in place of a word's class: it does not count

struct SentenceExample {
  std::string first, second;
  std::int32_t label = 0;
  float score = 0;
  std::int64_t line = 0;                  // of the file, from 1, for messages
  std::vector<std::int32_t> labels = {};  // the classes that it has, each once; or those of its words
  std::vector<std::string> words = {};    // in place of a sentence
};

struct SentenceSet {
  std::string name = {};
  bool has_pairs = false;
  Tells tells = Tells::kClass;
  std::vector<std::string> labels = {};  // of classes, in their order
  std::vector<Metric> metrics = {};      // the first is what the task is scored by
  std::vector<SentenceExample> train = {}, test = {};
  std::int64_t bytes() const;  // of all examples
  bool is_number() const { return tells == Tells::kNumber; }
  // Returns the class of a label; where it is none, calls `refuse`, which throws, with the reason.
  std::int32_t class_of(const std::string& label,
                        const std::function<void(std::string_view why)>& refuse) const;
  // Turns a set whose examples have one class each into one whose examples may have several.
  void tell_several();
};

// The metrics of own data with such classes, the one that scores it first.
std::vector<Metric> usual_metrics(Tells tells, const std::vector<std::string>& labels);

// A public set. Its files lie in `folder` below data_folder(), each as it is or as .gz.
struct NamedSentences {
  std::string_view name, folder;
};
const std::vector<NamedSentences>& named_sentence_sets();
// The class names of a named set, in order; empty for other sets and for sets of numbers.
std::vector<std::string> class_names_of(std::string_view set);

// The set that data.path names (own_sentences.h).
inline constexpr std::string_view kSentencesByPath = "sentences";

// The part that a run is tested on: the development set, or the test set if that has answers.
inline constexpr std::string_view kDevelopmentFile = "dev", kTestFile = "test";
// The usual names of files of the development set.
inline constexpr std::string_view kDevelopmentNames[] = {kDevelopmentFile, "validation", "valid", "val"};

// The keys of [data] that say which sentences to load.
struct SentenceSource {
  std::string set;                          // a name, or kSentencesByPath
  std::string path = {};                    // from here or from data_folder(); empty: the named set's own
  std::string test_file{kDevelopmentFile};  // or kTestFile
  std::string test_path = {};               // own sentences: the file to test on, in place of both
  // Own sentences: "TEXT,ANSWER" or "FIRST,SECOND,ANSWER"; an answer A+B+C is of columns with 1 or 0.
  std::string columns = {};
  double validation_share = 0.1;  // own sentences: drawn for tests where there is no file for them
  std::string between = {};       // own sentences: what stands between several labels; empty: one
  bool skips_broken = false;      // own sentences: leaves out rows that cannot be read, and says so
  // Returns true if all of one file is for tests, of a model that has the classes.
  bool only_tests(const std::string& test) const { return validation_share == 1 && test.empty(); }
};

// Without a path kSentencesByPath is a set of nothing, for models that only embed. Throws RunError naming
// file and line: files that are missing, lines without a sentence or an answer, answers that no line of the
// training file has.
SentenceSet load_sentences(const SentenceSource& source);

}  // namespace lpmm
