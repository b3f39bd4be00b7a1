// A device that runs the CUDA kernels on the host, thread by thread: slow, and the bytes of packed memory are
// those of the CPU. It shows what a GPU would compute where there is none. Matrix products are the CPU's.
#pragma once

#include <string_view>

#include "kernels/cuda/cuda_device.h"

namespace lpmm::kernels {

// Base is a CudaPacked, whose parts of a machine these are.
template <class Base>
class Emulated : public Base {
 public:
  static constexpr std::string_view kName = "cuda-emulated";

  // Guards close the device's memory to the host between kernels, which takes the system a while each time.
  template <class... Arguments>
  explicit Emulated(bool guards, Arguments... arguments) : Base(arguments...), guards_(guards) {}
  std::string_view name() const override { return kName; }
  std::string compute_library() const override { return "CUDA emulated, " + this->host_.compute_library(); }
  DeviceMemory allocate(std::int64_t bytes) override;
  DeviceMemory allocate_shared(std::int64_t bytes) override;
  void upload(void* to, const void* from, std::int64_t bytes) override;
  void download(void* to, const void* from, std::int64_t bytes) override;
  void copy(void* to, const void* from, std::int64_t bytes) override;
  void fill_with_zeros(void* to, std::int64_t bytes) override;
  void synchronize() override {}
  // Other devices of this process alone: other processes cannot pass the guards.
  std::string peer_name(const std::byte* memory) override { return this->host_.peer_name(memory); }
  std::unique_ptr<PeerMemory> open_peer(std::string_view name) override;

  void matmul(const MatrixArgs& args, void* scratch) override;
  std::int64_t matmul_scratch_bytes(const MatrixArgs& args) const override;

 private:
  void release(std::byte* memory, std::int64_t bytes) noexcept override;
  bool guards_;
};

class EmulatedCuda : public Emulated<cuda_emulated::CudaDevice> {
 public:
  // Emulated tensor cores take ten times as long as the kernels that do without: tests of kernels have them.
  explicit EmulatedCuda(int threads, bool guards = true, bool tensor_cores = false)
      : Emulated(guards, threads, tensor_cores) {}
};
// For packed memory alone.
class EmulatedPackedCuda : public Emulated<cuda_emulated::CudaPackedDevice> {
 public:
  explicit EmulatedPackedCuda(int threads, bool guards = true) : Emulated(guards, threads) {}
};

}  // namespace lpmm::kernels
