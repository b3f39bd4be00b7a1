// Fast kernels for the codecs of the presets (kernels/cpu/packed/fused.h), with the bytes of the general
// ones. Each returns false where it has none for a call, and has done nothing then.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/launch.h"
#include "kernels/packed.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE::fast {

// All tensors of one arithmetic by a launch of each kernel that they have, and one of what is left: tensors
// without a fast kernel, and units that theirs does not take. No statistics. `completed`: each tensor's rule
// after its first pass, in the device's memory; null where it takes none.
bool update(std::span<const TensorUpdate> tensors, std::span<const void* const> completed, Stream stream);

// Folds in one launch, without statistics; into fp32 accumulators too. `result` is as it was made: only a
// failure is written to it, and the square sum.
bool fold(const Fold& of, Arrivals& arrivals, Stream stream);
// Takes any codec, in one launch.
void square_sum(const RoleView& src, std::int64_t first, std::int64_t count, double* sum, Arrivals& arrivals,
                Stream stream);
bool decode(const RoleView& src, std::int64_t first, std::int64_t count, float* dst, Stream stream);
bool decode_bf16(const RoleView& src, std::int64_t first, std::int64_t count, std::uint16_t* dst,
                 Stream stream);

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE::fast
