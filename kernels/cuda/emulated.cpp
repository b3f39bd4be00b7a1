// The CUDA kernels of packed memory on the host, as a device: all else the CPU does.
#include "kernels/cuda/emulated.h"

#include "kernels/cuda/fused.cu"
#include "kernels/cuda/fused_fold.cu"
#include "kernels/cuda/update.cu"

namespace lpmm::kernels {
namespace {

// Steps whose changes are counted take the CPU's kernels, with the same bytes.
class EmulatedCuda final : public CpuDevice {
 public:
  using CpuDevice::CpuDevice;
  std::string_view name() const override { return kEmulatedCuda; }

  void encode(const RoleView& dst, std::int64_t first, std::int64_t count, const float* src,
              const Noise& noise, bool* storable) override {
    cuda_emulated::encode(dst, first, count, src, noise, storable, nullptr);
  }
  void decode(const RoleView& src, std::int64_t first, std::int64_t count, float* dst) override {
    cuda_emulated::decode(src, first, count, dst, nullptr);
  }
  void decode_bf16(const RoleView& src, std::int64_t first, std::int64_t count, std::uint16_t* dst) override {
    cuda_emulated::decode_bf16(src, first, count, dst, nullptr);
  }
  void decode_rows(const RoleView& src, std::int64_t width, const std::int32_t* rows, std::int64_t count,
                   float* dst) override {
    cuda_emulated::decode_rows(src, width, rows, count, dst, nullptr);
  }
  void fold(const RoleView& accumulator, std::int64_t first, std::int64_t count, const float* contribution,
            const FoldArgs& args, FoldResult* result) override {
    if (args.stats != nullptr) {
      return CpuDevice::fold(accumulator, first, count, contribution, args, result);
    }
    cuda_emulated::fold(accumulator, first, count, contribution, args, result, nullptr);
  }
  void square_sum(const RoleView& src, std::int64_t first, std::int64_t count, double* sum) override {
    cuda_emulated::square_sum(src, first, count, sum, nullptr);
  }
  void clear(const RoleView& accumulator) override { cuda_emulated::clear(accumulator, nullptr); }
  void update(std::span<const TensorUpdate> tensors) override {
    const auto is_counted = [](const TensorUpdate& tensor) { return tensor.args.stats != nullptr; };
    if (std::any_of(tensors.begin(), tensors.end(), is_counted)) return CpuDevice::update(tensors);
    cuda_emulated::update(tensors, nullptr);
  }
};

}  // namespace

std::unique_ptr<Device> make_emulated_cuda(int threads) {
  return std::make_unique<EmulatedCuda>(threads);
}

}  // namespace lpmm::kernels

// Files compiled with this one do not want them.
#undef LPMM_CUDA_NAMESPACE
#undef LPMM_DEVICE
#undef LPMM_UNROLL
#undef LPMM_ROLLED
#undef __global__
#undef __launch_bounds__
#undef __syncthreads
