// The CUDA device with the host as its machine: the same kernels, compiled here.
#include "kernels/cuda/emulated.h"

#include <memory>
#include <optional>

#include "kernels/cpu/peer_address.h"

// The macros that mark functions for nvcc.
// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's names
#define __global__
#define __device__
#define __launch_bounds__(...)
// NOLINTEND(bugprone-reserved-identifier)

#include "kernels/cuda/compute/attention/backward.cu"
#include "kernels/cuda/compute/attention/backward_mma.cu"
#include "kernels/cuda/compute/attention/forward.cu"
#include "kernels/cuda/compute/attention/forward_mma.cu"
#include "kernels/cuda/compute/batch_norm.cu"
#include "kernels/cuda/compute/convolution/columns.cu"
#include "kernels/cuda/compute/convolution/tensor_cores.cu"
#include "kernels/cuda/compute/elements.cu"
#include "kernels/cuda/compute/experts.cu"
#include "kernels/cuda/compute/losses.cu"
#include "kernels/cuda/compute/pooling.cu"
#include "kernels/cuda/compute/quantiles.cu"
#include "kernels/cuda/compute/row_norm.cu"
#include "kernels/cuda/compute/rows.cu"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/packed/fused.cu"
#include "kernels/cuda/packed/fused_fold.cu"
#include "kernels/cuda/packed/packed.cu"

namespace lpmm::kernels {

using cuda_emulated::Unguarded;
namespace {

// Memory of another device of this process.
class EmulatedPeer final : public PeerMemory {
 public:
  EmulatedPeer(PackedDevice& device, const std::byte* memory) : device_(device), memory_(memory) {}
  const std::byte* address() const override { return memory_; }
  bool is_mapped() const override { return true; }
  void read(std::span<const Part> parts) const override {
    for (const Part& part : parts) device_.copy(part.to, part.from, part.bytes);
  }

 private:
  PackedDevice& device_;
  const std::byte* memory_;
};

}  // namespace

template <class Base>
DeviceMemory Emulated<Base>::allocate(std::int64_t bytes) {
  std::byte* memory =
      guards_ ? cuda_emulated::allocate_guarded(bytes) : this->host_.allocate(bytes).release();
  return {memory, {this, bytes}};
}
template <class Base>
DeviceMemory Emulated<Base>::allocate_shared(std::int64_t bytes) {
  return this->host_.allocate(bytes);
}
template <class Base>
void Emulated<Base>::release(std::byte* memory, std::int64_t bytes) noexcept {
  if (guards_) return cuda_emulated::release_guarded(memory);
  const DeviceMemory as_the_hosts(memory, {&this->host_, bytes});
}
template <class Base>
void Emulated<Base>::upload(void* to, const void* from, std::int64_t bytes) {
  copy(to, from, bytes);
}
template <class Base>
void Emulated<Base>::download(void* to, const void* from, std::int64_t bytes) {
  copy(to, from, bytes);
}
template <class Base>
void Emulated<Base>::copy(void* to, const void* from, std::int64_t bytes) {
  const Unguarded now;
  this->host_.copy(to, from, bytes);
}
template <class Base>
void Emulated<Base>::fill_with_zeros(void* to, std::int64_t bytes) {
  const Unguarded now;
  this->host_.fill_with_zeros(to, bytes);
}
template <class Base>
std::unique_ptr<PeerMemory> Emulated<Base>::open_peer(std::string_view name) {
  const std::optional<PeerAddress> at = address_of(name);
  if (!at || !at->is_of_this_process()) return nullptr;
  return std::make_unique<EmulatedPeer>(*this, at->memory);
}

template <class Base>
void Emulated<Base>::matmul(const MatrixArgs& args, void* scratch) {
  const Unguarded now;
  this->host_.matmul(args, scratch);
}
template <class Base>
std::int64_t Emulated<Base>::matmul_scratch_bytes(const MatrixArgs& args) const {
  return this->host_.matmul_scratch_bytes(args);
}

template class Emulated<cuda_emulated::CudaDevice>;
template class Emulated<cuda_emulated::CudaPackedDevice>;

}  // namespace lpmm::kernels

// Files compiled with this one do not want them.
#undef __global__
#undef __device__
#undef __launch_bounds__
