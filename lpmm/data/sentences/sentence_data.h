// Sentences as batches of tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lpmm/data/batch.h"
#include "lpmm/data/sentences/length_batches.h"
#include "lpmm/data/sentences/sentence_sets.h"
#include "lpmm/data/tokenizer.h"

namespace lpmm {

// Each sentence or pair as its tokenizer puts it together, cut to the longest of `lengths`. The examples of a
// batch are filled up to the shortest of `lengths` that holds them all; LengthBatches says which they are.
class SentenceData : public DataSource {
 public:
  // `apart`: the sentences of a pair are two examples one after the other, for models that embed; there are
  // no answers then. Throws RunError for sentences without a token, UsageError for a tokenizer that puts
  // no sentences together: it is to be one of tokenizer.json or vocab.txt.
  SentenceData(const SentenceSet& set, const std::shared_ptr<const Tokenizer>& tokenizer,
               std::vector<int> lengths, bool apart = false);

  const std::string& name() const override { return name_; }
  const char* unit() const override {
    return is_apart_ ? "pairs" : tells_ == Tells::kWords ? "words" : "sentences";
  }
  std::int64_t train_examples() const override { return std::ssize(train_); }
  std::int64_t test_examples() const override { return std::ssize(test_); }
  std::int64_t labels() const override { return 1; }
  std::int64_t test_items() const override;
  // Scores by the set's metrics: a class by the largest logit, several classes by those above 0, and words by
  // the logits of the words that batches have labels for. Sentences apart: correlations of the cosines of the
  // two with the scores.
  Scores score(std::span<const float> outputs) const override;
  bool has_scores() const override { return !test_.empty(); }
  void make_batch(const BatchPlan& plan, std::int64_t epoch, std::int64_t index, int microbatch,
                  Batch& out) const override;
  void make_test_batch(std::int64_t first, std::int64_t count, Batch& out) const override;

  // The same with classes numbered otherwise: what was i becomes places[i], and is called as `names` says.
  SentenceData numbered(std::vector<std::string> names, const std::vector<std::int32_t>& places) const;
  const std::vector<std::string>& class_names() const { return class_names_; }
  // Throws UsageError where its tokens are of more kinds of sentences than the `known` ones of a model; 0: it
  // reads none.
  void check_types(int known) const;
  int classes() const { return classes_; }  // 1: a number, 0: there is nothing to tell
  Tells tells() const { return tells_; }
  // Returns how many words of a test example are classified: the first ones, but for those without a token.
  std::int64_t told_words(std::int64_t example) const;
  int longest() const;  // that batches are filled up to
  std::int64_t bytes() const { return bytes_; }
  std::int64_t loading_bytes() const { return loading_bytes_; }  // of memory, while it was read
  std::int64_t cut() const { return cut_; }  // the examples that were longer than the longest length
  std::uint32_t checksum() const;            // of the training examples and their answers

 private:
  struct Example {
    std::vector<std::int32_t> ids, types;
    std::int32_t label = 0;
    float score = 0;
    std::vector<std::int32_t> labels =
        {};  // the classes that it has, or that of each id, -1 where none is told
  };
  // Fills a batch with examples, and with the answers of the first `counted` ones.
  void fill(const std::vector<const Example*>& examples, std::int64_t counted, int length, Batch& out) const;
  void add_answers(const Example& example, std::size_t place, Batch& out) const;
  struct Answers;
  Answers answers(std::span<const float> outputs) const;

  std::string name_;
  std::vector<int> lengths_;
  Tells tells_;
  bool is_apart_;
  std::vector<std::string> class_names_;
  int classes_;
  std::vector<Metric> metrics_;
  std::vector<Example> train_, test_;
  std::int64_t bytes_ = 0, loading_bytes_ = 0, cut_ = 0;
  std::shared_ptr<const LengthBatches> batches_;
};

}  // namespace lpmm
