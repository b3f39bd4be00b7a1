#include "kernels/device.h"

#include <stdexcept>
#include <string>

#include "kernels/cpu.h"
#include "kernels/cuda/emulated.h"

namespace lpmm {

std::unique_ptr<Device> make_device(std::string_view name, int threads) {
  if (name == "cpu") return std::make_unique<CpuDevice>(threads);
  if (name == kernels::kEmulatedCuda) return kernels::make_emulated_cuda(threads);
  throw std::invalid_argument("there is no device '" + std::string(name) + "'");
}

}  // namespace lpmm
