// The tables of formats on a GPU; the emulated device has the host's. Compiled by nvcc alone.
#include <algorithm>
#include <array>
#include <mutex>

#include "kernels/cuda/launch.h"
#include "kernels/formats/maps.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {
namespace {

// The tables as map_table() has them.
struct DeviceTables {
  float values[kTableValues];
  Zone zones[kTables][2 * kZones];
};
__device__ DeviceTables device_tables;

// The tables' address on the current device; they are copied there at its first use.
const DeviceTables* tables_here() {
  constexpr std::size_t kMaxDevices = 64;
  static std::array<const DeviceTables*, kMaxDevices> addresses{};
  static std::mutex mutex;
  int device = 0;
  check(cudaGetDevice(&device), "no current device");
  const std::lock_guard lock(mutex);
  const DeviceTables*& address = addresses.at(static_cast<std::size_t>(device));
  if (address == nullptr) {
    static DeviceTables host;
    for (const Format format : all_formats()) {
      const MapTable table = map_table(format);
      if (table.values == nullptr) continue;
      std::copy_n(table.values, table_values(format), host.values + first_value(format));
      if (table.zones != nullptr) std::copy_n(table.zones, 2 * kZones, host.zones[table_number(format)]);
    }
    check(cudaMemcpyToSymbol(device_tables, &host, sizeof host), "copy of the tables");
    check(cudaDeviceSynchronize(), "copy of the tables");  // other streams do not wait for it
    void* found = nullptr;
    check(cudaGetSymbolAddress(&found, device_tables), "address of the tables");
    address = static_cast<const DeviceTables*>(found);
  }
  return address;
}

}  // namespace

MapTable device_table(Format format) {
  const MapTable host = map_table(format);
  if (host.values == nullptr) return {};
  const DeviceTables* tables = tables_here();
  return {tables->values + first_value(format), host.entries,
          host.zones == nullptr ? nullptr : tables->zones[table_number(format)], host.zero, 0.0F};
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
