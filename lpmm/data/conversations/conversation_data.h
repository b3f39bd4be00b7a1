// Conversations, or other documents, for language models: packed into sequences in which they do not see each
// other.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lpmm/data/conversations/packing.h"
#include "lpmm/data/corpus/sequences.h"

namespace lpmm {

// Which of so many documents are tested on: a share of them, drawn once and for all.
std::vector<bool> drawn_share(std::int64_t count, double share);

// An epoch has every sequence once, in an order drawn by (seed, epoch). Which documents share a sequence is
// always the same, so that an epoch has as many sequences as any other. Labels that count are counted over
// the whole step (Batch::step_labels).
class ConversationData : public Sequences {
 public:
  // Tests are made on `test` or, where that is empty, on a share of `train`, some documents that are drawn
  // once and for all. Throws UsageError where nothing is left to train on or, if that was asked for, to test
  // on.
  ConversationData(std::string name, std::vector<Document> train, std::vector<Document> test, double share,
                   int length, TooLong too_long);

  // The same of a file, which says the checksum.
  ConversationData(std::string name, PackedDocuments train, PackedDocuments test, int length,
                   TooLong too_long, std::uint32_t checksum);

  const std::string& name() const override { return name_; }
  std::int64_t train_examples() const override { return train_.sequences(); }
  std::int64_t test_examples() const override { return test_.sequences(); }
  std::int64_t labels() const override { return length_; }
  std::int64_t learnt_labels() const override { return train_.counts().learnt; }
  std::int64_t test_items() const override { return test_.counts().learnt; }
  void append(std::uint64_t seed, std::int64_t epoch, std::int64_t place, bool counts,
              Batch& out) const override;
  std::int64_t counted(std::uint64_t seed, std::int64_t epoch, std::int64_t place) const override;
  void append_test(std::int64_t sequence, Batch& out) const override { test_.append(sequence, out); }

  const PackedDocuments& train() const { return train_; }
  const PackedDocuments& test() const { return test_; }
  std::int64_t bytes() const override { return train_.bytes() + test_.bytes(); }
  std::int64_t loading_bytes() const override { return loading_bytes_; }
  std::uint32_t checksum() const override {
    return checksum_ ? *checksum_ : test_.checksum(train_.checksum(0));
  }
  // What was read and packed, for people.
  std::string summary() const;

 private:
  void check(bool wants_train, bool wants_test) const;

  std::string name_;
  int length_;
  TooLong too_long_;
  PackedDocuments train_, test_;
  std::int64_t loading_bytes_ = 0;
  std::optional<std::uint32_t> checksum_;
};

}  // namespace lpmm
