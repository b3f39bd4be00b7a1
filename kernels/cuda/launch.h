// The parts of the machine that a .cu file needs. nvcc: a device, in the namespace cuda. The host's compiler:
// fibers, in the namespace cuda_emulated; the same kernels, the same launches.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "kernels/formats/maps.h"

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#define LPMM_CUDA_NAMESPACE cuda
#define LPMM_DEVICE __device__ __forceinline__
// UNROLL is for a loop over an array that is to stay in registers, ROLLED for one whose unrolled code would
// not fit.
#define LPMM_UNROLL _Pragma("unroll")
#define LPMM_ROLLED _Pragma("unroll 1")
#else
#include "kernels/cuda/fibers.h"
#include "kernels/cuda/guarded.h"
#define LPMM_CUDA_NAMESPACE cuda_emulated
#define LPMM_DEVICE inline
#define LPMM_UNROLL
#define LPMM_ROLLED
#endif

struct CUstream_st;  // the CUDA runtime's cudaStream_t is a pointer to it

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

using Stream = CUstream_st*;  // null: the default stream

inline constexpr std::uint32_t kAllLanes = 0xFFFFFFFFU;  // of a warp

#if defined(__CUDACC__)
inline constexpr int kThreads = 256, kWarp = 32;

// The dynamic shared memory that a launch gives each block. The low byte of its address is 0.
__device__ inline void* dynamic_shared() {
  extern __shared__ __align__(256) unsigned char memory[];
  return memory;
}

// Hides from the compiler what is known of a value, so that what is computed from it is not kept in registers
// from one turn of a loop to the next.
template <class T>
LPMM_DEVICE void forget(T& value) {
  if constexpr (sizeof(T) == 8) {
    asm volatile("" : "+l"(value));
  } else {
    asm volatile("" : "+r"(value));
  }
}
// First in every kernel: it may be launched while the one before still runs (start()), and waits for it here.
LPMM_DEVICE void begin_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// Memory is read after this point only.
LPMM_DEVICE void begin_reading() {
  asm volatile("" ::: "memory");
}
// Tells the compiler that a pointer is one to global memory.
template <class T>
LPMM_DEVICE T* global(T* pointer) {
  __builtin_assume(__isGlobal(pointer));
  return pointer;
}

// A bit for each lane of the warp where `condition` holds; all lanes must call it.
LPMM_DEVICE std::uint32_t lanes_where(bool condition) {
  return __ballot_sync(kAllLanes, condition);
}
LPMM_DEVICE int number_of(std::uint32_t lanes) {
  return __popc(lanes);
}
LPMM_DEVICE std::uint32_t add_to(std::uint32_t* sum, std::uint32_t value) {  // what it was before
  return atomicAdd(sum, value);
}
// Other blocks that see what this thread writes after this point see what it wrote before.
LPMM_DEVICE void publish() {
  __threadfence();
}
// Reads a value that another block has written.
LPMM_DEVICE double from_other(const double* sum) {
  return __ldcg(sum);
}

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string("CUDA: ") + what + ": " + cudaGetErrorString(error));
  }
}

// True if the device, and the code that it runs, can wait in begin_kernel(); in kernels/cuda/gpu.
bool kernels_wait();

// Launches a kernel. The gap between two kernels, about a microsecond on an H100, overlaps the end of the
// first.
template <class... Parameters>
void start(void (*kernel)(Parameters...), std::int64_t blocks, int threads, std::int64_t shared_bytes,
           Stream stream, const std::type_identity_t<Parameters>&... arguments) {
  const auto bytes = static_cast<int>(shared_bytes);
  constexpr int kUnasked = 48 << 10;
  if (bytes > kUnasked) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "shared memory");
  }
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = static_cast<unsigned>(blocks);
  config.blockDim = static_cast<unsigned>(threads);
  config.dynamicSmemBytes = static_cast<std::size_t>(bytes);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = kernels_wait() ? 1 : 0;
  cudaLaunchKernelEx(&config, kernel, arguments...);
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return;
  const char* name = "a kernel";
#if CUDART_VERSION >= 12030
  cudaFuncGetName(&name, reinterpret_cast<const void*>(kernel));
#endif
  check(error, (std::string("at or before ") + name).c_str());
}

template <class... Parameters>
void start_apart(void (*kernel)(Parameters...), std::int64_t blocks, int threads, Stream stream,
                 const std::type_identity_t<Parameters>&... arguments) {
  start(kernel, blocks, threads, 0, stream, arguments...);
}

// Room that one launch leaves for the next ones.
class StreamMemory {
 public:
  StreamMemory(std::int64_t bytes, Stream stream) : stream_(stream) {
    if (bytes > 0) check(cudaMallocAsync(&data_, static_cast<std::size_t>(bytes), stream), "room for sums");
  }
  ~StreamMemory() {
    if (data_ != nullptr) cudaFreeAsync(data_, stream_);
  }
  StreamMemory(const StreamMemory&) = delete;
  StreamMemory& operator=(const StreamMemory&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  Stream stream_;
};

// The multiprocessors of the current device.
inline int multiprocessors() {
  int device = 0, count = 0;
  check(cudaGetDevice(&device), "no current device");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "multiprocessors");
  return count;
}
inline void fill_with_zeros(void* memory, std::int64_t bytes, Stream stream) {
  check(cudaMemsetAsync(memory, 0, static_cast<std::size_t>(bytes), stream), "clearing");
}
// The host may forget `from` at once.
inline void copy_to_device(void* to, const void* from, std::int64_t bytes, Stream stream) {
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, stream), "copy");
  check(cudaStreamSynchronize(stream), "copy");  // the host forgets it now
}
MapTable device_table(Format format);  // kernels/cuda/packed/tables.cu
#else
inline constexpr int kThreads = 64;  // of a block: results do not depend on it

