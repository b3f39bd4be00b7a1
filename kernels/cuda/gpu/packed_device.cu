// A GPU for packed memory alone.
#include <utility>

#include "kernels/cuda/gpu/opened.h"

namespace lpmm::kernels {

std::unique_ptr<PackedDevice> make_packed_gpu(int threads, GpuOptions options) {
  return std::make_unique<cuda::OnGpu<cuda::CudaPackedDevice>>(std::move(options), threads);
}

int use_gpu(int number) noexcept {
  int before = number;
  cudaGetDevice(&before);
  if (before != number) cudaSetDevice(number);
  cudaGetLastError();  // forgets an error
  return before;
}

}  // namespace lpmm::kernels
