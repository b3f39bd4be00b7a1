// The GPU, where CUDA is not built in.
#include <stdexcept>

#include "kernels/cuda/gpu/gpu.h"

namespace lpmm::kernels {
namespace {

constexpr const char* kWhy = "this lpmm was built without CUDA; build it where nvcc 12 or newer is found";

}  // namespace

// NOLINTBEGIN(performance-unnecessary-value-param): as where CUDA is
std::unique_ptr<Device> make_gpu(int, GpuOptions) {
  throw std::runtime_error(kWhy);
}
std::unique_ptr<PackedDevice> make_packed_gpu(int, GpuOptions) {
  throw std::runtime_error(kWhy);
}
// NOLINTEND(performance-unnecessary-value-param)
int use_gpu(int number) noexcept {
  return number;
}
bool gpu_is_there() {
  return false;
}
BackendInfo gpu_backend() {
  return {.name = kGpu, .why_not = kWhy};
}

}  // namespace lpmm::kernels
