#include "lpmm/memory/slots/parcels.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <span>
#include <stdexcept>
#include <thread>

#include "lpmm/memory/slots/shares.h"

namespace lpmm {
namespace {

constexpr std::chrono::seconds kOpening{120};

enum class State : char { kOpens, kOpen, kFailed };

State state_of(DeviceLink* link) {
  try {
    return link == nullptr ? State::kFailed : link->is_done() ? State::kOpen : State::kOpens;
  } catch (const std::runtime_error&) {
    return State::kFailed;
  }
}

// Null, on every rank, where one of them has no link or cannot open it.
std::unique_ptr<DeviceLink> open_link(PackedDevice& device, Ranks& ranks) {
  if (!ranks.may_link()) return nullptr;
  const std::string name = ranks.gather(ranks.is_first() ? device.link_name() : "").front();
  if (name.empty()) return nullptr;
  std::unique_ptr<DeviceLink> link = device.open_link(name, ranks.rank(), ranks.size());
  const auto began = std::chrono::steady_clock::now();
  for (State own = State::kOpens;;) {
    const bool is_late = std::chrono::steady_clock::now() - began > kOpening;
    own = is_late ? State::kFailed : state_of(link.get());
    const std::vector<State> all = ranks.all(own);
    if (std::ranges::find(all, State::kFailed) != all.end()) return nullptr;
    if (std::ranges::find(all, State::kOpens) == all.end()) return link;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Codes and steps, each where they lie.
void add_parts(int rank, const kernels::RoleView& piece, std::vector<DeviceLink::Part>& parts) {
  parts.push_back(
      {rank, reinterpret_cast<std::byte*>(piece.codes), code_bytes(piece.codec.format, piece.elements)});
  if (piece.steps == nullptr) return;
  parts.push_back({rank, reinterpret_cast<std::byte*>(piece.steps), step_bytes(piece.codec, piece.elements)});
}

}  // namespace

Carrier::Carrier(PackedDevice& device, Ranks& ranks)
    : device_(device),
      ranks_(ranks),
      link_(open_link(device, ranks)),
      out_(static_cast<std::size_t>(ranks.size())),
      in_(out_.size()) {
  ranks.let_link(is_linked());
}

Carrier::~Carrier() {
  if (!is_linked() || std::uncaught_exceptions() > 0) return;
  try {
    ranks_.meet_at(ranks_.place());
  } catch (const std::exception&) {  // another rank has ended
  }
}

void Carrier::carry(const Parcels& parcels, const RankPlace& place, const DeviceLink::Mark& after) {
  link_ ? carry_linked(parcels, place, after) : carry_by_host(parcels, place);
}

void Carrier::carry_linked(const Parcels& parcels, const RankPlace& place, const DeviceLink::Mark& after) {
  std::vector<DeviceLink::Part> send, receive;
  for (const Parcels::Parcel& p : parcels.sent_) {
    const bool is_to_all = p.rank == Parcels::kAll;
    for (int rank = is_to_all ? 0 : p.rank; rank < (is_to_all ? ranks_.size() : p.rank + 1); ++rank) {
      if (rank != ranks_.rank()) add_parts(rank, p.piece, send);
    }
  }
  for (const Parcels::Parcel& p : parcels.received_) add_parts(p.rank, p.piece, receive);
  try {
    link_->begin(after, send, receive);
    ranks_.wait_at(place, [&] { return link_->is_done(); });
  } catch (const RankLost&) {
    throw;
  } catch (const std::runtime_error& e) {
    throw RankLost(fmt::format("{}, {}", e.what(), to_string(place)));
  }
  for (const DeviceLink::Part& p : send) ranks_.count_sent(p.bytes);
}

void Carrier::carry_by_host(const Parcels& parcels, const RankPlace& place) {
  const auto me = static_cast<std::size_t>(ranks_.rank());
  const auto of = [&](int rank) { return rank == Parcels::kAll ? me : static_cast<std::size_t>(rank); };
  for (std::vector<std::byte>& bytes : out_) bytes.clear();
  for (const Parcels::Parcel& p : parcels.sent_) append_piece(device_, p.piece, out_[of(p.rank)]);
  std::vector<std::size_t> sizes(in_.size());
  for (const Parcels::Parcel& p : parcels.received_) {
    sizes[of(p.rank)] += static_cast<std::size_t>(piece_bytes(p.piece.codec, p.piece.elements));
  }
  std::vector<std::span<const std::byte>> send;
  std::vector<std::span<std::byte>> receive;
  for (std::size_t i = 0; i < in_.size(); ++i) {
    send.emplace_back(out_[out_[me].empty() ? i : me]);
    in_[i].resize(sizes[i]);
    receive.emplace_back(in_[i]);
  }
  ranks_.swap_at(place, send, receive);
  std::vector<std::byte*> at;
  for (std::vector<std::byte>& bytes : in_) at.push_back(bytes.data());
  for (const Parcels::Parcel& p : parcels.received_) {
    const kernels::RoleView& to = p.piece;
    const kernels::RoleView from = piece_at(to.codec, at[of(p.rank)], to.elements);
    device_.upload(to.codes, from.codes, code_bytes(to.codec.format, to.elements));
    if (to.steps != nullptr) device_.upload(to.steps, from.steps, step_bytes(to.codec, to.elements));
    at[of(p.rank)] += piece_bytes(to.codec, to.elements);
  }
}

}  // namespace lpmm
