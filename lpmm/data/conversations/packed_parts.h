// Packed documents to train on and to test on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lpmm/data/conversations/packing.h"

namespace lpmm {

struct PackedParts {
  PackedDocuments train, test;
  int length = 0, group = 1;
  TooLong too_long = TooLong::kCut;
  std::int64_t loading_bytes = 0;              // of memory, while it was packed
  std::optional<std::uint32_t> file_checksum;  // of parts that a file holds

  std::int64_t bytes() const { return train.bytes() + test.bytes(); }
  std::uint32_t checksum() const { return file_checksum ? *file_checksum : test.checksum(train.checksum(0)); }
};

// Returns which of `count` documents, or groups of them, are tested on: a share that is drawn once and for
// all.
std::vector<bool> drawn_share(std::int64_t count, double share);

// Throws UsageError where nothing is left to train on or to test on, if that was asked for.
void check_parts(const std::string& name, const PackedParts& parts, bool wants_train, bool wants_test);

// Tests are made on `own_test` or, without one, on a share of `train`, some groups of documents
// (drawn_share). Throws as check_parts() does.
PackedParts pack_parts(const std::string& name, std::vector<Document> train,
                       std::optional<std::vector<Document>> own_test, double share, int length,
                       TooLong too_long, int group = 1);

// What was packed, for people.
std::string summary_of(const std::string& name, const PackedParts& parts);

}  // namespace lpmm
