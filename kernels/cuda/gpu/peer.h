// Memory of GPUs that processes of a host read of each other (CUDA's interprocess handles).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "kernels/packed_device.h"

namespace lpmm::kernels::cuda {

// A name of memory that cudaMalloc() returned; empty where this GPU gives none.
std::string peer_name(const std::byte* memory);
// Copies of it are queued on `stream`. Null where this GPU does not reach it.
std::unique_ptr<PeerMemory> open_peer(std::string_view name, cudaStream_t stream);

}  // namespace lpmm::kernels::cuda
