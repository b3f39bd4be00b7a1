// A device that runs the CUDA kernels on the host, thread by thread: slow, and the bytes of packed memory are
// those of the CPU. It shows what a GPU would compute where there is none.
#pragma once

#include <memory>
#include <string_view>

#include "kernels/cpu.h"

namespace lpmm::kernels {

inline constexpr std::string_view kEmulatedCuda = "cuda-emulated";
std::unique_ptr<Device> make_emulated_cuda(int threads);

}  // namespace lpmm::kernels
