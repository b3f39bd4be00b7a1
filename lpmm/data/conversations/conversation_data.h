// Conversations, or other documents, for language models: packed into sequences in which they do not see each
// other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lpmm/data/conversations/packed_parts.h"
#include "lpmm/data/corpus/sequences.h"

namespace lpmm {

// An epoch has every sequence once, in an order drawn by (seed, epoch). Which documents share a sequence is
// always the same, so that an epoch has as many sequences as any other. Labels that count are counted over
// the whole step (Batch::step_labels).
class ConversationData : public Sequences {
 public:
  ConversationData(std::string name, PackedParts parts) : name_(std::move(name)), parts_(std::move(parts)) {}
  // Throws as pack_parts() does.
  ConversationData(const std::string& name, std::vector<Document> train,
                   std::optional<std::vector<Document>> test, double share, int length, TooLong too_long)
      : ConversationData(name, pack_parts(name, std::move(train), std::move(test), share, length, too_long)) {
  }

  const std::string& name() const override { return name_; }
  std::int64_t train_examples() const override { return train().sequences(); }
  std::int64_t test_examples() const override { return test().sequences(); }
  std::int64_t labels() const override { return parts_.length; }
  std::int64_t learnt_labels() const override { return train().counts().learnt; }
  std::int64_t test_items() const override { return test().counts().learnt; }
  void append(std::uint64_t seed, std::int64_t epoch, std::int64_t place, bool counts,
              Batch& out) const override;
  std::int64_t counted(std::uint64_t seed, std::int64_t epoch, std::int64_t place) const override;
  void append_test(std::int64_t sequence, Batch& out) const override { test().append(sequence, out); }

  const PackedDocuments& train() const { return parts_.train; }
  const PackedDocuments& test() const { return parts_.test; }
  std::int64_t bytes() const override { return parts_.bytes(); }
  std::int64_t loading_bytes() const override { return parts_.loading_bytes; }
  std::uint32_t checksum() const override { return parts_.checksum(); }
  // What was packed, for people.
  std::string summary() const { return summary_of(name_, parts_); }

 private:
  std::string name_;
  PackedParts parts_;
};

}  // namespace lpmm
