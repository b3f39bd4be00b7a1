// Documents packed into sequences of equal length.
//
// A sequence has `length` slots. A slot holds a token and, as its label, the one after it, so that a document
// of n tokens takes n - 1. What is left of a sequence is filled with tokens 0 that form a document of their
// own and have no label.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lpmm/data/batch.h"
#include "lpmm/data/conversations/conversations.h"

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

// Empties a batch for append(), and keeps its room.
void begin_documents(Batch& batch);

// Threads may share it.
class PackedDocuments {
 public:
  // A document, and its slots [first, end) of a sequence.
  struct Place {
    std::int64_t document = 0, first = 0, end = 0;
  };

  PackedDocuments() = default;
  // Neighbours of a `group` stay together: they share a sequence one after the other, are too long together,
  // then cut to one length where they are longer than that, and left out where nothing of one is learnt. They
  // are not split.
  PackedDocuments(std::span<const Document> documents, int length, TooLong too_long, int group = 1);

  std::int64_t sequences() const { return std::ssize(first_) - 1; }
  std::int64_t documents() const { return std::ssize(pieces_); }  // in them
  std::int64_t learnt(std::int64_t sequence) const { return learnt_of_[static_cast<std::size_t>(sequence)]; }
  const PackingCounts& counts() const { return counts_; }
  double filled() const;  // the share of slots that hold a token
  std::int64_t bytes() const;
  // Of tokens, marks and their order.
  std::uint32_t checksum(std::uint32_t before) const;
  // The documents of a sequence. They are numbered as they follow each other in all sequences.
  std::vector<Place> places(std::int64_t sequence) const;
  // Adds a sequence to tokens, labels, starts and count; without `counts` all its labels are of no token.
  void append(std::int64_t sequence, Batch& out, bool counts = true) const;

 private:
  struct Piece {
    std::int64_t first = 0;  // of its tokens
    std::int32_t slots = 0;
  };
  void add(std::span<const Document> group, TooLong too_long);
  void add_piece(const Document& document, std::size_t first, std::size_t slots);

  std::size_t length_ = 1;
  std::vector<std::int32_t> ids_;          // of all pieces
  std::vector<std::uint8_t> learnt_;       // beside them
  std::vector<Piece> pieces_;              // as they follow each other in the sequences
  std::vector<std::int64_t> first_ = {0};  // the first piece of each sequence, and one past the last
  std::vector<std::int32_t> learnt_of_;    // of each sequence, labels that count
  PackingCounts counts_;
};

}  // namespace lpmm
