// The hardware that work on packed memory runs on, and the memory it works on: all that lpmm/memory needs. A
// new kind of hardware begins with this class; one that trains networks is a Device (kernels/device.h).
//
// Work is queued and done in order. Later calls may read what a call writes. All pointers that a kernel takes
// are of the device's memory; the host reads and writes what is shared, once it has synchronized, and copies
// the rest. The CPU has done the work when the call returns, and its memory is the host's.
//
// Threads of the host may share a device: each call is whole, whatever others do meanwhile, and gives the
// same bits. All of them use one queue and one pool, so that this saves time where the host does other things
// in between. Data in its memory belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kernels/matrix.h"
#include "kernels/packed.h"
#include "kernels/threads/pool.h"

namespace lpmm {

class PackedDevice;

// Memory of a device. It is given back before the device goes.
struct ReleaseMemory {
  PackedDevice* device = nullptr;
  std::int64_t bytes = 0;
  void operator()(std::byte* memory) const;
};
using DeviceMemory = std::unique_ptr<std::byte[], ReleaseMemory>;

// Device memory of another process of this host, or of another device of this process. It is only read, and
// only while that process leaves it as it is.
class PeerMemory {
 public:
  struct Part {
    const std::byte* from = nullptr;  // from address() on
    void* to = nullptr;               // of this device's memory
    std::int64_t bytes = 0;
  };
  virtual ~PeerMemory() = default;
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;
  // Where it begins. If it is mapped, this device's kernels and copies reach it there; if not, it is an
  // address of that process, for read() alone.
  virtual const std::byte* address() const = 0;
  virtual bool is_mapped() const = 0;
  // Copies parts to this device's memory; queued like other work. Throws std::system_error where they cannot
  // be read: of ESRCH or EFAULT if that process has ended, or has given the memory back.
  virtual void read(std::span<const Part> parts) const = 0;

 protected:
  PeerMemory() = default;
};

// Carries bytes from a device's memory to that of devices of other processes, of any host, without the host's
// memory between.
class DeviceLink {
 public:
  struct Part {
    int rank = 0;
    std::byte* at = nullptr;  // of the device's memory
    std::int64_t bytes = 0;
  };
  // All work that was queued on the device when it was made. Null: when the exchange begins.
  using Mark = std::shared_ptr<const void>;

  virtual ~DeviceLink() = default;
  DeviceLink(const DeviceLink&) = delete;
  DeviceLink& operator=(const DeviceLink&) = delete;
  virtual Mark mark() = 0;
  // Begins an exchange, which waits for the mark's work and then goes on beside what else the device does.
  // What is sent to a rank arrives there in the order of its parts, which are as long as those that the rank
  // receives. All stay in place until is_done(), before which no other exchange begins.
  virtual void begin(const Mark& after, std::span<const Part> send, std::span<const Part> receive) = 0;
  // Returns true if the link is open and nothing is under way. Work that is queued on the device from then on
  // reads what has come. Throws std::runtime_error where the exchange, or the opening, has failed.
  virtual bool is_done() = 0;

 protected:
  DeviceLink() = default;
};

class PackedDevice : public kernels::PackedKernels, public kernels::MatrixKernels {
 public:
  virtual ~PackedDevice() = default;
  PackedDevice(const PackedDevice&) = delete;
  PackedDevice& operator=(const PackedDevice&) = delete;

  virtual std::string_view name() const = 0;
  // True if the host reads and writes the device's memory, so that nothing needs to be copied between them.
  virtual bool is_host() const = 0;
  // The library that multiplies matrices and its hardware, for the record: results' last bits depend on it.
  virtual std::string compute_library() const = 0;
  // Zeroed, 64-byte aligned; null where there is no memory. Shared memory the host reads and writes too.
  virtual DeviceMemory allocate(std::int64_t bytes) = 0;
  virtual DeviceMemory allocate_shared(std::int64_t bytes) = 0;
  // Between the host and the device's memory, and within it. The host's bytes may be reused on return; a
  // download waits for all work queued so far. Ranges may not overlap.
  virtual void upload(void* to, const void* host, std::int64_t bytes) = 0;
  virtual void download(void* host, const void* from, std::int64_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::int64_t bytes) = 0;
  virtual void fill_with_zeros(void* to, std::int64_t bytes) = 0;
  // About how much of the device's memory is free, and how much it takes for itself; nothing where the memory
  // is the host's.
  virtual std::optional<std::int64_t> available_memory() { return {}; }
  virtual std::optional<std::int64_t> own_bytes() const { return {}; }
  // Waits for all work queued so far.
  virtual void synchronize() = 0;
  // A name, by which devices of this kind in other processes of this host open memory that allocate()
  // returned; empty where they cannot. Opening it returns null where that does not work from here. That it is
  // the memory which was named has to be seen by its contents: a number of a process can mean another one
  // here.
  virtual std::string peer_name(const std::byte* /*memory*/) { return {}; }
  virtual std::unique_ptr<PeerMemory> open_peer(std::string_view /*name*/) { return nullptr; }
  // A link of this device to those of other processes. The name that one of them makes lets all open it;
  // empty where it has none. It is open when it says so (DeviceLink::is_done); null where it cannot be opened
  // here.
  virtual std::string link_name() { return {}; }
  virtual std::unique_ptr<DeviceLink> open_link(std::string_view /*name*/, int /*rank*/, int /*ranks*/) {
    return nullptr;
  }
  // The host as a device, which is its own. Sizes of scratch memory are for so many threads of it.
  virtual PackedDevice& host() = 0;
  // Threads of the host, for what is done there: reading data, drawing initial values.
  virtual Pool& host_pool() = 0;
  virtual int host_threads() const = 0;

 protected:
  friend struct ReleaseMemory;
  PackedDevice() = default;
  virtual void release(std::byte* memory, std::int64_t bytes) noexcept = 0;
};

inline void ReleaseMemory::operator()(std::byte* memory) const {
  device->release(memory, bytes);
}

}  // namespace lpmm