inline void* dynamic_shared() {
  return Block::dynamic_shared();
}

template <class T>
void forget(T&) {}
inline void begin_kernel() {}
inline void begin_reading() {}
template <class T>
T* global(T* pointer) {
  return pointer;
}
inline std::uint32_t lanes_where(bool condition) {
  const OfLanes& all = Block::meet(condition ? 1 : 0);
  std::uint32_t lanes = 0;
  for (int i = 0; i < kWarp; ++i) lanes |= static_cast<std::uint32_t>(all[static_cast<unsigned>(i)]) << i;
  return lanes;
}
inline int number_of(std::uint32_t lanes) {
  return std::popcount(lanes);
}
inline std::uint32_t add_to(std::uint32_t* sum, std::uint32_t value) {
  *sum += value;
  return *sum - value;
}
inline void publish() {}
inline double from_other(const double* sum) {
  return *sum;
}

template <class... Parameters>
void start(void (*kernel)(Parameters...), std::int64_t blocks, int threads, std::int64_t shared_bytes,
           Stream /*stream*/, const std::type_identity_t<Parameters>&... arguments) {
  const Unguarded now;
  gridDim.x = static_cast<unsigned>(blocks);
  for (std::int64_t block = blocks - 1; block >= 0; --block) {
    Block::run([&] { kernel(arguments...); }, static_cast<unsigned>(block), static_cast<unsigned>(threads),
               static_cast<std::size_t>(shared_bytes));
  }
}
template <class... Parameters>
void start_apart(void (*kernel)(Parameters...), std::int64_t blocks, int threads, Stream /*stream*/,
                 const std::type_identity_t<Parameters>&... arguments) {
  const Unguarded now;
  gridDim.x = static_cast<unsigned>(blocks);
  for (std::int64_t block = blocks - 1; block >= 0; --block) {
    Block::run_apart([&] { kernel(arguments...); }, static_cast<unsigned>(block),
                     static_cast<unsigned>(threads));
  }
}

class StreamMemory {
 public:
  StreamMemory(std::int64_t bytes, Stream)
      : data_(std::make_unique_for_overwrite<std::uint64_t[]>(static_cast<std::size_t>((bytes + 7) / 8))) {}
  void* data() const { return data_.get(); }

 private:
  std::unique_ptr<std::uint64_t[]> data_;
};

inline int multiprocessors() {
  return 1;
}
inline void fill_with_zeros(void* memory, std::int64_t bytes, Stream) {
  const Unguarded now;
  std::memset(memory, 0, static_cast<std::size_t>(bytes));
}
inline void copy_to_device(void* to, const void* from, std::int64_t bytes, Stream) {
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}
inline MapTable device_table(Format format) {
  return map_table(format);
}
#endif

// Counters of blocks of a launch that have arrived somewhere: 0 between launches, which are of one stream.
class Arrivals {
 public:
  // Lives until what counts there is launched: meanwhile another thread of the host waits for its turn.
  struct Turn {
    std::unique_lock<std::mutex> lock;
    std::uint32_t* counters = nullptr;
  };
  Turn take(std::int64_t count, Stream stream) {
    std::unique_lock lock(mutex_);
    if (count_ < count) {
      memory_ = std::make_unique<StreamMemory>(4 * count, stream);
      fill_with_zeros(memory_->data(), 4 * count, stream);
      count_ = count;
    }
    return {std::move(lock), static_cast<std::uint32_t*>(memory_->data())};
  }
  void release() {
    memory_.reset();
    count_ = 0;
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<StreamMemory> memory_;
  std::int64_t count_ = 0;
};

inline bool is_launched(std::int64_t blocks) {
  constexpr std::int64_t kMostBlocks = 0x7FFFFFFF;
  if (blocks > kMostBlocks) throw std::runtime_error("CUDA: a tensor of too many elements for one launch");
  return blocks > 0;
}
template <class... Parameters>
void launch(void (*kernel)(Parameters...), std::int64_t blocks, int threads, std::int64_t shared_bytes,
            Stream stream, const std::type_identity_t<Parameters>&... arguments) {
  if (is_launched(blocks)) start(kernel, blocks, threads, shared_bytes, stream, arguments...);
}
// Launches a kernel in which no thread waits for another.
template <class... Parameters>
void launch_apart(void (*kernel)(Parameters...), std::int64_t blocks, int threads, Stream stream,
                  const std::type_identity_t<Parameters>&... arguments) {
  if (is_launched(blocks)) start_apart(kernel, blocks, threads, stream, arguments...);
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
