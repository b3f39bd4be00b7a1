// An NVIDIA GPU as a device. Built where CUDA is (CMake option LPMM_CUDA); elsewhere kernels/cuda_stub.cpp
// says so.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "kernels/device.h"

namespace lpmm::kernels {

inline constexpr std::string_view kGpu = "cuda";

// Resources that a program which uses the GPU itself, or a framework, hands to a device.
struct GpuOptions {
  bool with_cudnn = true;  // convolutions are cuDNN's where that is found
  // The GPU, of those that CUDA_VISIBLE_DEVICES leaves. If it is not 0, the device's callers make it the
  // current one of their threads (cudaSetDevice), as frameworks do.
  int number = 0;
  // A cudaStream_t that all work is queued on, after what is there; it outlives the device. Null: one of its
  // own; the default stream is cudaStreamLegacy.
  void* stream = nullptr;
  // The memory of tensors comes from here, 64-byte aligned; null where there is none left. It goes to
  // `release` when all work on it is done. Set both, or neither: then it is CUDA's. They may be called by any
  // thread that uses the device. Pinned memory of the host and room for sums stay CUDA's.
  std::function<void*(std::int64_t bytes)> allocate = {};
  std::function<void(void* memory, std::int64_t bytes)> release = {};
};

// It is opened with the first allocation: sizes of scratch memory need none, plans neither. Throws
// std::runtime_error where CUDA is not built in, std::invalid_argument where options do not go together.
std::unique_ptr<Device> make_gpu(int threads, GpuOptions options = {});
// For packed memory alone: no other library is loaded, but for products of an orthogonal step.
std::unique_ptr<PackedDevice> make_packed_gpu(int threads, GpuOptions options = {});
// Makes a GPU the current one of the calling thread, and returns which was. Errors show in what follows.
int use_gpu(int number) noexcept;
bool gpu_is_there();
BackendInfo gpu_backend();

}  // namespace lpmm::kernels
