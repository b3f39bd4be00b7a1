#include "lpmm/memory/slots/peers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <stdexcept>

#include "lpmm/memory/device_memory.h"
#include "lpmm/memory/memory_state.h"

namespace lpmm {
namespace {

constexpr std::array<Role, 2> kRead = {Role::kAccumulator, Role::kParameter};

// The places of a tensor's codes and steps in the memory of their role.
struct Place {
  std::int64_t codes = 0, steps = -1, elements = 0;
};

std::string bytes_of(std::span<const Place> places) {
  return {reinterpret_cast<const char*>(places.data()), places.size_bytes()};
}

std::vector<Place> places_of(const MemoryState& memory, Role role) {
  const auto* const base = reinterpret_cast<const std::uint8_t*>(memory.pages[role].get());
  std::vector<Place> places;
  for (const MemoryState::Tensor& t : memory.tensors) {
    const kernels::RoleView& v = t.view[role];
    places.push_back({v.codes - base, -1, v.elements});
    if (v.steps != nullptr) places.back().steps = reinterpret_cast<const std::uint8_t*>(v.steps) - base;
  }
  return places;
}

// The views of a rank's tensors, whose memory begins at `base`.
std::vector<kernels::RoleView> views_at(const MemoryState& memory, Role role, const std::byte* base,
                                        std::span<const Place> places) {
  auto* const first = reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(base));  // it is read alone
  std::vector<kernels::RoleView> views;
  for (std::size_t i = 0; i < places.size(); ++i) {
    kernels::RoleView v = memory.tensors[i].view[role];
    v.codes = first + places[i].codes;
    v.steps = places[i].steps < 0 ? nullptr : reinterpret_cast<std::uint16_t*>(first + places[i].steps);
    v.elements = places[i].elements;
    views.push_back(v);
  }
  return views;
}

// Takes the next `bytes` of what a rank told, or fewer.
std::string_view take(std::string_view& told, std::size_t bytes) {
  const std::string_view taken = told.substr(0, bytes);
  told.remove_prefix(taken.size());
  return taken;
}

}  // namespace

std::unique_ptr<Peers> Peers::open(const MemoryState& memory) {
  Ranks& ranks = memory.ranks;
  if (ranks.size() == 1 || !ranks.all_of_one_host()) return nullptr;
  std::unique_ptr<Peers> peers(new Peers(memory));
  const bool is_open = peers->open_all();
  return ranks.any(!is_open) ? nullptr : std::move(peers);
}

// A rank tells others its mark, and of it and of each role the name of the memory; of roles the places too.
bool Peers::open_all() {
  PackedDevice& device = memory_.device;
  std::array<std::uint32_t, 4> mark{};
  std::generate(mark.begin(), mark.end(), std::random_device{});
  mark_ = allocate(device, sizeof mark, "the mark of a rank", "a smaller model");
  device.upload(mark_.get(), mark.data(), sizeof mark);
  device.synchronize();
  std::string told(reinterpret_cast<const char*>(mark.data()), sizeof mark);
  const std::string name = device.peer_name(mark_.get());
  told += name;
  for (const Role role : kRead) {
    told += device.peer_name(memory_.pages[role].get());
    told += bytes_of(places_of(memory_, role));
  }
  const std::vector<std::string> all = memory_.ranks.gather(told);
  bool is_open = !name.empty();
  for (int rank = 0; rank < memory_.ranks.size(); ++rank) {
    Peer& peer = peers_.emplace_back();
    if (rank == memory_.ranks.rank()) continue;
    is_open = is_open && open_one(all[static_cast<std::size_t>(rank)], name, peer);
    mapped_ = is_open && peer.parameters->is_mapped();
  }
  return is_open;
}

bool Peers::open_one(const std::string& told, const std::string& own_name, Peer& peer) const {
  PackedDevice& device = memory_.device;
  const std::size_t places = memory_.tensors.size() * sizeof(Place);
  std::array<std::uint32_t, 4> expected{}, found{};
  if (told.size() != sizeof expected + own_name.size() + kRead.size() * (own_name.size() + places))
    return false;
  std::string_view left = told;
  std::memcpy(expected.data(), take(left, sizeof expected).data(), sizeof expected);
  const auto marked = device.open_peer(take(left, own_name.size()));
  if (!marked) return false;
  const DeviceMemory room = allocate(device, sizeof found, "the mark of a rank", "a smaller model");
  try {
    const PeerMemory::Part part{marked->address(), room.get(), sizeof found};
    marked->read({&part, 1});
  } catch (const std::runtime_error&) {
    return false;
  }
  device.download(found.data(), room.get(), sizeof found);
  if (found != expected) return false;
  for (const Role role : kRead) {
    auto opened = device.open_peer(take(left, own_name.size()));
    if (!opened) return false;
    std::vector<Place> of_role(memory_.tensors.size());
    std::memcpy(static_cast<void*>(of_role.data()), take(left, places).data(), places);
    const bool is_parameter = role == Role::kParameter;
    (is_parameter ? peer.of_parameters : peer.of_accumulators) =
        views_at(memory_, role, opened->address(), of_role);
    (is_parameter ? peer.parameters : peer.accumulators) = std::move(opened);
  }
  return true;
}

const kernels::RoleView& Peers::view(int rank, int tensor, Role role) const {
  if (rank == memory_.ranks.rank()) return memory_.view(tensor, role);
  const Peer& peer = peers_[static_cast<std::size_t>(rank)];
  return (role == Role::kParameter ? peer.of_parameters
                                   : peer.of_accumulators)[static_cast<std::size_t>(tensor)];
}

void Peers::Reads::add(int rank, const kernels::RoleView& from, const kernels::RoleView& to) {
  const std::int64_t codes = code_bytes(to.codec.format, to.elements);
  const std::int64_t steps = to.steps == nullptr ? 0 : step_bytes(to.codec, to.elements);
  if (codes > 0) all_.push_back({rank, {reinterpret_cast<const std::byte*>(from.codes), to.codes, codes}});
  if (steps > 0) all_.push_back({rank, {reinterpret_cast<const std::byte*>(from.steps), to.steps, steps}});
}

void Peers::read(const Reads& reads, const RankPlace& place) const {
  std::vector<PeerMemory::Part> parts;
  for (int rank = 0; rank < memory_.ranks.size(); ++rank) {
    parts.clear();
    std::int64_t bytes = 0;
    for (const Reads::Read& r : reads.all_) {
      if (r.rank != rank) continue;
      parts.push_back(r.part);
      bytes += r.part.bytes;
    }
    if (parts.empty()) continue;
    try {
      // One memory of a rank reads as well as another: parts have addresses of their own.
      peers_[static_cast<std::size_t>(rank)].parameters->read(parts);
    } catch (const std::runtime_error& e) {
      memory_.ranks.meet_at(place);  // says who has ended
      throw RunError(fmt::format("{}: {}", memory_.ranks.name_of(rank), e.what()));
    }
    memory_.ranks.count_read(bytes);
  }
}

void Peers::meet() const {
  memory_.device.synchronize();
  memory_.ranks.meet_at(memory_.ranks.place());
}

}  // namespace lpmm
