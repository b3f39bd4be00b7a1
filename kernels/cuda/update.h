// The kernels of kernels/packed.h on a CUDA device: the same meaning, the same bits.
//
// All pointers are device memory, as RoleView lays it out, those of results too. Calls queue work on `stream`
// of the current device and return; they throw std::runtime_error where a launch fails. Statistics of changes
// are not counted here: std::logic_error where they are asked for.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/launch.h"
#include "kernels/packed.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

void encode(const RoleView& dst, std::int64_t first, std::int64_t count, const float* src, const Noise& noise,
            bool* storable, Stream stream);
void decode(const RoleView& src, std::int64_t first, std::int64_t count, float* dst, Stream stream);
void decode_bf16(const RoleView& src, std::int64_t first, std::int64_t count, std::uint16_t* dst,
                 Stream stream);
void decode_rows(const RoleView& src, std::int64_t width, const std::int32_t* rows, std::int64_t count,
                 float* dst, Stream stream);
void fold(const RoleView& accumulator, std::int64_t first, std::int64_t count, const float* contribution,
          const FoldArgs& args, FoldResult* result, Stream stream);
void square_sum(const RoleView& src, std::int64_t first, std::int64_t count, double* sum, Stream stream);
void clear(const RoleView& accumulator, Stream stream);
void update(std::span<const TensorUpdate> tensors, Stream stream);

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
