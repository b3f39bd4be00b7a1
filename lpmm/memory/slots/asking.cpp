#include "lpmm/memory/slots/asking.h"

#include <algorithm>
#include <map>

#include "lpmm/memory/device_memory.h"
#include "lpmm/memory/memory_state.h"

namespace lpmm {
namespace {

// Calls body(at, count) for what of each row lies in [own_first, own_end): `count` elements, from `at` on of
// the rows one after another.
template <class Body>
void for_own(std::span<const std::int32_t> rows, std::int64_t width, std::int64_t own_first,
             std::int64_t own_end, const Body& body) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int64_t row = rows[i] * width;
    const std::int64_t from = std::max(row, own_first), to = std::min(row + width, own_end);
    if (from < to) body(static_cast<std::int64_t>(i) * width + (from - row), to - from);
  }
}

}  // namespace

Asking::Asking(const MemoryState& memory, const Shares& shares, const Buckets& buckets)
    : memory_(memory),
      carrier_(memory.slots->carrier()),
      ranks_(memory.ranks),
      shares_(shares),
      buckets_(buckets) {}

void Asking::serve(const RankPlace& place) {
  for (bool are_there = false; !are_there;) {
    const std::vector<Want> wants = round({}, {}, {}, place);
    are_there = std::all_of(wants.begin(), wants.end(), [](const Want& w) { return w.is_nothing(); });
  }
}

void Asking::fetch(int bucket, std::byte* to, const RankPlace& place, const DeviceLink::Mark& after) {
  std::vector<std::span<std::byte>> receive;
  for (int rank = 0; rank < ranks_.size() && !carrier_.is_linked(); ++rank) {
    const auto [first, end] = buckets_.bytes_of(bucket, rank);
    receive.emplace_back(to + first, static_cast<std::size_t>(end - first));
  }
  round({.bucket = bucket}, {}, receive, place, to, after);
}

// Returns what every rank wants. What this one does is received where `receive` says, rank by rank; a bucket
// by a link from `to` on.
std::vector<Asking::Want> Asking::round(const Want& mine, Rows rows,
                                        std::span<const std::span<std::byte>> receive, const RankPlace& place,
                                        std::byte* to, const DeviceLink::Mark& after) {
  const auto n = static_cast<std::size_t>(ranks_.size()), me = static_cast<std::size_t>(ranks_.rank());
  const auto by_host = [&](const Want& w) {
    return !w.is_nothing() && (w.bucket < 0 || !carrier_.is_linked());
  };
  std::vector<Want> wants(n, mine);
  std::vector<std::span<const std::byte>> send(n, std::as_bytes(std::span(&mine, 1)));
  std::vector<std::span<std::byte>> in(n);
  for (std::size_t i = 0; i < n; ++i) in[i] = std::as_writable_bytes(std::span(&wants[i], 1));
  ranks_.swap_at(place, send, in);

  std::vector<std::vector<std::int32_t>> wanted_rows(n);
  for (std::size_t i = 0; i < n; ++i) {
    wanted_rows[i].resize(static_cast<std::size_t>(i == me ? 0 : wants[i].rows));
    send[i] = std::as_bytes(rows);
    in[i] = std::as_writable_bytes(std::span(wanted_rows[i]));
  }
  if (std::any_of(wants.begin(), wants.end(), [](const Want& w) { return w.rows > 0; })) {
    ranks_.swap_at(place, send, in);
  }
  std::map<int, std::vector<std::byte>> of_buckets;
  std::vector<std::vector<float>> of_rows(n);
  for (std::size_t i = 0; i < n; ++i) {
    const Want& want = wants[i];
    send[i] = {};
    if (i == me || !by_host(want)) continue;
    if (want.bucket >= 0) {
      auto& bytes = of_buckets[want.bucket];
      if (bytes.empty()) bytes = pieces_to_send(want.bucket);
      send[i] = bytes;
    } else {
      of_rows[i] = own_of(want.table, want.width, wanted_rows[i]);
      send[i] = std::as_bytes(std::span(of_rows[i]));
    }
  }
  in.assign(receive.begin(), receive.end());
  in.resize(n);
  if (std::any_of(wants.begin(), wants.end(), by_host)) ranks_.swap_at(place, send, in);
  if (carrier_.is_linked()) carry(wants, to, place, after);
  return wants;
}

