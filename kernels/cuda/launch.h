// What a .cu file needs of its machine. nvcc: a device, in the namespace cuda. The host's compiler: fibers,
// in the namespace cuda_emulated; the same kernels, the same launches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda.h"
#include "kernels/maps.h"

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#define LPMM_CUDA_NAMESPACE cuda
#else
#include "kernels/cuda/fibers.h"
#define LPMM_CUDA_NAMESPACE cuda_emulated
#define __global__
#define __syncthreads() Block::barrier()
#endif

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

using Stream = cuda::Stream;

#if defined(__CUDACC__)
inline constexpr int kThreads = 256;

// What a launch gives each block.
__device__ inline void* dynamic_shared() {
  extern __shared__ __align__(8) unsigned char memory[];
  return memory;
}

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string("CUDA: ") + what + ": " + cudaGetErrorString(error));
  }
}

template <class... Parameters>
void start(void (*kernel)(Parameters...), std::int64_t blocks, int threads, std::int64_t shared_bytes,
           Stream stream, const Parameters&... arguments) {
  const auto bytes = static_cast<int>(shared_bytes);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "shared memory");
  kernel<<<static_cast<unsigned>(blocks), threads, static_cast<std::size_t>(bytes), stream>>>(arguments...);
  check(cudaGetLastError(), "launch");
}

// Room that one launch leaves for the next ones.
class StreamMemory {
 public:
  StreamMemory(std::int64_t bytes, Stream stream) : stream_(stream) {
    check(cudaMallocAsync(&data_, static_cast<std::size_t>(bytes), stream), "room for sums");
  }
  ~StreamMemory() { cudaFreeAsync(data_, stream_); }
  StreamMemory(const StreamMemory&) = delete;
  StreamMemory& operator=(const StreamMemory&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  Stream stream_;
};

inline void fill_with_zeros(void* memory, std::int64_t bytes, Stream stream) {
  check(cudaMemsetAsync(memory, 0, static_cast<std::size_t>(bytes), stream), "clearing");
}
#else
inline constexpr int kThreads = 64;  // of a block: results do not depend on it

inline void* dynamic_shared() {
  return Block::dynamic_shared();
}

template <class... Parameters>
void start(void (*kernel)(Parameters...), std::int64_t blocks, int threads, std::int64_t shared_bytes,
           Stream /*stream*/, const Parameters&... arguments) {
  for (std::int64_t block = blocks - 1; block >= 0; --block) {
    Block::run([&] { kernel(arguments...); }, static_cast<unsigned>(block), static_cast<unsigned>(threads),
               static_cast<std::size_t>(shared_bytes));
  }
}

class StreamMemory {
 public:
  StreamMemory(std::int64_t bytes, Stream) : data_(static_cast<std::size_t>((bytes + 7) / 8)) {}
  void* data() { return data_.data(); }

 private:
  std::vector<std::uint64_t> data_;
};

inline void fill_with_zeros(void* memory, std::int64_t bytes, Stream) {
  std::memset(memory, 0, static_cast<std::size_t>(bytes));
}
inline MapTable device_table(Format format) {
  return map_table(format);
}
#endif

template <class... Parameters>
void launch(void (*kernel)(Parameters...), std::int64_t blocks, int threads, std::int64_t shared_bytes,
            Stream stream, const Parameters&... arguments) {
  constexpr std::int64_t kMostBlocks = 0x7FFFFFFF;
  if (blocks == 0) return;
  if (blocks > kMostBlocks) throw std::runtime_error("CUDA: a tensor of too many elements for one launch");
  start(kernel, blocks, threads, shared_bytes, stream, arguments...);
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
