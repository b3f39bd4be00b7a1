// An NVIDIA GPU as a device. Built where CUDA is (CMake option LPMM_CUDA); elsewhere kernels/cuda_stub.cpp
// says so.
#pragma once

#include <memory>
#include <string_view>

#include "kernels/device.h"

namespace lpmm::kernels {

inline constexpr std::string_view kGpu = "cuda";

// The first device that CUDA_VISIBLE_DEVICES leaves. It is opened with the first allocation: sizes of scratch
// memory need none, plans neither. Throws std::runtime_error where CUDA is not built in. Convolutions are
// cuDNN's where that is found, unless tests leave it out.
std::unique_ptr<Device> make_gpu(int threads, bool with_cudnn = true);
bool gpu_is_there();
BackendInfo gpu_backend();

}  // namespace lpmm::kernels
