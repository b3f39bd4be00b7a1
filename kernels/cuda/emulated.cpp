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
  EmulatedPeer(EmulatedCuda& device, const std::byte* memory) : device_(device), memory_(memory) {}
  const std::byte* address() const override { return memory_; }
  bool is_mapped() const override { return true; }
  void read(std::span<const Part> parts) const override {
    for (const Part& part : parts) device_.copy(part.to, part.from, part.bytes);
  }

 private:
  EmulatedCuda& device_;
  const std::byte* memory_;
};

}  // namespace

DeviceMemory EmulatedCuda::allocate(std::int64_t bytes) {
  std::byte* memory = guards_ ? cuda_emulated::allocate_guarded(bytes) : host_.allocate(bytes).release();
  return {memory, {this, bytes}};
}
DeviceMemory EmulatedCuda::allocate_shared(std::int64_t bytes) {
  return host_.allocate(bytes);
}
void EmulatedCuda::release(std::byte* memory, std::int64_t bytes) noexcept {
  if (guards_) return cuda_emulated::release_guarded(memory);
  const DeviceMemory as_the_hosts(memory, {&host_, bytes});
}
void EmulatedCuda::upload(void* to, const void* from, std::int64_t bytes) {
  copy(to, from, bytes);
}
void EmulatedCuda::download(void* to, const void* from, std::int64_t bytes) {
  copy(to, from, bytes);
}
void EmulatedCuda::copy(void* to, const void* from, std::int64_t bytes) {
  const Unguarded now;
  host_.copy(to, from, bytes);
}
void EmulatedCuda::fill_with_zeros(void* to, std::int64_t bytes) {
  const Unguarded now;
  host_.fill_with_zeros(to, bytes);
}
std::unique_ptr<PeerMemory> EmulatedCuda::open_peer(std::string_view name) {
  const std::optional<PeerAddress> at = address_of(name);
  if (!at || !at->is_of_this_process()) return nullptr;
  return std::make_unique<EmulatedPeer>(*this, at->memory);
}

void EmulatedCuda::matmul(const MatrixArgs& args, void* scratch) {
  const Unguarded now;
  host_.matmul(args, scratch);
}
std::int64_t EmulatedCuda::matmul_scratch_bytes(const MatrixArgs& args) const {
  return host_.matmul_scratch_bytes(args);
}

}  // namespace lpmm::kernels

// Files compiled with this one do not want them.
#undef __global__
#undef __device__
#undef __launch_bounds__
