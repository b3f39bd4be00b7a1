// Fast kernels for the codecs of the presets (kernels/cpu/packed/fused.h), with the bytes of the general
// ones. Each returns false where it has none for a call, and has done nothing then.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/launch.h"
#include "kernels/packed.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE::fast {

// All tensors in three launches; those without a fast kernel are updated in the last one. No statistics.
bool update(std::span<const TensorUpdate> tensors, Stream stream);

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE::fast
