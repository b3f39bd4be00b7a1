// Launches the bodies of update_body.h.
#include <cuda_runtime.h>

#include <array>
#include <mutex>
#include <stdexcept>
#include <string>

#include "kernels/cuda.h"
#include "kernels/cuda/update_body.h"
#include "kernels/maps.h"

namespace lpmm::kernels::cuda {
namespace {

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string("CUDA: ") + what + ": " + cudaGetErrorString(error));
  }
}

constexpr int kTableMaps = 7;
constexpr int kTableEntries = 16 + 256;  // the 4-bit and the 8-bit table of a map
__device__ float device_tables[kTableMaps * kTableEntries];

// The tables on the current device, copied there at its first use.
const float* tables_here() {
  constexpr int kMaxDevices = 64;
  static std::array<const float*, kMaxDevices> addresses{};
  static std::mutex mutex;
  int device = 0;
  check(cudaGetDevice(&device), "no current device");
  const std::lock_guard lock(mutex);
  const float*& address = addresses.at(static_cast<std::size_t>(device));
  if (address == nullptr) {
    std::array<float, kTableMaps * kTableEntries> host{};
    for (int map = 0; map < kTableMaps; ++map) {
      for (const int bits : {4, 8}) {
        const MapTable table = map_table({static_cast<Map>(map), static_cast<std::uint8_t>(bits)});
        for (int i = 0; i < table.entries; ++i) {
          host[static_cast<std::size_t>(map * kTableEntries + (bits == 8 ? 16 : 0) + i)] = table.values[i];
        }
      }
    }
    check(cudaMemcpyToSymbol(device_tables, host.data(), sizeof host), "copy of the tables");
    void* found = nullptr;
    check(cudaGetSymbolAddress(&found, device_tables), "address of the tables");
    address = static_cast<const float*>(found);
  }
  return address;
}
MapTable device_table(Format format) {
  const int entries = map_table(format).entries;
  if (entries == 0) return {};
  return {tables_here() + static_cast<int>(format.map) * kTableEntries + (format.bits == 8 ? 16 : 0),
          entries};
}

template <class JobType>
__global__ void run_job(JobType job) {
  extern __shared__ std::uint32_t shared[];
  for (int phase = 0; phase < kPhases; ++phase) {
    run_phase(phase, job, blockIdx.x, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x), shared);
    __syncthreads();
  }
}

__global__ void decode_elements(Slot src, std::int64_t first, std::int64_t count, float* dst) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) dst[i] = load_value(src, first + i);
}

template <class JobType>
void launch(const JobType& job, Stream stream) {
  if (units(job) == 0) return;
  const auto bytes = static_cast<int>(4 * shared_words(job));
  check(cudaFuncSetAttribute(run_job<JobType>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "shared memory");
  run_job<<<static_cast<unsigned>(units(job)), kThreads, static_cast<std::size_t>(bytes), stream>>>(job);
  check(cudaGetLastError(), "launch");
}

}  // namespace

const char* unavailable() {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess) return cudaGetErrorString(error);
  return devices == 0 ? "no CUDA device" : nullptr;
}

void* allocate(std::int64_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, static_cast<std::size_t>(bytes)), "allocation");
  check(cudaMemset(memory, 0, static_cast<std::size_t>(bytes)), "clearing");
  return memory;
}
void release(void* memory) noexcept {
  cudaFree(memory);
}
void upload(void* device, const void* host, std::int64_t bytes) {
  check(cudaDeviceSynchronize(), "earlier work");
  check(cudaMemcpy(device, host, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice),
        "copy to the device");
}
void download(void* host, const void* device, std::int64_t bytes) {
  check(cudaDeviceSynchronize(), "earlier work");
  check(cudaMemcpy(host, device, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost),
        "copy to the host");
}

void encode(const RoleView& dst, std::int64_t first, std::int64_t count, const float* src, const Noise& noise,
            int* failed, Stream stream) {
  launch(make_encode(dst, first, count, src, noise, failed, device_table), stream);
}

void decode(const RoleView& src, std::int64_t first, std::int64_t count, float* dst, Stream stream) {
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  decode_elements<<<blocks, kThreads, 0, stream>>>(make_slot(src, device_table, {}), first, count, dst);
  check(cudaGetLastError(), "launch");
}

void fold(const RoleView& accumulator, std::int64_t first, std::int64_t count, const float* contribution,
          float scale, float headroom, const Noise& noise, int* failed, Stream stream) {
  launch(make_fold(accumulator, first, count, contribution, scale, headroom, noise, failed, device_table),
         stream);
}

void update(const Rule& rule, const Roles& roles, const Noise& noise, int* failed, Stream stream) {
  std::visit([&](const auto& r) { launch(make_update(r, roles, noise, failed, device_table), stream); },
             rule);
}

}  // namespace lpmm::kernels::cuda
