// Packed documents in a file of the data folder, made once.
//   byte  0  "lpmmdoc\n", u32 version, u32 bytes of the description
//   byte 16  the description, JSON: what it was made of, counts, the checksum
// and, each at the next multiple of 64: ids of all pieces (i32, marked_id); then of what is trained on, and
// of what is tested on, pieces (PackedPiece), the first piece of each sequence and one past the last (i64),
// and learnt labels of each sequence (i32). Little-endian.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "lpmm/data/conversations/packed_parts.h"

namespace lpmm {

// What to pack: `read` hands over the documents to train on and, where `has_test`, those to test on behind
// them; else a share of them is tested on.
struct DocumentsToKeep {
  std::string key;  // of what they are made (kept_key)
  std::int64_t vocabulary = 0;
  int length = 0;
  TooLong too_long = TooLong::kCut;
  double share = 0;
  bool has_test = false;
  std::function<void(const std::function<void(const Document&)>& take, bool is_test)> read;
};

// From that file, which is made where it is not there. While it is made, memory grows by 30 to 60 bytes per
// document, not by its tokens. Throws what `read` throws, and RunError where the file cannot be written.
PackedParts kept_documents(const DocumentsToKeep& what);

}  // namespace lpmm
