#include "lpmm/python/places.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "kernels/cpu_packed.h"
#include "kernels/cuda/gpu/gpu.h"
#include "lpmm/base/error.h"
#if defined(LPMM_EMULATED_GPU)
#include "kernels/cuda/emulated.h"
#endif

namespace lpmm {
namespace {

std::mutex lock;  // of what follows
std::shared_ptr<PackedDevice> host;
int host_threads = 0;
Team host_team = nullptr;
bool is_forked = false;
// GPUs and their rooms stay: when a program ends, CUDA may be gone before them.
auto& gpus = *new std::map<Place, std::shared_ptr<PackedDevice>>();
auto& kept = *new std::map<PackedDevice*, std::vector<DeviceMemory>>();

#if defined(LPMM_EMULATED_GPU)  // of tests: all tensors lie on a GPU whose memory is the host's
bool is_host(const Place&) {
  return false;
}
std::shared_ptr<PackedDevice> make_gpu(const Place&) {
  return std::make_shared<kernels::EmulatedPackedCuda>(1, false);
}
#else
bool is_host(const Place& place) {
  return place.first < 0;
}
std::shared_ptr<PackedDevice> make_gpu(const Place& place) {
  // Frameworks call the default stream 0, which means a stream of its own here.
  constexpr Address kDefaultStream = 1;  // cudaStreamLegacy
  kernels::GpuOptions options;
  options.number = place.first;
  options.stream = reinterpret_cast<void*>(place.second == 0 ? kDefaultStream : place.second);
  return kernels::make_packed_gpu(1, std::move(options));
}
#endif

std::shared_ptr<PackedDevice> device_of(const Place& place) {
  const std::lock_guard hold(lock);
  if (is_host(place)) {
    if (host == nullptr)
      host = std::make_shared<CpuPackedDevice>(host_threads, is_forked ? nullptr : host_team);
    return host;
  }
  std::shared_ptr<PackedDevice>& gpu = gpus[place];
  if (gpu == nullptr) {
    std::shared_ptr<PackedDevice> opened = make_gpu(place);
    const DeviceMemory memory = opened->allocate_shared(1);  // opens it
    gpu = std::move(opened);
  }
  return gpu;
}

}  // namespace

DeviceAt::Current::Current(int number) : gpu(number) {
  if (gpu >= 0) before = kernels::use_gpu(gpu);
}
DeviceAt::Current::~Current() {
  if (gpu >= 0 && before != gpu) kernels::use_gpu(before);
}
DeviceAt::DeviceAt(const Place& place) : current_(place.first), device_(device_of(place)) {}

PackedDevice& one_thread() {
  static CpuPackedDevice device(1);  // such a device has no state
  return device;
}

void set_threads(int threads, Address team) {
  if (threads < 0)
    throw UsageError("threads is " + std::to_string(threads) + ", but must be 0 (all processors) or more");
  std::shared_ptr<PackedDevice> old;  // ends after the lock
  const std::lock_guard hold(lock);
  if (threads == host_threads && reinterpret_cast<Team>(team) == host_team) return;
  host_threads = threads;
  host_team = reinterpret_cast<Team>(team);
  old.swap(host);
}

void survive_forks() {
  pthread_atfork([] { lock.lock(); }, [] { lock.unlock(); },
                 [] {
                   new (&host) std::shared_ptr<PackedDevice>();
                   is_forked = true;
                   lock.unlock();
                 });
}

DeviceMemory take_shared(PackedDevice& on, std::int64_t bytes) {
  DeviceMemory memory;
  if (!on.is_host()) {
    const std::lock_guard hold(lock);
    std::vector<DeviceMemory>& rooms = kept[&on];
    const auto found = std::find_if(rooms.begin(), rooms.end(), [&](const DeviceMemory& room) {
      return room.get_deleter().bytes >= bytes;
    });
    if (found != rooms.end()) {
      memory = std::move(*found);
      rooms.erase(found);
      return memory;
    }
  }
  memory = on.allocate_shared(std::max<std::int64_t>(bytes, 1));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void give_back(DeviceMemory memory) {
  if (memory == nullptr || memory.get_deleter().device->is_host()) return;
  PackedDevice* const on = memory.get_deleter().device;
  try {
    on->synchronize();  // what is queued may still write to it
  } catch (const std::exception&) {
    memory.release();  // a GPU that has failed, or that a forked child cannot reach
    return;
  }
  const std::lock_guard hold(lock);
  kept[on].push_back(std::move(memory));
}

}  // namespace lpmm
