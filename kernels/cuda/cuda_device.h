// A CUDA device that trains networks: its kernels, those of packed memory (kernels/cuda/cuda_packed.h) first.
//
// Sums are trees whose shape depends on the sizes of the data alone: the same bits in every run, whatever
// order threads and blocks run in. Only memory, waiting and the matrix product differ between the two, and
// are left open here.
#pragma once

#include "kernels/cpu.h"
#include "kernels/cuda/cuda_packed.h"
#include "kernels/cuda/library_convolution.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

class CudaDevice : public CudaPacked<Device, CpuDevice> {
 public:
  // `tensor_cores`: what fits them is computed there, in bf16.
  CudaDevice(int threads, bool tensor_cores) : CudaPacked(threads), has_tensor_cores_(tensor_cores) {}
  PanelSizes panel_sizes() const override { return {std::int64_t{1} << 25, std::int64_t{1} << 27, 64}; }
  // Null: there is none, and our kernel does it. Asked for what fits tensor cores.
  virtual const LibraryConvolution* library_convolution(const ConvPass& /*pass*/) { return nullptr; }
#include "kernels/device_kernels.inc"

 protected:
  const bool has_tensor_cores_;
};

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
