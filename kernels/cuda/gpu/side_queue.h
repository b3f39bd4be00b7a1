// A stream beside that of a GPU's kernels, for a link.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "kernels/cuda/nccl.h"

namespace lpmm::kernels::cuda {

// Of the GPU of that number, whose kernels are queued on `kernels`. Throws std::runtime_error.
std::unique_ptr<SideQueue> open_side_queue(int number, cudaStream_t kernels);

}  // namespace lpmm::kernels::cuda
