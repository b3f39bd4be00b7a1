// Conversations, or other documents, for language models: packed into sequences in which they do not see each
// other.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lpmm/data/batch.h"
#include "lpmm/data/conversations/packed_parts.h"

namespace lpmm {

// An epoch has every sequence once, in an order drawn by (seed, epoch). Which documents share a sequence is
// always the same, so that an epoch has as many sequences as any other. Labels that count are counted over
// the whole step (Batch::step_labels).
class ConversationData : public DataSource {
 public:
  // Throws as pack_parts() does.
  ConversationData(std::string name, std::vector<Document> train, std::vector<Document> test, double share,
                   int length, TooLong too_long)
      : name_(std::move(name)),
        parts_(pack_parts(name_, std::move(train), std::move(test), share, length, too_long)) {}

  const std::string& name() const override { return name_; }
  const char* unit() const override { return "tokens"; }
  std::int64_t train_examples() const override { return parts_.train.sequences(); }
  std::int64_t test_examples() const override { return parts_.test.sequences(); }
  std::int64_t labels() const override { return parts_.length; }
  std::int64_t learnt_labels() const override { return parts_.train.counts().learnt; }
  std::int64_t test_items() const override { return parts_.test.counts().learnt; }
  void make_batch(const BatchPlan& plan, std::int64_t epoch, std::int64_t index, int microbatch,
                  Batch& out) const override;
  void make_test_batch(std::int64_t first, std::int64_t count, Batch& out) const override;

  const PackedDocuments& train() const { return parts_.train; }
  const PackedDocuments& test() const { return parts_.test; }
  std::int64_t bytes() const { return parts_.bytes(); }
  std::int64_t loading_bytes() const { return parts_.loading_bytes; }
  std::uint32_t checksum() const { return parts_.checksum(); }
  std::string summary() const { return summary_of(name_, parts_); }

 private:
  std::string name_;
  PackedParts parts_;
};

}  // namespace lpmm
