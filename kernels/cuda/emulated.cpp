// The CUDA device with the host as its machine: the same kernels, compiled here.
#include "kernels/cuda/emulated.h"

#include "kernels/cuda/compute/attention.cu"
#include "kernels/cuda/compute/attention_backward.cu"
#include "kernels/cuda/compute/batch_norm.cu"
#include "kernels/cuda/compute/convolution.cu"
#include "kernels/cuda/compute/elements.cu"
#include "kernels/cuda/compute/layer_norm.cu"
#include "kernels/cuda/compute/losses.cu"
#include "kernels/cuda/compute/pooling.cu"
#include "kernels/cuda/cuda_device.h"
// Before packed.cu, which calls what it defines.
#include "kernels/cuda/update.cu"

#include "kernels/cuda/packed.cu"

namespace lpmm::kernels {
namespace {

// Memory and matrix products are the CPU's. So are steps whose changes are counted, with the same bytes.
class EmulatedCuda final : public cuda_emulated::CudaDevice {
 public:
  using CudaDevice::CudaDevice;
  std::string_view name() const override { return kEmulatedCuda; }
  bool is_host() const override { return true; }
  std::string compute_library() const override { return host().compute_library(); }
  DeviceMemory allocate(std::int64_t bytes) override {
    return {host().allocate(bytes).release(), {this, bytes}};
  }
  DeviceMemory allocate_shared(std::int64_t bytes) override { return allocate(bytes); }
  void upload(void* to, const void* from, std::int64_t bytes) override { host().upload(to, from, bytes); }
  void download(void* to, const void* from, std::int64_t bytes) override { host().download(to, from, bytes); }
  void copy(void* to, const void* from, std::int64_t bytes) override { host().copy(to, from, bytes); }
  void fill_with_zeros(void* to, std::int64_t bytes) override { host().fill_with_zeros(to, bytes); }
  void synchronize() override {}

  void matmul(const MatrixArgs& args, void* scratch) override { host().matmul(args, scratch); }
  std::int64_t matmul_scratch_bytes(Compute type, std::int64_t m, std::int64_t n) const override {
    return host().matmul_scratch_bytes(type, m, n);
  }

  void fold(const RoleView& accumulator, std::int64_t first, std::int64_t count, const float* contribution,
            const FoldArgs& args, FoldResult* result) override {
    if (args.stats != nullptr) return host().fold(accumulator, first, count, contribution, args, result);
    CudaDevice::fold(accumulator, first, count, contribution, args, result);
  }
  void update(std::span<const TensorUpdate> tensors) override {
    for (const TensorUpdate& tensor : tensors) {
      if (tensor.args.stats != nullptr) {
        host().update({&tensor, 1});
      } else {
        CudaDevice::update({&tensor, 1});
      }
    }
  }

 private:
  void release(std::byte* memory, std::int64_t bytes) noexcept override {
    const DeviceMemory as_the_hosts(memory, {&host(), bytes});
  }
};

}  // namespace

std::unique_ptr<Device> make_emulated_cuda(int threads) {
  return std::make_unique<EmulatedCuda>(threads);
}

}  // namespace lpmm::kernels

// Files compiled with this one do not want them.
#undef LPMM_CUDA_NAMESPACE
#undef __global__
#undef __device__
