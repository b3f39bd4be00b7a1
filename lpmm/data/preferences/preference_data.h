// Pairs of answers for language models, packed into sequences: both answers of a pair, each behind the
// prompt, are documents of one sequence.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lpmm/data/batch.h"
#include "lpmm/data/conversations/packed_parts.h"

namespace lpmm {

// Epochs are as those of ConversationData. The loss and step_labels of a batch are of pairs. A reference is
// the difference of the log-probabilities of the two answers of each pair.
class PreferenceData : public ReferredData {
 public:
  // `parts` are of pairs: groups of two documents, first that with the chosen answer. `key`: what their
  // tokens were made by, names and values.
  PreferenceData(std::string name, PackedParts parts, std::map<std::string, std::string> key)
      : name_(std::move(name)),
        parts_(std::make_shared<const PackedParts>(std::move(parts))),
        key_(std::move(key)) {}

  const std::string& name() const override { return name_; }
  const char* unit() const override { return "tokens"; }
  const char* test_unit() const override { return "pairs"; }
  std::int64_t train_examples() const override { return parts_->train.sequences(); }
  std::int64_t test_examples() const override { return parts_->test.sequences(); }
  std::int64_t labels() const override { return parts_->length; }
  std::int64_t test_items() const override { return pairs(parts_->test); }
  void make_batch(const BatchPlan& plan, std::int64_t epoch, std::int64_t index, int microbatch,
                  Batch& out) const override;
  void make_test_batch(std::int64_t first, std::int64_t count, Batch& out) const override;

  std::int64_t all_examples() const override { return train_examples() + test_examples(); }
  std::int64_t reference_size() const override { return pairs(parts_->train) + pairs(parts_->test); }
  void make_reference_batch(std::int64_t first, std::int64_t count, Batch& out) const override;
  std::map<std::string, std::string> reference_key() const override;
  std::shared_ptr<const DataSource> with_reference(std::vector<float> numbers) const override;

  const PackedParts& parts() const { return *parts_; }
  // The memory that it takes, with the reference.
  std::int64_t bytes() const {
    return parts_->bytes() + reference_size() * static_cast<std::int64_t>(sizeof(float));
  }

 private:
  static std::int64_t pairs(const PackedDocuments& part) { return part.documents() / 2; }
  // Adds a sequence with its pairs, whose numbers in the reference begin at `first`.
  void append(const PackedDocuments& part, std::int64_t sequence, std::int64_t first, Batch& out,
              bool counts = true) const;

  std::string name_;
  std::shared_ptr<const PackedParts> parts_;
  std::map<std::string, std::string> key_;
  std::vector<float> reference_;  // empty: all are 0
};

}  // namespace lpmm
