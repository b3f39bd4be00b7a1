// Memory of a process as another process of its host is told of it.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <string_view>

namespace lpmm::kernels {

struct PeerAddress {
  std::int64_t process = 0;  // its number
  std::uint64_t mark = 0;    // processes of several containers may have one number
  const std::byte* memory = nullptr;

  static std::uint64_t own_mark() {
    static const std::uint64_t mark = (std::uint64_t{std::random_device()()} << 32U) | std::random_device()();
    return mark;
  }
  static PeerAddress of(const std::byte* memory) { return {getpid(), own_mark(), memory}; }
  bool is_of_this_process() const { return process == getpid() && mark == own_mark(); }
};

inline std::string name_of(const PeerAddress& at) {
  return {reinterpret_cast<const char*>(&at), sizeof at};
}
// Nothing where it is no such name.
inline std::optional<PeerAddress> address_of(std::string_view name) {
  PeerAddress at;
  if (name.size() != sizeof at) return {};
  std::memcpy(&at, name.data(), sizeof at);
  return at;
}

}  // namespace lpmm::kernels
