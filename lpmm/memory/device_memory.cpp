#include "lpmm/memory/device_memory.h"

#include <fmt/format.h>

#include "lpmm/base/error.h"

namespace lpmm {

DeviceMemory allocate(Device& device, std::int64_t bytes, const std::string& what, const char* advice) {
  if (bytes == 0) return {};
  DeviceMemory memory = device.allocate(bytes);
  if (memory == nullptr) {
    throw RunError(
        fmt::format("no memory for {}: {:.1f} MB; use {}", what, static_cast<double>(bytes) / 1e6, advice));
  }
  return memory;
}

}  // namespace lpmm
