#include "kernels/device.h"

#include <stdexcept>
#include <string>

#include "kernels/cpu.h"
#include "kernels/cuda/emulated.h"
#include "kernels/cuda/gpu/gpu.h"

namespace lpmm {

std::unique_ptr<Device> make_device(std::string_view name, int threads) {
  if (name == kAutoDevice) name = kernels::gpu_is_there() ? kernels::kGpu : CpuDevice::kName;
  if (name == CpuDevice::kName) return std::make_unique<CpuDevice>(threads);
  if (name == kernels::kGpu) return kernels::make_gpu(threads);
  if (name == kernels::EmulatedCuda::kName) return std::make_unique<kernels::EmulatedCuda>(threads);
  throw std::invalid_argument("there is no device '" + std::string(name) + "'");
}

std::vector<BackendInfo> backends() {
  return {{.name = CpuDevice::kName, .is_built = true, .libraries = {kernels::cpu_library()}},
          kernels::gpu_backend(),
          {.name = kernels::EmulatedCuda::kName, .is_built = true}};
}

}  // namespace lpmm
