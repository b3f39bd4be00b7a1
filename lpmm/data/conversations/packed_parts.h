// Packed documents to train on and to test on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lpmm/data/conversations/packing.h"

namespace lpmm {

struct PackedParts {
  PackedDocuments train, test;
  int length = 0, group = 1;
  TooLong too_long = TooLong::kCut;
  std::int64_t loading_bytes = 0;  // of memory, while it was packed

  std::int64_t bytes() const { return train.bytes() + test.bytes(); }
  std::uint32_t checksum() const { return test.checksum(train.checksum(0)); }
};

// Tests are made on `test` or, where that is empty, on a share of `train`, some groups of documents that are
// drawn once and for all. Throws UsageError where nothing is left to train on or, if that was asked for, to
// test on.
PackedParts pack_parts(const std::string& name, std::vector<Document> train, std::vector<Document> test,
                       double share, int length, TooLong too_long, int group = 1);

// What was packed, for people.
std::string summary_of(const std::string& name, const PackedParts& parts);

}  // namespace lpmm
