#include "lpmm/data/conversations/packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>
#include <stdexcept>

#include "lpmm/base/error.h"
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

// Gives each its part of `room` slots: the short ones all that they want, the others equal parts of the rest.
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

// The labels of so many slots that count.
std::int32_t learnt_of(const Document& document, std::size_t first, std::size_t slots) {
  if (slots == 0) return 0;
  const auto marks = document.learnt.begin() + static_cast<std::ptrdiff_t>(first) + 1;
  return static_cast<std::int32_t>(std::count(marks, marks + static_cast<std::ptrdiff_t>(slots), 1));
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

void cut_group(std::span<const Document> group, std::size_t length, TooLong too_long, PackingCounts& counts,
               const TakePiece& take) {
  std::vector<std::size_t> slots;
  for (const Document& document : group) slots.push_back(slots_of(document));
  const bool fits = std::accumulate(slots.begin(), slots.end(), std::size_t{0}) <= length;
  counts.documents += std::ssize(group);
  if (!fits) ++counts.too_long;
  if (!fits && too_long == TooLong::kDrop) return;
  if (!fits && too_long == TooLong::kSplit) {
    if (group.size() > 1) throw std::logic_error("a group of documents is not split");
    bool is_learnt = false;
    for (std::size_t first = 0; first < slots[0]; first += length) {
      const std::size_t here = std::min(length, slots[0] - first);
      const std::int32_t learnt = learnt_of(group[0], first, here);
      is_learnt |= learnt > 0;
      if (learnt > 0) take(group[0], first, here, learnt);
    }
    if (!is_learnt) ++counts.unlearnt;
    return;
  }
  share(length, slots);
  std::vector<std::int32_t> learnt;
  for (std::size_t i = 0; i < group.size(); ++i) learnt.push_back(learnt_of(group[i], 0, slots[i]));
  const auto as_cut = [&](std::size_t i) { return std::span(group[i].ids).first(slots[i] + 1); };
  bool are_taken = std::ranges::count(learnt, 0) == 0;
  if (are_taken && group.size() > 1) {  // equal ones are no choice
    are_taken = false;
    for (std::size_t i = 1; i < group.size(); ++i) are_taken |= !std::ranges::equal(as_cut(i), as_cut(0));
  }
  if (!are_taken) {
    ++counts.unlearnt;
    return;
  }
  for (std::size_t i = 0; i < group.size(); ++i) take(group[i], 0, slots[i], learnt[i]);
}

PackedOrder order_pieces(std::span<const PackedPiece> pieces, int length, PackingCounts& counts, int group) {
  PackedOrder order;
  const auto together = static_cast<std::size_t>(group);
  std::vector<std::int32_t> slots(pieces.size() / together);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    slots[i / together] += pieces[i].slots;
    counts.slots += pieces[i].slots;
    counts.learnt += pieces[i].learnt;
  }
  order.pieces.reserve(pieces.size());
  for (const auto& sequence : pack(slots, length)) {
    std::int32_t learnt = 0;
    for (const std::int32_t i : sequence) {
      for (const PackedPiece& piece : pieces.subspan(static_cast<std::size_t>(i) * together, together)) {
        order.pieces.push_back(piece);
        learnt += piece.learnt;
      }
    }
    order.learnt.push_back(learnt);
    order.first.push_back(std::ssize(order.pieces));
  }
  return order;
}

PackedDocuments::PackedDocuments(std::span<const Document> documents, int length, TooLong too_long, int group)
    : length_(static_cast<std::size_t>(length)) {
  const auto own = std::make_shared<Owned>();
  std::vector<PackedPiece> pieces;
  const auto take = [&](const Document& document, std::size_t first, std::size_t slots, std::int32_t learnt) {
    const auto begin = static_cast<std::ptrdiff_t>(first),
               end = static_cast<std::ptrdiff_t>(first + slots + 1);
    pieces.push_back({std::ssize(own->ids), static_cast<std::int32_t>(slots), learnt});
    own->ids.insert(own->ids.end(), document.ids.begin() + begin, document.ids.begin() + end);
    own->learnt.insert(own->learnt.end(), document.learnt.begin() + begin, document.learnt.begin() + end);
  };
  const auto together = static_cast<std::size_t>(group);
  if (documents.size() % together != 0) throw std::logic_error("documents that are no whole groups");
  for (std::size_t i = 0; i < documents.size(); i += together) {
    cut_group(documents.subspan(i, together), length_, too_long, at_.counts, take);
  }
  own->order = order_pieces(pieces, length, at_.counts, group);
  owned_ = own;
  at_.ids = own->ids;
  at_.learnt = own->learnt;
  at_.pieces = own->order.pieces;
  at_.first = own->order.first;
  at_.learnt_of = own->order.learnt;
}

