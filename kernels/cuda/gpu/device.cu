// Memory, waiting and products of a GPU; what it computes is in the other .cu files.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "kernels/cuda/compute/map.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/facts.h"
#include "kernels/cuda/gpu/cudnn.h"
#include "kernels/cuda/gpu/gpu.h"
#include "kernels/cuda/gpu/peer.h"
#include "kernels/cuda/gpu/products.h"

namespace lpmm::kernels {
namespace cuda {
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

// The facts of the device of that number, whose properties go to `device`.
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
class Staging {
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

class Gpu final : public CudaDevice {
 public:
  Gpu(int threads, GpuOptions options) : CudaDevice(threads, true), options_(std::move(options)) {
    stream_ = static_cast<Stream>(options_.stream);
  }
  ~Gpu() override {
    arrivals_.release();
    convolutions_.reset();
    products_.reset();
    staging_.reset();
    if (options_.stream == nullptr && stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  std::string_view name() const override { return kGpu; }
  bool is_host() const override { return false; }

  std::string compute_library() const override {
    return is_open_ ? library_ + ", " + device_ : std::string(kGpu);
  }
  DeviceMemory allocate(std::int64_t bytes) override {
    open();
    void* memory = nullptr;
    if (options_.allocate) {
      memory = options_.allocate(bytes);
      if (memory == nullptr) return {};
    } else if (const cudaError_t error = cudaMalloc(&memory, static_cast<std::size_t>(bytes));
               error != cudaErrorMemoryAllocation) {
      check(error, "allocation");
    } else {
      cudaGetLastError();
      return {};
    }
    fill_with_zeros(memory, bytes);
    return {static_cast<std::byte*>(memory), {this, bytes}};
  }
  DeviceMemory allocate_shared(std::int64_t bytes) override {
    open();
    void* memory = nullptr;
    if (cudaHostAlloc(&memory, static_cast<std::size_t>(bytes), cudaHostAllocMapped) != cudaSuccess) {
      cudaGetLastError();
      return {};
    }
    std::memset(memory, 0, static_cast<std::size_t>(bytes));
    const std::lock_guard lock(mutex_);
    shared_.insert(memory);
    return {static_cast<std::byte*>(memory), {this, bytes}};
  }
  std::optional<std::int64_t> available_memory() override {
    open();
    std::size_t free = 0, all = 0;
    check(cudaMemGetInfo(&free, &all), "free memory");
    // The context is there by now, and what a run takes counts it.
    return std::min(static_cast<std::int64_t>(all), static_cast<std::int64_t>(free) + kOwnBytes);
  }

  // The context, code of kernels and libraries, on an H100 with CUDA 13: 594 MB were measured, 13 MB more
  // with cuDNN.
  std::optional<std::int64_t> own_bytes() const override { return kOwnBytes; }

  void upload(void* to, const void* host, std::int64_t bytes) override {
    if (bytes == 0) return;
    staging_->upload(static_cast<std::byte*>(to), static_cast<const std::byte*>(host), bytes, stream());
  }
  void download(void* host, const void* from, std::int64_t bytes) override {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(host, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost, stream()),
          "copy to the host");
    synchronize();
  }
  void copy(void* to, const void* from, std::int64_t bytes) override {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, stream()),
          "copy");
  }
  void fill_with_zeros(void* to, std::int64_t bytes) override {
    if (bytes > 0) cuda::fill_with_zeros(to, bytes, stream());
  }
  void synchronize() override {
    if (is_open_)
      check(cudaStreamSynchronize(stream()), "work on the device (CUDA_LAUNCH_BLOCKING=1 names it)");
  }
  // Memory of a caller's allocator may lie anywhere in what that has of CUDA, which a handle does not say.
  std::string peer_name(const std::byte* memory) override {
    return options_.allocate ? std::string{} : cuda::peer_name(memory);
  }
  std::unique_ptr<PeerMemory> open_peer(std::string_view name) override {
    open();
    return cuda::open_peer(name, stream());
  }

  void matmul(const MatrixArgs& args, void* scratch) override {
    open();
    if (args.bias == nullptr) return products_->multiply(args, nullptr, scratch, stream());
    const bool is_narrow = args.c_type == ValueType::kBf16;
    auto* const room = reinterpret_cast<float*>(static_cast<std::byte*>(scratch) + Products::kScratchBytes);
    if (Products::adds_bias(args)) {
      if (is_narrow) from_float(args.c_type, args.n, args.bias, room);
      return products_->multiply(args, is_narrow ? room : args.bias, scratch, stream());
    }
    MatrixArgs sums = args;
    if (is_narrow) {
      sums.c = room;
      sums.c_stride = args.n;
      sums.c_type = ValueType::kFp32;
    }
    products_->multiply(sums, nullptr, scratch, stream());
    const Rows of_bias = {args.m, args.n, 0, sums.c_stride, true},
               of_sums = {args.m, args.n, args.n, args.c_stride};
    move_rows(stream(), of_bias, args.bias, static_cast<float*>(sums.c));
    if (is_narrow) move_rows(stream(), of_sums, room, static_cast<std::uint16_t*>(args.c));
  }
  // The library's, and room for sums that a bias is added to here.
  std::int64_t matmul_scratch_bytes(const MatrixArgs& args) const override {
    return Products::kScratchBytes + (args.c_type == ValueType::kFp32 ? 0 : 4 * args.m * args.n);
  }

