// Packed memory on a CUDA device: its kernels (kernels/cuda/packed/). nvcc compiles them for a GPU, the
// host's compiler for the emulated device.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cpu_packed.h"
#include "kernels/cuda/launch.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

// PackedKernels by launches on a stream. What these count is done by the device's host.
struct PackedStream {
  Stream stream = nullptr;  // a device that is opened later makes its own
  Arrivals arrivals = {};   // of the launches of that stream

  void encode(const EncodeArgs& args) const;
  void decode(const RoleView& src, std::int64_t first, std::int64_t count, float* dst) const;
  void decode_sum(std::span<const RoleView> views, float* dst, float* rooms) const;
  void decode_bf16(const RoleView& src, std::int64_t first, std::int64_t count, std::uint16_t* dst) const;
  void decode_rows(const DecodeRowsArgs& args) const;
  void fold(PackedDevice& device, std::span<const Fold> folds);
  void fold_alone(PackedDevice& device, const Fold& fold);
  void square_sum(const RoleView& src, std::int64_t first, std::int64_t count, double* sum);
  void clear(const RoleView& accumulator) const;
  void update(PackedDevice& device, std::span<const TensorUpdate> tensors) const;
};

// A device of one kind or the other, less its memory, waiting and matrix products.
// Threads of the host as in CpuDevice.
template <class Base, class Host>
class CudaPacked : public Base {
 public:
  explicit CudaPacked(int threads) : host_(threads) {}
  Stream stream() const { return packed_.stream; }
  bool is_host() const override { return false; }
  Host& host() override { return host_; }
  Pool& host_pool() override { return host_.host_pool(); }
  int host_threads() const override { return host_.host_threads(); }

  void encode(const EncodeArgs& args) override { packed_.encode(args); }
  void decode(const RoleView& src, std::int64_t first, std::int64_t count, float* dst) override {
    packed_.decode(src, first, count, dst);
  }
  void decode_sum(std::span<const RoleView> views, float* dst, float* rooms) override {
    packed_.decode_sum(views, dst, rooms);
  }
  void decode_bf16(const RoleView& src, std::int64_t first, std::int64_t count, std::uint16_t* dst) override {
    packed_.decode_bf16(src, first, count, dst);
  }
  void decode_rows(const DecodeRowsArgs& args) override { packed_.decode_rows(args); }
  void fold(std::span<const Fold> folds) override { packed_.fold(*this, folds); }
  bool gathers_folds() const override { return true; }  // to launch a kernel takes longer than a small fold
  void square_sum(const RoleView& src, std::int64_t first, std::int64_t count, double* sum) override {
    packed_.square_sum(src, first, count, sum);
  }
  void clear(const RoleView& accumulator) override { packed_.clear(accumulator); }
  void update(std::span<const TensorUpdate> tensors) override { packed_.update(*this, tensors); }

 protected:
  Host host_;
  PackedStream packed_;
};
// One for packed memory alone.
using CudaPackedDevice = CudaPacked<PackedDevice, CpuPackedDevice>;

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
