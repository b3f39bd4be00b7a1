// The host as a device that trains networks.
#pragma once

#include "kernels/cpu_packed.h"
#include "kernels/device.h"

namespace lpmm {
namespace kernels {

const char* cpu_library();  // that multiplies matrices: "oneDNN 2.6.3, avx2", "Eigen 3.4.0"

class CpuDevice : public CpuPacked<Device> {
 public:
  explicit CpuDevice(int threads = 0) : CpuPacked(threads) {}

  static constexpr std::string_view kName = "cpu";
  std::string_view name() const override { return kName; }
  std::string compute_library() const override { return cpu_library(); }
  Device& host() override { return *this; }

  void matmul(const MatrixArgs& args, void* scratch) override;
  std::int64_t matmul_scratch_bytes(const MatrixArgs& args) const override;
#include "kernels/device_kernels.inc"
};

}  // namespace kernels
using kernels::CpuDevice;
}  // namespace lpmm
