// A GPU for packed memory alone.
#include <utility>

#include "kernels/cuda/gpu/opened.h"

namespace lpmm::kernels {

std::unique_ptr<PackedDevice> make_packed_gpu(int threads, GpuOptions options) {
  return std::make_unique<cuda::OnGpu<cuda::CudaPackedDevice>>(std::move(options), threads);
}

int use_gpu(int number) {
  int before = 0;
  cuda::check(cudaGetDevice(&before), "no current device");
  if (before != number) cuda::check(cudaSetDevice(number), "device");
  return before;
}

}  // namespace lpmm::kernels
