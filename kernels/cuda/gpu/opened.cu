#include "kernels/cuda/gpu/opened.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

namespace lpmm::kernels::cuda {
namespace {

__global__ void do_nothing() {
  begin_kernel();
}

// The architecture that the device's code was compiled for.
int architecture() {
  cudaFuncAttributes of{};
  const cudaError_t error = cudaFuncGetAttributes(&of, do_nothing);
  cudaGetLastError();  // forgets that error
  return error == cudaSuccess ? std::min(of.ptxVersion, of.binaryVersion) : 0;
}

// Room for sums is taken and given back in each step: the system is not to have it in between.
void keep_pool(int number) {
  cudaMemPool_t pool = nullptr;
  check(cudaDeviceGetDefaultMemPool(&pool, number), "pool of memory");
  std::uint64_t all = std::numeric_limits<std::uint64_t>::max();
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all), "pool of memory");
}

}  // namespace

bool kernels_wait() {
  constexpr int kFirst = 90;
  static const bool wait = architecture() >= kFirst;
  return wait;
}

GpuFacts facts_of(int number, cudaDeviceProp* device) {
  GpuFacts facts;
  const auto failed = [&](cudaError_t error) {
    facts.asked = error == cudaErrorNoDevice             ? GpuFacts::Asked::kNone
                  : error == cudaErrorInsufficientDriver ? GpuFacts::Asked::kOldDriver
                                                         : GpuFacts::Asked::kFailed;
    facts.error = cudaGetErrorString(error);
    return facts;
  };
  int driver = 0, count = 0;
  facts.has_driver = cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) return failed(error);
  if (const cudaError_t error = cudaGetDeviceProperties(device, number); error != cudaSuccess)
    return failed(error);
  facts.name = device->name;
  facts.major = device->major;
  facts.minor = device->minor;
  cudaFuncAttributes attributes{};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, do_nothing);  // opens the device
  cudaGetLastError();                                                        // forgets that error
  facts.has_code = error != cudaErrorNoKernelImageForDevice && error != cudaErrorInvalidDeviceFunction;
  return facts.has_code && error != cudaSuccess ? failed(error) : facts;
}

// Memory of the host that the device copies from while the host goes on: slots, taken in turn.
class OpenedGpu::Staging {
 public:
  static constexpr std::int64_t kSlotBytes = 1 << 20;
  Staging() {
    for (Slot& slot : slots_) {
      check(cudaHostAlloc(&slot.memory, kSlotBytes, cudaHostAllocDefault), "pinned memory");
      check(cudaEventCreateWithFlags(&slot.done, cudaEventDisableTiming), "event");
    }
  }
  ~Staging() {
    for (Slot& slot : slots_) {
      cudaEventDestroy(slot.done);
      cudaFreeHost(slot.memory);
    }
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  void upload(std::byte* to, const std::byte* host, std::int64_t bytes, Stream stream) {
    const std::lock_guard lock(mutex_);
    for (std::int64_t at = 0; at < bytes; at += kSlotBytes) {
      const auto piece = static_cast<std::size_t>(std::min(kSlotBytes, bytes - at));
      Slot& slot = slots_[next_];
      next_ = (next_ + 1) % slots_.size();
      check(cudaEventSynchronize(slot.done), "earlier copy");
      std::memcpy(slot.memory, host + at, piece);
      check(cudaMemcpyAsync(to + at, slot.memory, piece, cudaMemcpyHostToDevice, stream),
            "copy to the device");
      check(cudaEventRecord(slot.done, stream), "event");
    }
  }

 private:
  struct Slot {
    void* memory = nullptr;
    cudaEvent_t done = nullptr;
  };
  std::mutex mutex_;
  std::array<Slot, 16> slots_;
  std::size_t next_ = 0;
};

OpenedGpu::OpenedGpu(GpuOptions options)
    : options_(std::move(options)), stream_(static_cast<Stream>(options_.stream)) {
  if (!options_.allocate != !options_.release) {
    throw std::invalid_argument("GpuOptions: allocate and release come together, or neither");
  }
}
OpenedGpu::~OpenedGpu() {
  products_.reset();
  staging_.reset();
  if (options_.stream == nullptr && stream_ != nullptr) cudaStreamDestroy(stream_);
}

void OpenedGpu::open() {
  cudaDeviceProp device{};
  if (const std::string why = why_no_gpu(facts_of(options_.number, &device)); !why.empty()) {
    throw std::runtime_error("CUDA: " + why + "; the CPU does the same work (train.device = \"cpu\")");
  }
  check(cudaSetDevice(options_.number), "device");
  if (stream_ == nullptr) check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
  keep_pool(options_.number);
  device_ = device.name;
  is_open_ = true;
}

std::byte* OpenedGpu::allocate(std::int64_t bytes) const {
  if (options_.allocate) return static_cast<std::byte*>(options_.allocate(bytes));
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, static_cast<std::size_t>(bytes));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // forgets that error
    return nullptr;
  }
  check(error, "allocation");
  return static_cast<std::byte*>(memory);
}
std::byte* OpenedGpu::allocate_shared(std::int64_t bytes) {
  void* memory = nullptr;
  if (cudaHostAlloc(&memory, static_cast<std::size_t>(bytes), cudaHostAllocMapped) != cudaSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  std::memset(memory, 0, static_cast<std::size_t>(bytes));
  const std::lock_guard lock(mutex_);
  shared_.insert(memory);
  return static_cast<std::byte*>(memory);
}
void OpenedGpu::release(std::byte* memory, std::int64_t bytes) noexcept {
  cudaStreamSynchronize(stream_);  // what is queued may still use it
  {
    const std::lock_guard lock(mutex_);
    if (shared_.erase(memory) > 0) {
      cudaFreeHost(memory);
      return;
    }
  }
  options_.release ? options_.release(memory, bytes) : static_cast<void>(cudaFree(memory));
}
void OpenedGpu::upload(void* to, const void* host, std::int64_t bytes) {
  std::call_once(staging_begun_, [&] { staging_ = std::make_unique<Staging>(); });
  staging_->upload(static_cast<std::byte*>(to), static_cast<const std::byte*>(host), bytes, stream_);
}
void OpenedGpu::synchronize() const {
  if (is_open_) {
    check(cudaStreamSynchronize(stream_), "work on the device (CUDA_LAUNCH_BLOCKING=1 names it)");
  }
}

Products& OpenedGpu::products() {
  std::call_once(products_begun_, [&] {
    const CublasLt library = load_cublas();
    products_.emplace(library);
    library_ = version_of(library);
  });
  return *products_;
}

}  // namespace lpmm::kernels::cuda
