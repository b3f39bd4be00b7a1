#include "lpmm/data/conversations/packing.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>
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

std::size_t slots_of(const Document& document) {
  if (document.learnt.size() != document.ids.size()) throw std::logic_error("a document lacks marks");
  return document.ids.empty() ? 0 : document.ids.size() - 1;
}

// What each has left of so many slots: the short ones all of theirs, the others a like part of the rest.
void share(std::size_t room, std::vector<std::size_t>& slots) {
  std::vector<std::size_t> order(slots.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return slots[i]; });
  for (std::size_t i = 0; i < order.size(); ++i) {
    std::size_t& own = slots[order[i]];
    own = std::min(own, room / (order.size() - i));
    room -= own;
  }
}

bool is_learnt(const Document& document, std::size_t first, std::size_t slots) {
  const auto marks = document.learnt.begin() + static_cast<std::ptrdiff_t>(first) + 1;
  return slots > 0 && std::find(marks, marks + static_cast<std::ptrdiff_t>(slots), 1) !=
                          marks + static_cast<std::ptrdiff_t>(slots);
}

}  // namespace

void begin_documents(Batch& batch) {
  batch.count = batch.step_labels = 0;
  batch.tokens.clear();
  batch.labels.clear();
  batch.starts.clear();
  batch.preferences.clear();
}

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

PackedDocuments::PackedDocuments(std::span<const Document> documents, int length, TooLong too_long, int group)
    : length_(static_cast<std::size_t>(length)) {
  const auto of_group = static_cast<std::size_t>(group);
  if (documents.size() % of_group != 0) throw std::logic_error("documents that are no whole groups");
  counts_.documents = std::ssize(documents);
  for (std::size_t i = 0; i < documents.size(); i += of_group) add(documents.subspan(i, of_group), too_long);
  std::vector<std::int32_t> slots(pieces_.size() / of_group);
  for (std::size_t i = 0; i < pieces_.size(); ++i) slots[i / of_group] += pieces_[i].slots;
  std::vector<Piece> in_order;
  for (const auto& sequence : pack(slots, length)) {
    std::int32_t learnt = 0;
    for (const std::int32_t i : sequence) {
      for (std::size_t k = 0; k < of_group; ++k) {
        const Piece& piece = pieces_[static_cast<std::size_t>(i) * of_group + k];
        const auto marks = learnt_.begin() + piece.first + 1;
        learnt += static_cast<std::int32_t>(std::count(marks, marks + piece.slots, 1));
        in_order.push_back(piece);
      }
    }
    counts_.learnt += learnt;
    learnt_of_.push_back(learnt);
    first_.push_back(std::ssize(in_order));
  }
  pieces_ = std::move(in_order);
}

void PackedDocuments::add(std::span<const Document> group, TooLong too_long) {
  std::vector<std::size_t> slots;
  for (const Document& document : group) slots.push_back(slots_of(document));
  const bool fits = std::accumulate(slots.begin(), slots.end(), std::size_t{0}) <= length_;
  if (!fits) ++counts_.too_long;
  if (!fits && too_long == TooLong::kDrop) return;
  const std::size_t before = pieces_.size();
  if (!fits && too_long == TooLong::kSplit) {
    if (group.size() > 1) throw std::logic_error("a group of documents is not split");
    for (std::size_t first = 0; first < slots[0]; first += length_) {
      const std::size_t part = std::min(length_, slots[0] - first);
      if (is_learnt(group[0], first, part)) add_piece(group[0], first, part);
    }
  } else {
    share(length_, slots);
    bool all = true;
    for (std::size_t i = 0; i < group.size(); ++i) all = all && is_learnt(group[i], 0, slots[i]);
    for (std::size_t i = 0; all && i < group.size(); ++i) add_piece(group[i], 0, slots[i]);
  }
  if (pieces_.size() == before) ++counts_.unlearnt;
}

void PackedDocuments::add_piece(const Document& document, std::size_t first, std::size_t slots) {
  const auto marks = document.learnt.begin() + static_cast<std::ptrdiff_t>(first);
  const auto ids = document.ids.begin() + static_cast<std::ptrdiff_t>(first);
  const auto end = static_cast<std::ptrdiff_t>(slots) + 1;
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

std::vector<PackedDocuments::Place> PackedDocuments::places(std::int64_t sequence) const {
  std::vector<Place> all;
  const auto at = static_cast<std::size_t>(sequence);
  std::int64_t slot = 0;
  for (std::int64_t i = first_[at]; i < first_[at + 1]; ++i) {
    const std::int64_t end = slot + pieces_[static_cast<std::size_t>(i)].slots;
    all.push_back({i, slot, end});
    slot = end;
  }
  return all;
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
