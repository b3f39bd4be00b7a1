#include "lpmm/memory/slots/home.h"

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "lpmm/memory/device_memory.h"
#include "lpmm/memory/memory_state.h"

namespace lpmm {
namespace {

constexpr const char* kPhase = "reading parameters";

}  // namespace

Home::Home(const MemoryState& memory, const Shares& shares, Buckets buckets)
    : memory_(memory), ranks_(memory.ranks), shares_(shares), buckets_(std::move(buckets)) {
  if (!memory.peers) asking_.emplace(memory, shares, buckets_);
  for (Held& held : held_) {
    if (memory.reaches_others()) break;  // nothing is kept
    held.bytes =
        allocate(memory.device, buckets_.most_bytes(), "parameters of other ranks", "ranks.stage = 1");
    if (asking_ && !comes_to_device()) held.staged.resize(static_cast<std::size_t>(buckets_.most_bytes()));
  }
  ranks_.before_swaps([this] { settle(); });
}

Home::~Home() {
  ranks_.before_swaps(nullptr);
  try {
    if (std::uncaught_exceptions() == 0) settle();
  } catch (const std::exception&) {  // another rank has ended
  }
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
  begin_reading();
  if (memory_.reaches_others()) return read_mapped(tensor, first, count, body);
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

void Home::read_mapped(int tensor, std::int64_t first, std::int64_t count, const Body& body) {
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    const kernels::RoleView& part = memory_.peers->view(rank, tensor, Role::kParameter);
    const std::int64_t owned = shares_.first(tensor, rank), from = std::max(first, owned);
    const std::int64_t to = std::min(first + count, shares_.end(tensor, rank));
    if (from >= to) continue;
    body(part, from - owned, from, to - from);
    if (rank != ranks_.rank()) ranks_.count_read(piece_bytes(part.codec, to - from));
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

// Without a link, other devices are not used by two threads at once.
bool Home::comes_to_device() const {
  return memory_.device.is_host() || (!memory_.peers && memory_.slots->carrier().is_linked());
}

void Home::fetch_ahead() {
  if (coming_.valid() || !comes_to_device() || expected_ == std::ssize(last_order_)) return;
  const int next = last_order_[static_cast<std::size_t>(expected_)];
  if (find(next) != nullptr) return;
  coming_bucket_ = next;
  coming_to_ = &oldest();
  coming_to_->bucket = -1;
  const RankPlace place{ranks_.place().step, kPhase};
  // The last use of its room is queued by now; the use of the bucket that is there now is not waited for.
  const DeviceLink::Mark now = memory_.peers ? nullptr : memory_.slots->carrier().mark();
  try {
    coming_ = std::async(std::launch::async,
                         [this, place, now] { fetch(coming_bucket_, *coming_to_, place, now); });
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
  changed_ = true;
  for (Held& held : held_) held.bucket = -1;
}

// With peers, others may change what this rank has read as soon as it comes to an exchange.
void Home::settle() {
  wait();
  if (!order_.empty()) last_order_ = std::exchange(order_, {});
  expected_ = 0;
  if (asking_) return asking_->serve(ranks_.place());
  memory_.device.synchronize();
  begin_reading();
}

// All ranks come here, each before it reads again or before its next exchange, whichever is first.
void Home::begin_reading() {
  if (memory_.peers && std::exchange(changed_, false)) memory_.peers->meet();
}

void Home::fetch(int bucket, Held& to, const RankPlace& place, const DeviceLink::Mark& after) {
  if (memory_.peers) {
    Peers::Reads reads;
    for (const Buckets::Piece& p : buckets_.pieces(bucket)) {
      if (p.owner == ranks_.rank()) continue;
      const kernels::RoleView& all = memory_.peers->view(p.owner, p.tensor, Role::kParameter);
      reads.add(p.owner, part_of(all, p.first - shares_.first(p.tensor, p.owner), p.count),
                piece_at(all.codec, to.bytes.get() + p.at, p.count));
    }
    return memory_.peers->read(reads, place);
  }
  if (comes_to_device()) return asking_->fetch(bucket, to.bytes.get(), place, after);
  asking_->fetch(bucket, to.staged.data(), place, after);
  const std::int64_t bytes = buckets_.bytes_of(bucket, ranks_.size() - 1).end;
  memory_.device.upload(to.bytes.get(), to.staged.data(), bytes);
}

void Home::read_rows(int tensor, std::int64_t width, const std::int32_t* rows, std::int64_t count,
                     float* out) {
  begin_reading();
  if (memory_.reaches_others()) {
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      memory_.device.decode_rows({memory_.peers->view(rank, tensor, Role::kParameter), width, rows, count,
                                  out, shares_.first(tensor, rank)});
    }
    return;
  }
  std::vector<std::int32_t> host(static_cast<std::size_t>(count));
  memory_.device.download(host.data(), rows, 4 * count);
  const std::int64_t most = std::max<std::int64_t>(1, kRowFloats / width);
  wait();
  for (std::int64_t first = 0; first < count; first += most) {
    const auto n = static_cast<std::size_t>(std::min(most, count - first));
    const Rows some = Rows(host).subspan(static_cast<std::size_t>(first), n);
    float* const to = out + first * width;
    if (memory_.peers) {
      read_peer_rows(tensor, width, some, to);
    } else {
      const std::vector<float> values = asking_->rows(tensor, width, some, {ranks_.place().step, kPhase});
      memory_.device.upload(to, values.data(), 4 * std::ssize(values));
    }
  }
}

// The blocks that an owner's part of a row touches are read once, and decoded from there.
void Home::read_peer_rows(int table, std::int64_t width, Rows rows, float* out) {
  struct Part {
    std::int32_t row = 0;
    int rank = 0;
    std::int64_t first = 0, count = 0, at = 0;  // elements of the owner's; byte
  };
  const kernels::RoleView& own = memory_.view(table, Role::kParameter);
  const Codec& codec = own.codec;
  const std::int64_t unit = std::max<std::int64_t>(kGroup, codec.block);
  std::vector<std::int32_t> wanted(rows.begin(), rows.end());
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  std::vector<Part> parts;
  std::int64_t bytes = 0;
  for (const std::int32_t row : wanted) {
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      const std::int64_t owned = shares_.first(table, rank), from = std::max(row * width, owned);
      const std::int64_t to = std::min(row * width + width, shares_.end(table, rank));
      if (from >= to) continue;
      const std::int64_t first = (from - owned) / unit * unit;
      const std::int64_t end = std::min((to - owned + unit - 1) / unit * unit, shares_.count(table, rank));
      parts.push_back({row, rank, first, end - first, bytes});
      bytes += piece_bytes(codec, end - first);
    }
  }
  const DeviceMemory room = allocate(memory_.device, bytes, "rows of a table", "a smaller model");
  Peers::Reads reads;
  for (const Part& p : parts) {
    if (p.rank == ranks_.rank()) continue;
    reads.add(p.rank, part_of(memory_.peers->view(p.rank, table, Role::kParameter), p.first, p.count),
              piece_at(codec, room.get() + p.at, p.count));
  }
  memory_.peers->read(reads, {ranks_.place().step, kPhase});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto p = std::lower_bound(parts.begin(), parts.end(), rows[i],
                              [](const Part& part, std::int32_t row) { return part.row < row; });
    for (; p != parts.end() && p->row == rows[i]; ++p) {
      const kernels::RoleView piece = p->rank == ranks_.rank()
                                          ? part_of(own, p->first, p->count)
                                          : piece_at(codec, room.get() + p->at, p->count);
      memory_.device.decode_rows({piece, width, &p->row, 1, out + static_cast<std::int64_t>(i) * width,
                                  shares_.first(table, p->rank) + p->first});
    }
  }
}

}  // namespace lpmm