// The buckets that ranks want, from device to device.
void Asking::carry(std::span<const Want> wants, std::byte* to, const RankPlace& place,
                   const DeviceLink::Mark& after) {
  Parcels parcels;
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    const int bucket = wants[static_cast<std::size_t>(rank)].bucket;
    for (const Buckets::Piece& p : bucket < 0 ? std::span<const Buckets::Piece>{} : buckets_.pieces(bucket)) {
      if (rank != ranks_.rank()) {
        if (p.owner == ranks_.rank()) parcels.send(rank, own_piece(p));
      } else if (p.owner != rank) {
        const Codec& codec = memory_.view(p.tensor, Role::kParameter).codec;
        parcels.receive(p.owner, piece_at(codec, to + p.at, p.count));
      }
    }
  }
  if (!parcels.is_empty()) carrier_.carry(parcels, place, after);
}

kernels::RoleView Asking::own_piece(const Buckets::Piece& piece) const {
  const MemoryState::Tensor& t = memory_.tensors[static_cast<std::size_t>(piece.tensor)];
  return part_of(t.view[Role::kParameter], piece.first - t.own_first, piece.count);
}

std::vector<std::byte> Asking::pieces_to_send(int bucket) const {
  std::vector<std::byte> bytes;
  const auto [first, end] = buckets_.bytes_of(bucket, ranks_.rank());
  bytes.reserve(static_cast<std::size_t>(end - first));
  for (const Buckets::Piece& p : buckets_.pieces(bucket)) {
    if (p.owner == ranks_.rank()) append_piece(memory_.device, own_piece(p), bytes);
  }
  return bytes;
}

std::vector<float> Asking::rows(int table, std::int64_t width, Rows rows, const RankPlace& place) {
  const int n = ranks_.size(), me = ranks_.rank();
  std::vector<std::vector<float>> parts(static_cast<std::size_t>(n));
  std::vector<std::span<std::byte>> receive;
  for (int rank = 0; rank < n; ++rank) {
    auto& part = parts[static_cast<std::size_t>(rank)];
    if (rank != me) part.resize(static_cast<std::size_t>(owned_of(rank, table, width, rows)));
    receive.push_back(std::as_writable_bytes(std::span(part)));
  }
  round({.table = table, .rows = std::ssize(rows), .width = width}, rows, receive, place);
  parts[static_cast<std::size_t>(me)] = own_of(table, width, rows);
  std::vector<float> all(rows.size() * static_cast<std::size_t>(width));
  for (int rank = 0; rank < n; ++rank) {
    const float* from = parts[static_cast<std::size_t>(rank)].data();
    for_own(rows, width, shares_.first(table, rank), shares_.end(table, rank),
            [&](std::int64_t at, std::int64_t some) {
              std::copy_n(from, some, all.data() + at);
              from += some;
            });
  }
  return all;
}

// The elements of the rows that a rank owns.
std::int64_t Asking::owned_of(int rank, int table, std::int64_t width, Rows rows) const {
  std::int64_t elements = 0;
  for_own(rows, width, shares_.first(table, rank), shares_.end(table, rank),
          [&](std::int64_t, std::int64_t some) { elements += some; });
  return elements;
}

// What this rank has of the rows, one after another.
std::vector<float> Asking::own_of(int table, std::int64_t width, Rows rows) const {
  PackedDevice& device = memory_.device;
  const MemoryState::Tensor& t = memory_.tensors[static_cast<std::size_t>(table)];
  const auto count = std::ssize(rows);
  std::vector<float> all(static_cast<std::size_t>(count * width));
  const DeviceMemory room = allocate(device, room_on(device, kernels::aligned(4 * count) + 4 * count * width),
                                     "rows of a table", "a smaller model");
  const std::int32_t* const there = on_device(device, rows.data(), count, room.get());
  auto* const values =
      device.is_host() ? all.data() : reinterpret_cast<float*>(room.get() + kernels::aligned(4 * count));
  device.decode_rows({t.view[Role::kParameter], width, there, count, values, t.own_first});
  if (!device.is_host()) device.download(all.data(), values, 4 * count * width);
  std::vector<float> own(static_cast<std::size_t>(owned_of(ranks_.rank(), table, width, rows)));
  float* to = own.data();
  for_own(rows, width, shares_.first(table, ranks_.rank()), shares_.end(table, ranks_.rank()),
          [&](std::int64_t at, std::int64_t some) { to = std::copy_n(all.data() + at, some, to); });
  return own;
}

}  // namespace lpmm
