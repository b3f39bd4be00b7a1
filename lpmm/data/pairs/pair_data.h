// Parallel text as batches of tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lpmm/data/batch.h"
#include "lpmm/data/pairs/pair_sets.h"
#include "lpmm/data/sentences/length_batches.h"
#include "lpmm/data/tokenizer.h"

namespace lpmm {

// The tokens that a translation is begun with, and that both sides end with.
struct PairEnds {
  std::int32_t start = 0, end = 0;
};

// A source is its tokens and the end; a target is read from the start on and told up to the end. Both sides
// of a batch are filled up to the shortest of `lengths` that holds them all, which LengthBatches chooses;
// what is filled up has the label -1.
class PairData : public DataSource {
 public:
  // Throws RunError naming file and line of a sentence longer than the longest of `lengths`.
  PairData(const PairSet& set, const Tokenizer& tokenizer, const PairEnds& ends, std::vector<int> lengths);

  const std::string& name() const override { return name_; }
  const char* unit() const override { return "sentences"; }
  std::int64_t train_examples() const override { return std::ssize(train_); }
  std::int64_t test_examples() const override { return std::ssize(test_); }
  std::int64_t labels() const override { return 1; }  // as its unit counts; the loss is of their tokens
  void make_batch(const BatchPlan& plan, std::int64_t epoch, std::int64_t index, int microbatch,
                  Batch& out) const override;
  void make_test_batch(std::int64_t first, std::int64_t count, Batch& out) const override;

  const std::vector<std::string>& test_sources() const { return test_sources_; }
  const std::vector<std::string>& test_targets() const { return test_targets_; }
  std::vector<int> test_source_lengths() const;  // in tokens, with their ends
  int longest() const;                           // that batches are filled up to
  std::int64_t bytes() const { return bytes_; }
  std::int64_t loading_bytes() const { return loading_bytes_; }  // of memory, while it was read
  std::uint32_t checksum() const;                                // of the training examples

 private:
  struct Example {
    std::vector<std::int32_t> source, target;  // both with their ends
  };
  int length_of(const Example& e) const;
  void read(const PairSet::Part& from, const Tokenizer& tokenizer, std::vector<Example>& to);
  void fill(const std::vector<const Example*>& examples, int length, Batch& out) const;

  std::string name_;
  PairEnds ends_;
  std::vector<int> lengths_;
  std::vector<Example> train_, test_;
  std::vector<std::string> test_sources_, test_targets_;
  std::int64_t bytes_ = 0, loading_bytes_ = 0;
  std::optional<LengthBatches> batches_;
};

}  // namespace lpmm
