#include "lpmm/memory/slots/home.h"

#include <algorithm>
#include <map>
#include <system_error>
#include <utility>

#include "lpmm/memory/device_memory.h"
#include "lpmm/memory/memory_state.h"

namespace lpmm {
namespace {

constexpr const char* kPhase = "reading parameters";

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

Home::Home(const MemoryState& memory, const Shares& shares, Buckets buckets)
    : memory_(memory), ranks_(memory.ranks), shares_(shares), buckets_(std::move(buckets)) {
  for (Held& held : held_) {
    held.bytes =
        allocate(memory.device, buckets_.most_bytes(), "parameters of other ranks", "ranks.stage = 1");
    if (!memory.device.is_host()) held.staged.resize(static_cast<std::size_t>(buckets_.most_bytes()));
  }
  ranks_.before_swaps([this] { settle(); });
}

Home::~Home() {
  ranks_.before_swaps(nullptr);
  if (coming_.valid()) coming_.wait();
}

std::int64_t Home::workspace_bytes(const Buckets& buckets, int ranks) {
  constexpr std::int64_t kBuckets = std::tuple_size_v<decltype(held_)> + 1;  // and what is sent
  const std::int64_t rows = 3 + ranks;  // read: all, and by owner; sent: all, and of each what is owned
  return kBuckets * buckets.most_bytes() + rows * std::int64_t{sizeof(float)} * kRowFloats;
}

void Home::read(int tensor, std::int64_t first, std::int64_t count, const Body& body) {
  const MemoryState::Tensor& t = memory_.tensors[static_cast<std::size_t>(tensor)];
  const kernels::RoleView& own = t.view[Role::kParameter];
  for (const std::int64_t end = first + count; first < end;) {
    const int bucket = buckets_.find(tensor, first);
    const Held& held = get(bucket);
    for (const Buckets::Piece& p : buckets_.pieces(bucket)) {
      const std::int64_t to = std::min(end, p.first + p.count);
      if (p.tensor != tensor || first < p.first || first >= to) continue;
      const kernels::RoleView part = p.owner == ranks_.rank()
                                         ? part_of(own, p.first - t.own_first, p.count)
                                         : piece_at(own.codec, held.bytes.get() + p.at, p.count);
      body(part, first - p.first, first, to - first);
      first = to;
    }
  }
}

const Home::Held& Home::get(int bucket) {
  Held* held = find(bucket);
  if (held == nullptr) {
    wait();
    held = find(bucket);
  }
  if (held == nullptr) {
    held = &oldest();
    held->bucket = -1;
    fetch(bucket, *held, {ranks_.place().step, kPhase});
    held->bucket = bucket;
  }
  held->used = ++reads_;
  if (order_.empty() || order_.back() != bucket) {
    order_.push_back(bucket);
    const auto found = std::find(last_order_.begin() + expected_, last_order_.end(), bucket);
    if (found != last_order_.end()) expected_ = found - last_order_.begin() + 1;
  }
  fetch_ahead();
  return *held;
}

Home::Held* Home::find(int bucket) {
  const auto found =
      std::find_if(held_.begin(), held_.end(), [&](const Held& h) { return h.bucket == bucket; });
  return found == held_.end() ? nullptr : &*found;
}

Home::Held& Home::oldest() {
  return *std::min_element(held_.begin(), held_.end(),
                           [](const Held& a, const Held& b) { return a.used < b.used; });
}

// Other devices are not used by two threads at once.
void Home::fetch_ahead() {
  if (coming_.valid() || !memory_.device.is_host() || expected_ == std::ssize(last_order_)) return;
  const int next = last_order_[static_cast<std::size_t>(expected_)];
  if (find(next) != nullptr) return;
  coming_bucket_ = next;
  coming_to_ = &oldest();
  coming_to_->bucket = -1;
  const RankPlace place{ranks_.place().step, kPhase};
  try {
    coming_ = std::async(std::launch::async, [this, place] { fetch(coming_bucket_, *coming_to_, place); });
  } catch (const std::system_error&) {  // no thread is to be had: it is fetched when it is wanted
  }
}

void Home::wait() {
  if (!coming_.valid()) return;
  coming_.get();
  coming_to_->bucket = coming_bucket_;
  coming_to_->used = ++reads_;
}

void Home::forget() {
  wait();
  for (Held& held : held_) held.bucket = -1;
}

void Home::settle() {
  wait();
  if (!order_.empty()) last_order_ = std::exchange(order_, {});
  expected_ = 0;
  for (bool are_there = false; !are_there;) {
    const std::vector<Want> wants = round({}, {}, {}, ranks_.place());
    are_there = std::all_of(wants.begin(), wants.end(), [](const Want& w) { return w.is_nothing(); });
  }
}

void Home::fetch(int bucket, Held& to, const RankPlace& place) {
  const bool is_host = memory_.device.is_host();
  std::byte* const at = is_host ? to.bytes.get() : to.staged.data();
  std::vector<std::span<std::byte>> receive;
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    const auto [first, end] = buckets_.bytes_of(bucket, rank);
    receive.emplace_back(at + first, static_cast<std::size_t>(end - first));
  }
  round({.bucket = bucket}, {}, receive, place);
  const std::int64_t bytes = buckets_.bytes_of(bucket, ranks_.size() - 1).end;
  if (!is_host) memory_.device.upload(to.bytes.get(), to.staged.data(), bytes);
}

// Returns what every rank wants. What this one does is received where `receive` says, rank by rank.
std::vector<Home::Want> Home::round(const Want& mine, Rows rows,
                                    std::span<const std::span<std::byte>> receive, const RankPlace& place) {
  const auto n = static_cast<std::size_t>(ranks_.size()), me = static_cast<std::size_t>(ranks_.rank());
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
    if (i == me || want.is_nothing()) continue;
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
  if (std::any_of(wants.begin(), wants.end(), [](const Want& w) { return !w.is_nothing(); })) {
    ranks_.swap_at(place, send, in);
  }
  return wants;
}

std::vector<std::byte> Home::pieces_to_send(int bucket) const {
  std::vector<std::byte> bytes;
  const auto [first, end] = buckets_.bytes_of(bucket, ranks_.rank());
  bytes.reserve(static_cast<std::size_t>(end - first));
  for (const Buckets::Piece& p : buckets_.pieces(bucket)) {
    if (p.owner != ranks_.rank()) continue;
    const MemoryState::Tensor& t = memory_.tensors[static_cast<std::size_t>(p.tensor)];
    append_piece(memory_.device, part_of(t.view[Role::kParameter], p.first - t.own_first, p.count), bytes);
  }
  return bytes;
}

void Home::read_rows(int tensor, std::int64_t width, const std::int32_t* rows, std::int64_t count,
                     float* out) {
  std::vector<std::int32_t> host(static_cast<std::size_t>(count));
  memory_.device.download(host.data(), rows, 4 * count);
  const std::int64_t most = std::max<std::int64_t>(1, kRowFloats / width);
  wait();
  for (std::int64_t first = 0; first < count; first += most) {
    const auto n = static_cast<std::size_t>(std::min(most, count - first));
    read_some_rows(tensor, width, Rows(host).subspan(static_cast<std::size_t>(first), n),
                   out + first * width);
  }
}

void Home::read_some_rows(int table, std::int64_t width, Rows rows, float* out) {
  const int n = ranks_.size(), me = ranks_.rank();
  std::vector<std::vector<float>> parts(static_cast<std::size_t>(n));
  std::vector<std::span<std::byte>> receive;
  for (int rank = 0; rank < n; ++rank) {
    auto& part = parts[static_cast<std::size_t>(rank)];
    if (rank != me) part.resize(static_cast<std::size_t>(owned_of(rank, table, width, rows)));
    receive.push_back(std::as_writable_bytes(std::span(part)));
  }
  round({.table = table, .rows = std::ssize(rows), .width = width}, rows, receive,
        {ranks_.place().step, kPhase});
  parts[static_cast<std::size_t>(me)] = own_of(table, width, rows);
  std::vector<float> all(rows.size() * static_cast<std::size_t>(width));
  for (int rank = 0; rank < n; ++rank) {
    const float* from = parts[static_cast<std::size_t>(rank)].data();
    for_own(rows, width, own_first(table, rank), own_end(table, rank),
            [&](std::int64_t at, std::int64_t some) {
              std::copy_n(from, some, all.data() + at);
              from += some;
            });
  }
  memory_.device.upload(out, all.data(), 4 * std::ssize(all));
}

// The elements of the rows that a rank owns.
std::int64_t Home::owned_of(int rank, int table, std::int64_t width, Rows rows) const {
  std::int64_t elements = 0;
  for_own(rows, width, own_first(table, rank), own_end(table, rank),
          [&](std::int64_t, std::int64_t some) { elements += some; });
  return elements;
}

// What this rank has of the rows, one after another.
std::vector<float> Home::own_of(int table, std::int64_t width, Rows rows) const {
  PackedDevice& device = memory_.device;
  const MemoryState::Tensor& t = memory_.tensors[static_cast<std::size_t>(table)];
  const auto count = std::ssize(rows);
  std::vector<float> all(static_cast<std::size_t>(count * width));
  const DeviceMemory room = allocate(device, room_on(device, kernels::aligned(4 * count) + 4 * count * width),
                                     "rows of a table", "a smaller model");
  const std::int32_t* const there = on_device(device, rows.data(), count, room.get());
  auto* const values =
      device.is_host() ? all.data() : reinterpret_cast<float*>(room.get() + kernels::aligned(4 * count));
  device.decode_rows(t.view[Role::kParameter], width, there, count, values, t.own_first);
  if (!device.is_host()) device.download(all.data(), values, 4 * count * width);
  std::vector<float> own(static_cast<std::size_t>(owned_of(ranks_.rank(), table, width, rows)));
  float* to = own.data();
  for_own(rows, width, own_first(table, ranks_.rank()), own_end(table, ranks_.rank()),
          [&](std::int64_t at, std::int64_t some) { to = std::copy_n(all.data() + at, some, to); });
  return own;
}

}  // namespace lpmm
