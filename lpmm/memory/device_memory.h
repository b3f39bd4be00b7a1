// Memory of a device, and what goes between it and the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "kernels/packed_device.h"

namespace lpmm {

// Throws RunError where there is no memory: `what` names it, `advice` says what to use instead. No bytes are
// no memory: null.
DeviceMemory allocate(PackedDevice& device, std::int64_t bytes, const std::string& what, const char* advice);

// Bytes of the device that on_device() needs for so many of the host.
std::int64_t room_on(const PackedDevice& device, std::int64_t host_bytes);
// Returns the host's data where the device can read it: in place, or copied to `room`.
template <class T>
const T* on_device(PackedDevice& device, const T* host, std::int64_t count, std::byte* room) {
  if (device.is_host()) return host;
  device.upload(room, host, count * static_cast<std::int64_t>(sizeof(T)));
  return reinterpret_cast<const T*>(room);
}

// Bytes of a device to the host and back, piece by piece, in order; they lie in the device's memory.
using ByteSink = std::function<void(std::span<const std::byte>)>;
using ByteSource = std::function<void(std::uint64_t first, std::span<std::byte>)>;
void download_pieces(PackedDevice& device, std::span<const std::byte> from, const ByteSink& sink);
void upload_pieces(PackedDevice& device, std::span<std::byte> to, const ByteSource& source);

}  // namespace lpmm
