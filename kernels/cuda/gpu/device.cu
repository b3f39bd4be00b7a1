// A GPU that trains networks: products with a bias, and convolutions; what else it computes is in the other
// .cu files.
#include <mutex>
#include <optional>
#include <utility>

#include "kernels/cuda/compute/map.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/gpu/cudnn.h"
#include "kernels/cuda/gpu/opened.h"

namespace lpmm::kernels {
namespace cuda {
namespace {

class Gpu final : public OnGpu<CudaDevice> {
 public:
  Gpu(int threads, GpuOptions options) : OnGpu(std::move(options), threads, true) {}

  // The context, code of kernels and libraries, on an H100 with CUDA 13: 594 MB were measured, 13 MB more
  // with cuDNN.
  std::optional<std::int64_t> own_bytes() const override { return 610'000'000; }

  void matmul(const MatrixArgs& args, void* scratch) override {
    if (args.bias == nullptr) return OnGpu::matmul(args, scratch);
    open();
    Products& products = gpu_.products();
    const bool is_narrow = args.c_type == ValueType::kBf16;
    auto* const room = reinterpret_cast<float*>(static_cast<std::byte*>(scratch) + Products::kScratchBytes);
    if (Products::adds_bias(args)) {
      if (is_narrow) from_float(args.c_type, args.n, args.bias, room);
      return products.multiply(args, is_narrow ? room : args.bias, scratch, stream());
    }
    MatrixArgs sums = args;
    if (is_narrow) {
      sums.c = room;
      sums.c_stride = args.n;
      sums.c_type = ValueType::kFp32;
    }
    products.multiply(sums, nullptr, scratch, stream());
    const Rows of_bias = {args.m, args.n, 0, sums.c_stride, true},
               of_sums = {args.m, args.n, args.n, args.c_stride};
    move_rows(stream(), of_bias, args.bias, static_cast<float*>(sums.c));
    if (is_narrow) move_rows(stream(), of_sums, room, static_cast<std::uint16_t*>(args.c));
  }
  // The library's, and room for sums that a bias is added to here.
  std::int64_t matmul_scratch_bytes(const MatrixArgs& args) const override {
    return Products::kScratchBytes + (args.c_type == ValueType::kFp32 ? 0 : 4 * args.m * args.n);
  }

  // cuDNN starts with the first convolution, since that takes a while.
  const LibraryConvolution* library_convolution(const ConvPass& pass) override {
    open();
    const std::lock_guard lock(mutex_);
    if (cudnn_ && !std::exchange(has_asked_cudnn_, true)) {
      convolutions_ = CudnnConvolutions::start(*cudnn_, stream());
    }
    return convolutions_ == nullptr ? nullptr : convolutions_->find(pass);
  }

 private:
  void opened() override {
    gpu_.products();
    if (gpu_.options().with_cudnn) cudnn_ = load_cudnn();
    if (cudnn_) gpu_.add_library(version_of(*cudnn_));
  }

  std::mutex mutex_;  // of what follows
  std::optional<Cudnn> cudnn_;
  bool has_asked_cudnn_ = false;  // to start
  std::unique_ptr<CudnnConvolutions> convolutions_;
};

}  // namespace
}  // namespace cuda

std::unique_ptr<Device> make_gpu(int threads, GpuOptions options) {
  return std::make_unique<cuda::Gpu>(threads, std::move(options));
}

bool gpu_is_there() {
  return gpu_backend().is_available();
}

BackendInfo gpu_backend() {
  BackendInfo info{.name = kGpu, .is_built = true};
  cudaDeviceProp device{};
  info.why_not = why_no_gpu(cuda::facts_of(0, &device));
  if (device.major > 0) {
    info.device = device.name;
    info.compute_capability = std::to_string(device.major) + "." + std::to_string(device.minor);
    info.memory_bytes = static_cast<std::int64_t>(device.totalGlobalMem);
  }
  int runtime = 0;
  cudaRuntimeGetVersion(&runtime);
  info.libraries.push_back("CUDA runtime " + std::to_string(runtime / 1000) + "." +
                           std::to_string(runtime % 1000 / 10));
  if (!info.is_available()) return info;
  try {
    info.libraries.push_back(cuda::version_of(cuda::load_cublas()));
  } catch (const std::exception& e) {
    info.why_not = e.what();
  }
  if (const auto cudnn = cuda::load_cudnn()) info.libraries.push_back(cuda::version_of(*cudnn));
  if (const std::string nccl = nccl_version(); !nccl.empty()) info.libraries.push_back(nccl);
  return info;
}

}  // namespace lpmm::kernels
