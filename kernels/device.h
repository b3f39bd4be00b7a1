// Where work runs and the memory it works on lives. Every kernel is a member of a device: declared in the
// three headers below, implemented in the device's folder.
//
// Work is queued and done in order. What a call writes, later calls may read; the host may once it has
// synchronized. The host is the only device today: it has done the work when the call returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "kernels/compute.h"
#include "kernels/packed.h"
#include "kernels/pool.h"
#include "kernels/sequence.h"

namespace lpmm {

class Device;

// Memory of a device. It is given back before the device goes.
struct ReleaseMemory {
  Device* device = nullptr;
  std::int64_t bytes = 0;
  void operator()(std::byte* memory) const;
};
using DeviceMemory = std::unique_ptr<std::byte[], ReleaseMemory>;

class Device : public kernels::PackedKernels,
               public kernels::ComputeKernels,
               public kernels::SequenceKernels {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual std::string_view name() const = 0;
  // Zeroed, 64-byte aligned; null where there is no memory. Shared memory the host reads and writes too.
  virtual DeviceMemory allocate(std::int64_t bytes) = 0;
  virtual DeviceMemory allocate_shared(std::int64_t bytes) = 0;
  // Waits for all work queued so far.
  virtual void synchronize() = 0;
  // Threads of the host, for what is done there: reading, drawing, encoding of initial values. Sizes of
  // scratch memory are for so many.
  virtual Pool& host_pool() = 0;
  virtual int host_threads() const = 0;

 protected:
  friend struct ReleaseMemory;
  Device() = default;
  virtual void release(std::byte* memory, std::int64_t bytes) noexcept = 0;
};

// The devices that a run may name.
inline constexpr std::string_view kDeviceNames[] = {"cpu", "cuda-emulated"};
// Threads of the host as in CpuDevice. Throws std::invalid_argument where there is no such device.
std::unique_ptr<Device> make_device(std::string_view name, int threads);

inline void ReleaseMemory::operator()(std::byte* memory) const {
  device->release(memory, bytes);
}

}  // namespace lpmm
