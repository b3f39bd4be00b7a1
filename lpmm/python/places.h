// Where a framework's tensors lie, and the devices that work on them there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "kernels/packed_device.h"

namespace lpmm {

using Address = std::uintptr_t;
// The number of a GPU, and the cudaStream_t on which the framework queues its work; a number below 0 is the
// host.
using Place = std::pair<int, Address>;

// The device of a place. It stays while somebody works with it, though another thread may ask for another
// number of threads of the host; a GPU is the current one of the thread meanwhile.
class DeviceAt {
 public:
  explicit DeviceAt(const Place& place);
  DeviceAt(const DeviceAt&) = delete;
  DeviceAt& operator=(const DeviceAt&) = delete;
  PackedDevice& operator*() const { return *device_; }
  PackedDevice* operator->() const { return device_.get(); }

 private:
  struct Current {  // GPU of the thread
    explicit Current(int gpu);
    ~Current();
    int gpu, before = -1;
  } current_;
  std::shared_ptr<PackedDevice> device_;
};

// Tensors of fewer elements take one thread of the host, as waking threads takes longer than their work.
inline constexpr std::int64_t kSmall = 65536;
PackedDevice& one_thread();

// 0: all processors. Throws UsageError below. `team`, if not 0, is a Team: the framework's own threads, which
// spin between its kernels and leave others no processor.
void set_threads(int threads, Address team);
// Threads do not outlive a fork: the child leaves the device where it is, and makes its own, without a team.
void survive_forks();

// What kernels write and the host reads, once it has synchronized. A GPU's memory of this kind is kept for
// the next.
DeviceMemory take_shared(PackedDevice& on, std::int64_t bytes);  // throws std::bad_alloc
void give_back(DeviceMemory memory);
template <class T>
class Results {
 public:
  Results(PackedDevice& on, std::size_t count)
      : memory_(take_shared(on, static_cast<std::int64_t>(count * sizeof(T)))),
        data_(new (memory_.get()) T[count]()) {}
  ~Results() { give_back(std::move(memory_)); }
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;
  T& operator[](std::size_t i) { return data_[i]; }

 private:
  DeviceMemory memory_;
  T* data_;
};

}  // namespace lpmm
