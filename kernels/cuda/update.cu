// Launches the bodies of update_body.h.
#include <cuda_runtime.h>

#include <algorithm>
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

// The tables of one map at one width, as map_table() has them.
constexpr int kMostTableBits = 8;
static_assert(
    [] {
      for (const MapRow& row : kMaps) {
        if (has_table(row.map) && row.widths >> (kMostTableBits + 1) != 0) return false;
      }
      return true;
    }(),
    "a table of more entries than DeviceTable holds");
struct DeviceTable {
  float values[1 << kMostTableBits];
  Zone zones[2 * kZones];
};
__device__ DeviceTable device_tables[kTables];

// The tables' address on the current device; they are copied there at its first use.
const DeviceTable* tables_here() {
  constexpr std::size_t kMaxDevices = 64;
  static std::array<const DeviceTable*, kMaxDevices> addresses{};
  static std::mutex mutex;
  int device = 0;
  check(cudaGetDevice(&device), "no current device");
  const std::lock_guard lock(mutex);
  const DeviceTable*& address = addresses.at(static_cast<std::size_t>(device));
  if (address == nullptr) {
    static DeviceTable host[kTables];
    for (const Format format : all_formats()) {
      const MapTable table = map_table(format);
      if (table.values == nullptr) continue;
      DeviceTable& to = host[table_number(format)];
      std::copy_n(table.values, std::size_t{1} << format.bits, to.values);
      if (table.zones != nullptr) std::copy_n(table.zones, 2 * kZones, to.zones);
    }
    check(cudaMemcpyToSymbol(device_tables, host, sizeof host), "copy of the tables");
    void* found = nullptr;
    check(cudaGetSymbolAddress(&found, device_tables), "address of the tables");
    address = static_cast<const DeviceTable*>(found);
  }
  return address;
}
MapTable device_table(Format format) {
  const MapTable host = map_table(format);
  if (host.values == nullptr) return {};
  const DeviceTable* table = tables_here() + table_number(format);
  return {table->values, host.entries, host.zones == nullptr ? nullptr : table->zones, host.zero};
}

template <int kPhasesOfJob, class JobType>
__global__ void run_job(JobType job) {
  extern __shared__ __align__(8) std::uint32_t shared[];
  for (int phase = 0; phase < kPhasesOfJob; ++phase) {
    run_phase(phase, job, blockIdx.x, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x), shared);
    __syncthreads();
  }
}

__global__ void decode_elements(Slot src, std::int64_t first, std::int64_t count, float* dst) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) dst[i] = load_value(src, first + i);
}

template <int kPhasesOfJob = kPhases, class JobType>
void launch(const JobType& job, Stream stream) {
  if (units(job) == 0) return;
  const auto bytes = static_cast<int>(4 * shared_words(job));
  const auto kernel = run_job<kPhasesOfJob, JobType>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "shared memory");
  kernel<<<static_cast<unsigned>(units(job)), kThreads, static_cast<std::size_t>(bytes), stream>>>(job);
  check(cudaGetLastError(), "launch");
}

template <class RuleType>
__global__ void finish(NormsJob<RuleType> job) {
  finish_norms(job);
}

template <class RuleType>
void update_rule(const RuleType& rule, const RoleArray<RoleView>& roles, const Noise& noise, int* failed,
                 Stream stream) {
  static_assert(!FeedsBack<RuleType> || !HasNorms<RuleType>, "UpdateJob::fed_back knows no norms");
  UpdateJob<RuleType> job = make_update(rule, roles, noise, failed, device_table);
  if constexpr (HasNorms<RuleType>) {
    if (rule.needs_norms()) {
      NormsJob<RuleType> norms = make_norms(rule, roles, device_table);
      const std::size_t sum_bytes =
          sizeof(double) * RuleType::kNorms * static_cast<std::size_t>(units(norms));
      check(cudaMallocAsync(reinterpret_cast<void**>(&norms.sums), sum_bytes + sizeof(RuleType), stream),
            "room for norms");
      norms.with_norms = reinterpret_cast<RuleType*>(reinterpret_cast<std::uint8_t*>(norms.sums) + sum_bytes);
      launch<kNormPhases>(norms, stream);
      finish<<<1, 1, 0, stream>>>(norms);
      check(cudaGetLastError(), "launch");
      job.with_norms = norms.with_norms;
      launch(job, stream);
      check(cudaFreeAsync(norms.sums, stream), "room for norms");
      return;
    }
  }
  launch(job, stream);
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
          float scale, const Noise& noise, int* failed, Stream stream) {
  launch(make_fold(accumulator, first, count, contribution, scale, noise, failed, device_table), stream);
}

void update(const Rule& rule, const RoleArray<RoleView>& roles, const Noise& noise, int* failed,
            Stream stream) {
  std::visit([&](const auto& r) { update_rule(r, roles, noise, failed, stream); }, rule);
}

}  // namespace lpmm::kernels::cuda