  // cuDNN starts with the first convolution, since that takes a while.
  const LibraryConvolution* library_convolution(const ConvPass& pass) override {
    open();
    const std::lock_guard lock(mutex_);
    if (cudnn_ && !std::exchange(has_asked_cudnn_, true)) {
      convolutions_ = CudnnConvolutions::start(*cudnn_, stream());
    }
    return convolutions_ == nullptr ? nullptr : convolutions_->find(pass);
  }

 private:
  void release(std::byte* memory, std::int64_t bytes) noexcept override {
    cudaStreamSynchronize(stream());  // what is queued may still use it
    {
      const std::lock_guard lock(mutex_);
      if (shared_.erase(memory) > 0) {
        cudaFreeHost(memory);
        return;
      }
    }
    options_.release ? options_.release(memory, bytes) : static_cast<void>(cudaFree(memory));
  }
  void open() {
    std::call_once(opened_, [&] { open_now(); });
  }
  void open_now() {
    cudaDeviceProp device{};
    if (const std::string why = why_no_gpu(facts_of(options_.number, &device)); !why.empty()) {
      throw std::runtime_error("CUDA: " + why + "; train.device = \"cpu\" trains on the processor");
    }
    check(cudaSetDevice(options_.number), "device");
    if (stream_ == nullptr) check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    keep_pool(options_.number);
    staging_.emplace();
    const CublasLt library = load_cublas();
    library_ = version_of(library);
    products_.emplace(library);
    if (options_.with_cudnn) cudnn_ = load_cudnn();
    if (cudnn_) library_ += ", " + version_of(*cudnn_);
    device_ = device.name;
    is_open_ = true;
  }

  // Room for sums is taken and given back in each step: the system is not to have it in between.
  static void keep_pool(int number) {
    cudaMemPool_t pool = nullptr;
    check(cudaDeviceGetDefaultMemPool(&pool, number), "pool of memory");
    std::uint64_t all = std::numeric_limits<std::uint64_t>::max();
    check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all), "pool of memory");
  }

  static constexpr std::int64_t kOwnBytes = 610'000'000;
  const GpuOptions options_;
  std::once_flag opened_;
  std::atomic<bool> is_open_ = false;
  std::mutex mutex_;  // of shared_ and convolutions_
  std::string device_, library_;
  std::set<void*> shared_;
  std::optional<Staging> staging_;
  std::optional<Products> products_;
  std::optional<Cudnn> cudnn_;
  bool has_asked_cudnn_ = false;  // to start
  std::unique_ptr<CudnnConvolutions> convolutions_;
};

}  // namespace

bool kernels_wait() {
  constexpr int kFirst = 90;
  static const bool wait = architecture() >= kFirst;
  return wait;
}

}  // namespace cuda

std::unique_ptr<Device> make_gpu(int threads, GpuOptions options) {
  if (!options.allocate != !options.release) {
    throw std::invalid_argument("GpuOptions: allocate and release come together, or neither");
  }
  return std::make_unique<cuda::Gpu>(threads, std::move(options));
}

bool gpu_is_there() {
  return gpu_backend().is_available();
}

BackendInfo gpu_backend() {
  BackendInfo info{.name = kGpu, .is_built = true};
  cudaDeviceProp device{};
  info.why_not = why_no_gpu(cuda::facts_of(0, &device));
  if (device.major > 0) {
    info.device = device.name;
    info.compute_capability = std::to_string(device.major) + "." + std::to_string(device.minor);
    info.memory_bytes = static_cast<std::int64_t>(device.totalGlobalMem);
  }
  int runtime = 0;
  cudaRuntimeGetVersion(&runtime);
  info.libraries.push_back("CUDA runtime " + std::to_string(runtime / 1000) + "." +
                           std::to_string(runtime % 1000 / 10));
  if (!info.is_available()) return info;
  try {
    info.libraries.push_back(cuda::version_of(cuda::load_cublas()));
  } catch (const std::exception& e) {
    info.why_not = e.what();
  }
  if (const auto cudnn = cuda::load_cudnn()) info.libraries.push_back(cuda::version_of(*cudnn));
  return info;
}

}  // namespace lpmm::kernels
