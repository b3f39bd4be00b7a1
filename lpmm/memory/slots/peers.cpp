#include "lpmm/memory/slots/peers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <random>
#include <system_error>

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
    Place& place = places.emplace_back();
    if (v.codes == nullptr) continue;
    place = {v.codes - base, -1, v.elements};
    if (v.steps != nullptr) place.steps = reinterpret_cast<const std::uint8_t*>(v.steps) - base;
  }
  return places;
}

// The views of a rank's tensors, whose memory begins at `base`.
std::vector<kernels::RoleView> views_at(const MemoryState& memory, Role role, const std::byte* base,
                                        std::span<const Place> places) {
  auto* const first = reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(base));  // it is read alone
  std::vector<kernels::RoleView> views;
  for (std::size_t i = 0; i < places.size(); ++i) {
    kernels::RoleView& v = views.emplace_back(memory.tensors[i].view[role]);
    if (v.codes == nullptr) continue;
    v.codes = first + places[i].codes;
    v.steps = places[i].steps < 0 ? nullptr : reinterpret_cast<std::uint16_t*>(first + places[i].steps);
    v.elements = places[i].elements;
  }
  return views;
}

// Bytes at the beginning of a role's memory by which others see that they read that and nothing else.
using Mark = std::array<std::uint32_t, 4>;
std::int64_t marked_bytes(const MemoryState& memory, Role role) {
  return std::min<std::int64_t>(sizeof(Mark), memory.pages[role].get_deleter().bytes);
}

// What a rank tells of a role. The name of the memory, which has so many bytes, and the places follow it.
struct Told {
  Mark mark;
  std::int64_t marked = 0, name = 0;
};

// Takes the next `bytes` of what a rank told, or fewer.
std::string_view take(std::string_view& told, std::size_t bytes) {
  const std::string_view taken = told.substr(0, bytes);
  told.remove_prefix(taken.size());
  return taken;
}

}  // namespace

std::unique_ptr<Peers> Peers::open(const MemoryState& memory) {
  Ranks& ranks = memory.ranks;
  if (ranks.size() == 1 || !ranks.may_read()) return nullptr;
  std::unique_ptr<Peers> peers(new Peers(memory));
  const bool is_open = peers->open_all();
  const bool can_read = !ranks.any(!is_open);
  for (const Role role : kRead)
    memory.device.fill_with_zeros(memory.pages[role].get(), marked_bytes(memory, role));
  ranks.let_read(can_read);
  peers->is_open_ = can_read;  // the same on each rank, so that none waits for another
  return can_read ? std::move(peers) : nullptr;
}

Peers::~Peers() {
  if (!is_open_) return;
  try {
    memory_.device.synchronize();
    peers_.clear();
    if (std::uncaught_exceptions() == 0) memory_.ranks.meet_at(memory_.ranks.place());
  } catch (const std::exception&) {  // another rank has ended
  }
}

// A rank marks its memory, and tells the others of each role the mark, the name of the memory, and places.
bool Peers::open_all() {
  PackedDevice& device = memory_.device;
  std::string told;
  bool is_open = true;
  for (const Role role : kRead) {
    Told of_role{{}, marked_bytes(memory_, role)};
    std::generate(of_role.mark.begin(), of_role.mark.end(), std::random_device{});
    device.upload(memory_.pages[role].get(), of_role.mark.data(), of_role.marked);
    const std::string name = device.peer_name(memory_.pages[role].get());
    of_role.name = std::ssize(name);
    is_open = is_open && !name.empty();
    told.append(reinterpret_cast<const char*>(&of_role), sizeof of_role);
    told += name + bytes_of(places_of(memory_, role));
  }
  device.synchronize();
  const std::vector<std::string> all = memory_.ranks.gather(told);
  for (int rank = 0; rank < memory_.ranks.size(); ++rank) {
    Peer& peer = peers_.emplace_back();
    if (rank == memory_.ranks.rank() || !is_open) continue;
    is_open = open_one(all[static_cast<std::size_t>(rank)], peer);
    mapped_ = is_open && peer.parameters->is_mapped();
  }
  return is_open;
}

bool Peers::open_one(std::string_view told, Peer& peer) const {
  PackedDevice& device = memory_.device;
  const std::size_t places = memory_.tensors.size() * sizeof(Place);
  for (const Role role : kRead) {
    Told of_role;
    if (told.size() < sizeof of_role) return false;
    std::memcpy(&of_role, take(told, sizeof of_role).data(), sizeof of_role);
    auto opened = device.open_peer(take(told, static_cast<std::size_t>(of_role.name)));
    if (!opened || told.size() < places || of_role.marked > std::int64_t{sizeof(Mark)}) return false;
    Mark found{};
    const DeviceMemory room = allocate(device, sizeof found, "the mark of a rank", "a smaller model");
    try {
      const PeerMemory::Part part{opened->address(), room.get(), of_role.marked};
      opened->read({&part, 1});
    } catch (const std::system_error&) {
      return false;
    }
    device.download(found.data(), room.get(), sizeof found);
    if (std::memcmp(found.data(), of_role.mark.data(), static_cast<std::size_t>(of_role.marked)) != 0)
      return false;
    std::vector<Place> of_tensors(memory_.tensors.size());
    std::memcpy(static_cast<void*>(of_tensors.data()), take(told, places).data(), places);
    const bool is_parameter = role == Role::kParameter;
    (is_parameter ? peer.of_parameters : peer.of_accumulators) =
        views_at(memory_, role, opened->address(), of_tensors);
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
  for (int rank = 0; rank < memory_.ranks.size(); ++rank) {
    std::vector<PeerMemory::Part> parts;
    for (const Reads::Read& r : reads.all_) {
      if (r.rank == rank) parts.push_back(r.part);
    }
    if (parts.empty()) continue;
    try {
      // One memory of a rank reads as well as another: parts have addresses of their own.
      peers_[static_cast<std::size_t>(rank)].parameters->read(parts);
    } catch (const std::system_error& e) {
      const bool has_ended = e.code() == std::errc::no_such_process || e.code() == std::errc::bad_address;
      const std::string what = has_ended ? "has ended" : fmt::format("cannot be read ({})", e.what());
      const std::string text = fmt::format("{} {}, {}", memory_.ranks.name_of(rank), what, to_string(place));
      if (has_ended) throw RankLost(text);
      throw RunError(text);
    }
  }
  for (const Reads::Read& r : reads.all_) memory_.ranks.count_read(r.part.bytes);
}

void Peers::meet() const {
  memory_.device.synchronize();
  memory_.ranks.meet_at(memory_.ranks.place());
}

}  // namespace lpmm
