#include "lpmm/memory/device_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "lpmm/base/error.h"

namespace lpmm {
namespace {

// body(first, bytes) for pieces of at most 4 MB, each with so much of a buffer of the host.
template <class Body>
void for_pieces(std::size_t bytes, const Body& body) {
  constexpr std::size_t kMost = 4 << 20;
  std::vector<std::byte> buffer(std::min(bytes, kMost));
  for (std::size_t first = 0; first < bytes; first += kMost) {
    body(first, std::span(buffer).first(std::min(kMost, bytes - first)));
  }
}

}  // namespace

DeviceMemory allocate(PackedDevice& device, std::int64_t bytes, const std::string& what, const char* advice) {
  if (bytes == 0) return {};
  DeviceMemory memory = device.allocate(bytes);
  if (memory == nullptr) {
    throw RunError(
        fmt::format("no memory for {}: {:.1f} MB; use {}", what, static_cast<double>(bytes) / 1e6, advice));
  }
  return memory;
}

std::int64_t room_on(const PackedDevice& device, std::int64_t host_bytes) {
  return device.is_host() ? 0 : host_bytes;
}

void download_pieces(PackedDevice& device, std::span<const std::byte> from, const ByteSink& sink) {
  if (device.is_host()) return sink(from);
  for_pieces(from.size(), [&](std::size_t first, std::span<std::byte> piece) {
    device.download(piece.data(), from.data() + first, std::ssize(piece));
    sink(piece);
  });
}

void upload_pieces(PackedDevice& device, std::span<std::byte> to, const ByteSource& source) {
  if (device.is_host()) return source(0, to);
  for_pieces(to.size(), [&](std::size_t first, std::span<std::byte> piece) {
    source(first, piece);
    device.upload(to.data() + first, piece.data(), std::ssize(piece));
  });
}

}  // namespace lpmm
