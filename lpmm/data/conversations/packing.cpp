#include "lpmm/data/conversations/packing.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <stdexcept>

#include "lpmm/files/files.h"

namespace lpmm {
namespace {

constexpr std::int32_t kUnlearnt = -1, kNothing = 0;  // a label that does not count; what fills a sequence

// One window's pieces into sequences, which are added to `all`.
void pack_window(std::vector<std::int32_t> window, std::span<const std::int32_t> slots, int length,
                 std::vector<std::vector<std::int32_t>>& all) {
  const auto slots_of = [&](std::int32_t piece) { return slots[static_cast<std::size_t>(piece)]; };
  std::ranges::stable_sort(window, [&](auto a, auto b) { return slots_of(a) > slots_of(b); });
  const std::size_t begin = all.size(), leaves = std::bit_ceil(window.size());
  // A tree of the most room below each node; leaf i is the window's sequence i, begun or not.
  std::vector<std::int32_t> room(2 * leaves, length);
  for (const std::int32_t piece : window) {
    std::size_t at = 1;
    while (at < leaves) at = room[2 * at] >= slots_of(piece) ? 2 * at : 2 * at + 1;
    const std::size_t sequence = begin + at - leaves;
    if (sequence == all.size()) all.emplace_back();
    all[sequence].push_back(piece);
    room[at] -= slots_of(piece);
    while ((at /= 2) > 0) room[at] = std::max(room[2 * at], room[2 * at + 1]);
  }
}

}  // namespace

TooLong too_long_of(std::string_view word) {
  if (word == "cut") return TooLong::kCut;
  if (word == "drop") return TooLong::kDrop;
  if (word == "split") return TooLong::kSplit;
  throw std::logic_error("too_long_of: no such word");
}

std::vector<std::vector<std::int32_t>> pack(std::span<const std::int32_t> slots, int length) {
  std::vector<std::vector<std::int32_t>> all;
  const std::int64_t count = std::ssize(slots);
  for (std::int64_t first = 0; first < count; first += kPackingWindow) {
    std::vector<std::int32_t> window;
    for (std::int64_t i = first; i < std::min(count, first + kPackingWindow); ++i) {
      window.push_back(static_cast<std::int32_t>(drawn_order(0, 0, count, i)));
    }
    pack_window(std::move(window), slots, length, all);
  }
  return all;
}

PackedDocuments::PackedDocuments(std::span<const Document> documents, int length, TooLong too_long)
    : length_(static_cast<std::size_t>(length)) {
  counts_.documents = std::ssize(documents);
  for (const Document& document : documents) add(document, too_long);
  std::vector<std::int32_t> slots;
  for (const Piece& piece : pieces_) slots.push_back(piece.slots);
  std::vector<Piece> in_order;
  for (const auto& sequence : pack(slots, length)) {
    std::int32_t learnt = 0;
    for (const std::int32_t i : sequence) {
      const Piece& piece = pieces_[static_cast<std::size_t>(i)];
      const auto marks = learnt_.begin() + piece.first + 1;
      learnt += static_cast<std::int32_t>(std::count(marks, marks + piece.slots, 1));
      in_order.push_back(piece);
    }
    counts_.learnt += learnt;
    learnt_of_.push_back(learnt);
    first_.push_back(std::ssize(in_order));
  }
  pieces_ = std::move(in_order);
}

void PackedDocuments::add(const Document& document, TooLong too_long) {
  const std::size_t slots = document.ids.empty() ? 0 : document.ids.size() - 1;
  if (document.learnt.size() != document.ids.size()) throw std::logic_error("a document lacks marks");
  const bool fits = slots <= length_;
  if (!fits) ++counts_.too_long;
  if (!fits && too_long == TooLong::kDrop) return;
  const std::size_t end = too_long == TooLong::kSplit ? slots : std::min(slots, length_),
                    before = pieces_.size();
  for (std::size_t first = 0; first < end; first += length_) {
    add_piece(document, first, std::min(length_, end - first));
  }
  if (pieces_.size() == before) ++counts_.unlearnt;
}

// Nothing is learnt of a piece without marks.
void PackedDocuments::add_piece(const Document& document, std::size_t first, std::size_t slots) {
  const auto marks = document.learnt.begin() + static_cast<std::ptrdiff_t>(first);
  const auto ids = document.ids.begin() + static_cast<std::ptrdiff_t>(first);
  const auto end = static_cast<std::ptrdiff_t>(slots) + 1;
  if (std::find(marks + 1, marks + end, 1) == marks + end) return;
  pieces_.push_back({std::ssize(ids_), static_cast<std::int32_t>(slots)});
  ids_.insert(ids_.end(), ids, ids + end);
  learnt_.insert(learnt_.end(), marks, marks + end);
  counts_.slots += static_cast<std::int64_t>(slots);
}

double PackedDocuments::filled() const {
  const std::int64_t all = sequences() * static_cast<std::int64_t>(length_);
  return all == 0 ? 0 : static_cast<double>(counts_.slots) / static_cast<double>(all);
}

std::int64_t PackedDocuments::bytes() const {
  return static_cast<std::int64_t>(ids_.size() * sizeof(std::int32_t) + learnt_.size() +
                                   pieces_.size() * sizeof(Piece) + first_.size() * sizeof(std::int64_t) +
                                   learnt_of_.size() * sizeof(std::int32_t));
}

std::uint32_t PackedDocuments::checksum(std::uint32_t before) const {
  return crc32(std::as_bytes(std::span(learnt_)), crc32(std::as_bytes(std::span(ids_)), before));
}

void PackedDocuments::append(std::int64_t sequence, Batch& out, bool counts) const {
  const std::size_t begin = out.tokens.size(), end = begin + length_;
  const auto at = static_cast<std::size_t>(sequence);
  std::size_t slot = begin;
  out.tokens.resize(end, kNothing);
  out.labels.resize(end, kUnlearnt);
  out.starts.resize(end);
  const auto begin_document = [&](std::size_t slots) {
    std::fill_n(out.starts.begin() + static_cast<std::ptrdiff_t>(slot), slots,
                static_cast<std::int32_t>(slot - begin));
  };
  for (std::int64_t i = first_[at]; i < first_[at + 1]; ++i) {
    const Piece& piece = pieces_[static_cast<std::size_t>(i)];
    begin_document(static_cast<std::size_t>(piece.slots));
    for (auto from = static_cast<std::size_t>(piece.first),
              last = from + static_cast<std::size_t>(piece.slots);
         from < last; ++from, ++slot) {
      out.tokens[slot] = ids_[from];
      if (counts && learnt_[from + 1] != 0) out.labels[slot] = ids_[from + 1];
    }
  }
  begin_document(end - slot);
  ++out.count;
}

}  // namespace lpmm
