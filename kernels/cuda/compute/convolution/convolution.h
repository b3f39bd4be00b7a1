// Convolution of bf16 on tensor cores, and where it fits; what it does not take goes over columns.
#pragma once

#include <memory>

#include "kernels/cuda/cuda_device.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

// Eight channels of a pixel are copied at once, so they come in eights, and x, y, dy and dx lie at multiples
// of 16 bytes, as tensors do. A panel of channels need not. A window has a bit for each of its taps.
inline bool fits_tensor_cores(const ConvShape& s, ValueType type) {
  return type == ValueType::kBf16 && s.in % 8 == 0 && s.out % 8 == 0 && s.out_stride() == s.out &&
         s.kernel <= 7;
}
std::unique_ptr<Convolution> convolution_on_tensor_cores(CudaDevice& device, const ConvShape& shape);

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
