#include "kernels/cuda/gpu/peer.h"

#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>

#include "kernels/cpu/peer_address.h"

namespace lpmm::kernels::cuda {
namespace {

class GpuPeer final : public PeerMemory {
 public:
  // `opened`: by a handle, which is given back.
  GpuPeer(void* memory, bool opened, cudaStream_t stream)
      : memory_(memory), opened_(opened), stream_(stream) {}
  ~GpuPeer() override {
    if (opened_) cudaIpcCloseMemHandle(memory_);
  }
  const std::byte* address() const override { return static_cast<const std::byte*>(memory_); }
  bool is_mapped() const override { return true; }
  void read(std::span<const Part> parts) const override {
    for (const Part& part : parts) {
      const cudaError_t error = cudaMemcpyAsync(part.to, part.from, static_cast<std::size_t>(part.bytes),
                                                cudaMemcpyDefault, stream_);
      if (error != cudaSuccess) {
        throw std::system_error(EIO, std::generic_category(), cudaGetErrorString(error));
      }
    }
  }

 private:
  void* memory_;
  bool opened_;
  cudaStream_t stream_;
};

bool is_of_this_gpu(const std::byte* memory) {
  cudaPointerAttributes found{};
  int current = -1;
  const bool is_known =
      cudaPointerGetAttributes(&found, memory) == cudaSuccess && cudaGetDevice(&current) == cudaSuccess;
  cudaGetLastError();  // forgets an error
  return is_known && found.device == current;
}

}  // namespace

// A handle cannot be opened by the process that made it: that one takes the address.
std::string peer_name(const std::byte* memory) {
  cudaIpcMemHandle_t handle{};
  if (cudaIpcGetMemHandle(&handle, const_cast<std::byte*>(memory)) != cudaSuccess) {
    cudaGetLastError();  // forgets that error
    return {};
  }
  std::string name = name_of(PeerAddress::of(memory));
  name.append(reinterpret_cast<const char*>(&handle), sizeof handle);
  return name;
}

std::unique_ptr<PeerMemory> open_peer(std::string_view name, cudaStream_t stream) {
  cudaIpcMemHandle_t handle{};
  if (name.size() <= sizeof handle) return nullptr;
  const std::string_view of_handle = name.substr(name.size() - sizeof handle);
  const std::optional<PeerAddress> at = address_of(name.substr(0, name.size() - sizeof handle));
  if (!at) return nullptr;
  if (at->is_of_this_process()) {
    if (!is_of_this_gpu(at->memory)) return nullptr;
    return std::make_unique<GpuPeer>(const_cast<std::byte*>(at->memory), false, stream);
  }
  std::memcpy(&handle, of_handle.data(), sizeof handle);
  void* memory = nullptr;
  if (cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  return std::make_unique<GpuPeer>(memory, true, stream);
}

}  // namespace lpmm::kernels::cuda
