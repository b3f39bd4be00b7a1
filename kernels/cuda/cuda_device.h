// A CUDA device: its kernels. nvcc compiles them for a GPU, the host's compiler for the emulated device.
//
// Sums are trees whose shape depends on the sizes of the data alone: the same bits in every run, whatever
// order threads and blocks run in. Only memory, waiting and the matrix product differ between the two, and
// are left open here.
#pragma once

#include "kernels/cpu.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/library_convolution.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

class CudaDevice : public Device {
 public:
  // Threads of the host as in CpuDevice. `tensor_cores`: what fits them is computed there, in bf16.
  CudaDevice(int threads, bool tensor_cores) : host_(threads), has_tensor_cores_(tensor_cores) {}
  CpuDevice& host() override { return host_; }
  Stream stream() const { return stream_; }
  PanelSizes panel_sizes() const override { return {std::int64_t{1} << 25, std::int64_t{1} << 27, 64}; }
  Pool& host_pool() override { return host_.host_pool(); }
  int host_threads() const override { return host_.host_threads(); }

  void encode(const RoleView& dst, std::int64_t first, std::int64_t count, const float* src,
              const Noise& noise, bool* storable = nullptr) override;
  void decode(const RoleView& src, std::int64_t first, std::int64_t count, float* dst) override;
  void decode_sum(std::span<const RoleView> views, float* dst, float* rooms) override;
  void decode_bf16(const RoleView& src, std::int64_t first, std::int64_t count, std::uint16_t* dst) override;
  void decode_rows(const RoleView& src, std::int64_t width, const std::int32_t* rows, std::int64_t count,
                   float* dst, std::int64_t src_first = 0) override;
  void fold(std::span<const Fold> folds) override;
  bool gathers_folds() const override { return true; }  // to launch a kernel takes longer than a small fold
  void square_sum(const RoleView& src, std::int64_t first, std::int64_t count, double* sum) override;
  void clear(const RoleView& accumulator) override;
  void update(std::span<const TensorUpdate> tensors) override;
  // Null: there is none, and our kernel does it. Asked for what fits tensor cores.
  virtual const LibraryConvolution* library_convolution(const ConvPass& /*pass*/) { return nullptr; }
#include "kernels/device_kernels.inc"

 protected:
  CpuDevice host_;
  const bool has_tensor_cores_;
  Stream stream_ = nullptr;  // a device that is opened later makes its own
  Arrivals arrivals_;        // of the launches of that stream

 private:
  void fold_alone(const Fold& fold);
};

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
