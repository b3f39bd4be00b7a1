// Documents packed into sequences of equal length.
//
// A sequence has `length` slots. A slot holds a token and, as its label, the one after it, so that a document
// of n tokens takes n - 1. What is left of a sequence is filled with tokens 0 that form a document of their
// own and have no label.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lpmm/data/batch.h"
#include "lpmm/data/conversations/conversations.h"
#include "lpmm/files/mapped_file.h"

namespace lpmm {

// What becomes of a document that is longer than a sequence.
enum class TooLong : std::uint8_t {
  kCut,   // its end is left out
  kDrop,  // all of it is
  kSplit  // it goes on in another sequence, which sees nothing of the part before
};
// Throws std::logic_error for another word than cut, drop and split.
TooLong too_long_of(std::string_view word);

struct PackingCounts {
  std::int64_t documents = 0;  // that were given
  std::int64_t too_long = 0;   // of them, or of their groups
  std::int64_t unlearnt = 0;   // the same, left out, as none of their tokens (within the length) is learnt
  std::int64_t slots = 0;      // with a token
  std::int64_t learnt = 0;     // whose label counts
};

// Which pieces share a sequence, by first fit, decreasing: Johnson 1973. Pieces of 1 to `length` slots are
// taken in an order that is drawn once and for all, kWindow at a time; of those the longest comes first, into
// the first sequence of the window that has room. A pure function of its arguments.
inline constexpr std::int64_t kPackingWindow = 8192;
std::vector<std::vector<std::int32_t>> pack(std::span<const std::int32_t> slots, int length);

// A run of neighbouring tokens of one document in a sequence.
struct PackedPiece {
  std::int64_t first = 0;  // of its tokens among all; it has slots + 1, the last one a label alone
  std::int32_t slots = 0;
  std::int32_t learnt = 0;  // labels that count
};

// Cuts documents that stay together, one or several: calls `take` with the first token of each piece, its
// slots and its labels that count, if some do. Several share a sequence, so they are too long together, then
// cut to one length where they are longer than that, and left out where nothing of one is learnt or all
// are equal; they are not split. Counts the documents.
using TakePiece =
    std::function<void(const Document& of, std::size_t first, std::size_t slots, std::int32_t learnt)>;
void cut_group(std::span<const Document> group, std::size_t length, TooLong too_long, PackingCounts& counts,
               const TakePiece& take);

// Pieces as they follow each other in the sequences.
struct PackedOrder {
  std::vector<PackedPiece> pieces;
  std::vector<std::int64_t> first = {0};  // the first piece of each sequence, and one past the last
  std::vector<std::int32_t> learnt;       // of each sequence, labels that count
};
// Neighbours of a `group` follow each other in one sequence. Counts slots and labels.
PackedOrder order_pieces(std::span<const PackedPiece> pieces, int length, PackingCounts& counts,
                         int group = 1);

// An id in a file: its top bit is set where it is learnt.
inline std::int32_t marked_id(std::int32_t id, bool is_learnt) {
  return is_learnt ? static_cast<std::int32_t>(static_cast<std::uint32_t>(id) | 0x80000000U) : id;
}
inline std::int32_t without_mark(std::int32_t id) {
  return id & 0x7FFFFFFF;
}

// Packed documents as they lie in memory, or in a file.
struct PackedArrays {
  std::shared_ptr<const MappedFile> file;  // null: in memory
  std::int64_t vocabulary = 0;             // of a file's ids
  std::span<const std::int32_t> ids;       // of all pieces; in a file with their marks
  std::span<const std::uint8_t> learnt;    // beside them; in a file there is none
  std::span<const PackedPiece> pieces;
  std::span<const std::int64_t> first;
  std::span<const std::int32_t> learnt_of;
  PackingCounts counts;
};

// Threads may share it.
class PackedDocuments {
 public:
  // A document, and its slots [first, end) of a sequence.
  struct Place {
    std::int64_t document = 0, first = 0, end = 0;
  };

  PackedDocuments() = default;
  // Neighbours of a `group` stay together (cut_group).
  PackedDocuments(std::span<const Document> documents, int length, TooLong too_long, int group = 1);
  PackedDocuments(const PackedArrays& arrays, int length)
      : length_(static_cast<std::size_t>(length)), at_(arrays) {}

  std::int64_t sequences() const { return std::max<std::int64_t>(1, std::ssize(at_.first)) - 1; }
  std::int64_t documents() const { return std::ssize(at_.pieces); }  // in them, each part of a split one
  std::int64_t learnt(std::int64_t sequence) const {
    return at_.learnt_of[static_cast<std::size_t>(sequence)];
  }
  const PackingCounts& counts() const { return at_.counts; }
  double filled() const;       // the share of slots that hold a token
  std::int64_t bytes() const;  // of memory; none of a file's
  // Of tokens, marks and their order, where they are in memory.
  std::uint32_t checksum(std::uint32_t before) const;
  // The documents of a sequence. They are numbered as they follow each other in all sequences.
  std::vector<Place> places(std::int64_t sequence) const;
  // Adds a sequence to tokens, labels, starts and count; without `counts` all its labels are of no token.
  // Throws RunError naming the file where it is damaged.
  void append(std::int64_t sequence, Batch& out, bool counts = true) const;

 private:
  struct Owned {
    std::vector<std::int32_t> ids;
    std::vector<std::uint8_t> learnt;
    PackedOrder order;
  };
  void check_mapped(std::int64_t sequence) const;

  std::size_t length_ = 1;
  std::shared_ptr<const Owned> owned_;  // what the spans below are of, unless a file has it
  PackedArrays at_;
};

}  // namespace lpmm
