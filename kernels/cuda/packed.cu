// The kernels of packed memory as members of the device.
#include <vector>

#include "kernels/cuda/counted.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/update.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

void CudaDevice::encode(const RoleView& dst, std::int64_t first, std::int64_t count, const float* src,
                        const Noise& noise, bool* storable) {
  LPMM_CUDA_NAMESPACE::encode(dst, first, count, src, noise, storable, stream());
}
void CudaDevice::decode(const RoleView& src, std::int64_t first, std::int64_t count, float* dst) {
  LPMM_CUDA_NAMESPACE::decode(src, first, count, dst, stream());
}
void CudaDevice::decode_bf16(const RoleView& src, std::int64_t first, std::int64_t count,
                             std::uint16_t* dst) {
  LPMM_CUDA_NAMESPACE::decode_bf16(src, first, count, dst, stream());
}
void CudaDevice::decode_rows(const RoleView& src, std::int64_t width, const std::int32_t* rows,
                             std::int64_t count, float* dst) {
  LPMM_CUDA_NAMESPACE::decode_rows(src, width, rows, count, dst, stream());
}
void CudaDevice::fold(const RoleView& accumulator, std::int64_t first, std::int64_t count,
                      const float* contribution, const FoldArgs& args, FoldResult* result) {
  if (args.stats != nullptr) {
    return fold_counted(*this, host_, accumulator, first, count, contribution, args, result);
  }
  LPMM_CUDA_NAMESPACE::fold(accumulator, first, count, contribution, args, result, stream());
}
void CudaDevice::square_sum(const RoleView& src, std::int64_t first, std::int64_t count, double* sum) {
  LPMM_CUDA_NAMESPACE::square_sum(src, first, count, sum, stream());
}
void CudaDevice::clear(const RoleView& accumulator) {
  LPMM_CUDA_NAMESPACE::clear(accumulator, stream());
}
void CudaDevice::update(std::span<const TensorUpdate> tensors) {
  std::vector<TensorUpdate> uncounted;
  for (const TensorUpdate& tensor : tensors) {
    if (tensor.args.stats != nullptr) {
      update_counted(*this, host_, tensor);
    } else {
      uncounted.push_back(tensor);
    }
  }
  if (!uncounted.empty()) LPMM_CUDA_NAMESPACE::update(uncounted, stream());
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
