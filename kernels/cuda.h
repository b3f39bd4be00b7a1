// The packed update on a CUDA device: the same semantics and bits as kernels/packed.h. Built where CUDA is
// (CMake option LPMM_CUDA); elsewhere the same symbols throw std::runtime_error.
//
// All pointers are device memory, as RoleView lays it out. Calls queue work on `stream` of the current device
// and return; they throw std::runtime_error where a launch fails. A value that is not storable (NaN, Inf,
// above 2^120) sets `*failed` to 1 and nothing ever sets it to 0; what is then stored is as in
// kernels/packed.h.
#pragma once

#include <cstdint>

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
            int* failed, Stream stream);
void decode(const RoleView& src, std::int64_t first, std::int64_t count, float* dst, Stream stream);

// accumulator[first..] += scale * contribution.
void fold(const RoleView& accumulator, std::int64_t first, std::int64_t count, const float* contribution,
          float scale, const Noise& noise, int* failed, Stream stream);

// One optimizer step over a whole tensor; unused roles have null codes, and the stream of `noise` is set per
// role. Empties the accumulator.
void update(const Rule& rule, const RoleArray<RoleView>& roles, const Noise& noise, int* failed,
            Stream stream);

}  // namespace lpmm::kernels::cuda
