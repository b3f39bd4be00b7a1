// The kernels of kernels/packed.h on a CUDA device: the same meaning, the same bits. Built where CUDA is
// (CMake option LPMM_CUDA); elsewhere the same symbols throw std::runtime_error.
//
// All pointers are device memory, as RoleView lays it out, those of results too. Calls queue work on `stream`
// of the current device and return; they throw std::runtime_error where a launch fails. Statistics of changes
// are not counted here: std::logic_error where they are asked for.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/packed.h"

struct CUstream_st;  // the CUDA runtime's cudaStream_t is a pointer to it

namespace lpmm::kernels::cuda {

using Stream = CUstream_st*;  // null: the default stream

// Null where CUDA is built in and a device is there, else why not.
const char* unavailable();

// Device memory, zeroed, and copies that wait for all work queued so far.
void* allocate(std::int64_t bytes);
void release(void* memory) noexcept;
void upload(void* device, const void* host, std::int64_t bytes);
void download(void* host, const void* device, std::int64_t bytes);

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
void update(const TensorUpdate& tensor, Stream stream);
void update(std::span<const TensorUpdate> tensors, Stream stream);

}  // namespace lpmm::kernels::cuda