double PackedDocuments::filled() const {
  const std::int64_t all = sequences() * static_cast<std::int64_t>(length_);
  return all == 0 ? 0 : static_cast<double>(counts().slots) / static_cast<double>(all);
}

std::int64_t PackedDocuments::bytes() const {
  if (owned_ == nullptr) return 0;
  return static_cast<std::int64_t>(at_.ids.size_bytes() + at_.learnt.size_bytes() + at_.pieces.size_bytes() +
                                   at_.first.size_bytes() + at_.learnt_of.size_bytes());
}

std::uint32_t PackedDocuments::checksum(std::uint32_t before) const {
  return crc32(std::as_bytes(at_.learnt), crc32(std::as_bytes(at_.ids), before));
}

std::vector<PackedDocuments::Place> PackedDocuments::places(std::int64_t sequence) const {
  std::vector<Place> all;
  const auto at = static_cast<std::size_t>(sequence);
  std::int64_t slot = 0;
  for (std::int64_t i = at_.first[at]; i < at_.first[at + 1]; ++i) {
    const std::int64_t end = slot + at_.pieces[static_cast<std::size_t>(i)].slots;
    all.push_back({i, slot, end});
    slot = end;
  }
  return all;
}

// A file may hold anything.
void PackedDocuments::check_mapped(std::int64_t sequence) const {
  const auto refuse = [&] {
    throw RunError(
        fmt::format("{}: sequence {} is not what was written: the file is damaged; remove it, and "
                    "it is made again",
                    at_.file->path(), sequence));
  };
  const auto at = static_cast<std::size_t>(sequence);
  const std::int64_t first = at_.first[at], end = at_.first[at + 1];
  if (first < 0 || end < first || end > std::ssize(at_.pieces)) refuse();
  std::size_t left = length_;
  std::int64_t learnt = 0;
  for (std::int64_t i = first; i < end; ++i) {
    const PackedPiece& piece = at_.pieces[static_cast<std::size_t>(i)];
    if (piece.slots < 1 || static_cast<std::size_t>(piece.slots) > left || piece.first < 0 ||
        piece.first >= std::ssize(at_.ids) - piece.slots) {
      refuse();
    }
    left -= static_cast<std::size_t>(piece.slots);
    const auto ids =
        at_.ids.subspan(static_cast<std::size_t>(piece.first), static_cast<std::size_t>(piece.slots) + 1);
    if (std::ranges::any_of(ids, [&](std::int32_t id) { return without_mark(id) >= at_.vocabulary; }))
      refuse();
    learnt += std::ranges::count_if(ids.subspan(1), [](std::int32_t id) { return id < 0; });
  }
  if (learnt != at_.learnt_of[at]) refuse();
}

void PackedDocuments::append(std::int64_t sequence, Batch& out, bool counts) const {
  if (at_.file != nullptr) check_mapped(sequence);
  const std::size_t begin = out.tokens.size(), end = begin + length_;
  const auto at = static_cast<std::size_t>(sequence);
  std::size_t slot = begin;
  out.tokens.resize(end, kNothing);
  out.labels.resize(end, kUnlearnt);
  out.starts.resize(end);
  const bool is_file = at_.file != nullptr;
  const auto is_learnt = [&](std::size_t i) { return is_file ? at_.ids[i] < 0 : at_.learnt[i] != 0; };
  const auto begin_document = [&](std::size_t slots) {
    std::fill_n(out.starts.begin() + static_cast<std::ptrdiff_t>(slot), slots,
                static_cast<std::int32_t>(slot - begin));
  };
  for (std::int64_t i = at_.first[at]; i < at_.first[at + 1]; ++i) {
    const PackedPiece& piece = at_.pieces[static_cast<std::size_t>(i)];
    const auto first = static_cast<std::size_t>(piece.first), slots = static_cast<std::size_t>(piece.slots);
    begin_document(slots);
    for (std::size_t from = first; from < first + slots; ++from, ++slot) {
      out.tokens[slot] = without_mark(at_.ids[from]);
      if (counts && is_learnt(from + 1)) out.labels[slot] = without_mark(at_.ids[from + 1]);
    }
    if (is_file) at_.file->forget(&at_.ids[first], (slots + 1) * sizeof(std::int32_t));
  }
  begin_document(end - slot);
  ++out.count;
}

}  // namespace lpmm
