// Where work runs and the memory it works on lives. Every kernel is a member of a device: declared in the
// four headers below, implemented in the device's folder.
//
// Work is queued and done in order. What a call writes, later calls may read. All pointers that a kernel
// takes are of the device's memory; the host reads and writes what is shared, once it has synchronized, and
// copies the rest. The CPU has done the work when the call returns, and its memory is the host's.
//
// Threads of the host may share a device: each call is whole, whatever others do meanwhile, and gives the
// same bits. All of them use one queue and one pool, so that this saves time where the host does other things
// in between. What lies in its memory, and convolution()s, are one thread's at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/compute.h"
#include "kernels/formats/quantiles.h"
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

// Elements of a weight, and logits, that exist unpacked at once: enough to keep a device busy. Of a
// vocabulary, what does not fill `columns` columns is a panel of its own: odd ones are slow on some devices.
struct PanelSizes {
  std::int64_t weights = std::int64_t{1} << 20, logits = std::int64_t{1} << 22, columns = 1;
};

class Device : public kernels::PackedKernels,
               public kernels::ComputeKernels,
               public kernels::SequenceKernels,
               public kernels::QuantileKernels {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual std::string_view name() const = 0;
  // Whether the host reads and writes its memory, so that nothing needs to be copied between them.
  virtual bool is_host() const = 0;
  // What multiplies matrices and on what, for the record: results' last bits depend on it.
  virtual std::string compute_library() const = 0;
  virtual PanelSizes panel_sizes() const { return {}; }
  // Zeroed, 64-byte aligned; null where there is no memory. Shared memory the host reads and writes too.
  virtual DeviceMemory allocate(std::int64_t bytes) = 0;
  virtual DeviceMemory allocate_shared(std::int64_t bytes) = 0;
  // Between the host and the device's memory, and within it. The host's bytes may be reused on return; a
  // download waits for all work queued so far. Ranges may not overlap.
  virtual void upload(void* to, const void* host, std::int64_t bytes) = 0;
  virtual void download(void* host, const void* from, std::int64_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::int64_t bytes) = 0;
  virtual void fill_with_zeros(void* to, std::int64_t bytes) = 0;
  // What of its memory is free, and what it takes of it for itself, about; nothing where that is the host's.
  virtual std::optional<std::int64_t> available_memory() { return {}; }
  virtual std::optional<std::int64_t> own_bytes() const { return {}; }
  // Waits for all work queued so far.
  virtual void synchronize() = 0;
  // The host as a device: the CPU, which is its own. Sizes of scratch memory are for so many threads of it.
  virtual Device& host() = 0;
  // Threads of the host, for what is done there: reading data, drawing initial values.
  virtual Pool& host_pool() = 0;
  virtual int host_threads() const = 0;

 protected:
  friend struct ReleaseMemory;
  Device() = default;
  virtual void release(std::byte* memory, std::int64_t bytes) noexcept = 0;
};

// The devices that a run may name. "auto" is the first of the others that is there, "cuda" or "cpu".
inline constexpr std::string_view kAutoDevice = "auto";
inline constexpr std::string_view kDeviceNames[] = {kAutoDevice, "cpu", "cuda", "cuda-emulated"};
// Threads of the host as in CpuDevice. Throws std::invalid_argument where there is no such device, and
// std::runtime_error where this program has it not built in.
std::unique_ptr<Device> make_device(std::string_view name, int threads);

// A device by name, as this program and this machine have it.
struct BackendInfo {
  std::string_view name;
  bool is_built = false;
  std::string why_not = {};  // empty where it can be used
  std::string device = {}, compute_capability = {};
  std::int64_t memory_bytes = 0;  // of its own; 0: the host's
  std::vector<std::string> libraries = {};
  bool is_available() const { return why_not.empty(); }
};
std::vector<BackendInfo> backends();

inline void ReleaseMemory::operator()(std::byte* memory) const {
  device->release(memory, bytes);
}

}  // namespace lpmm
