// Element loops, and the gradient of a bias, in shards.
#include "kernels/cpu.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/compute/backend.h"
#include "kernels/cpu/compute/cut.h"
#include "kernels/cpu/compute/loops.h"
#include "kernels/cpu/sequence/sequence_loops.h"

namespace lpmm::kernels {

const char* cpu_library() {
  return backend::name();
}

void CpuDevice::to_float(Compute type, std::int64_t count, const void* in, float* out) {
  for_shards(pool(), count, kShard, [&](std::int64_t first, std::int64_t n) {
    loops::to_float(type, n, bytes_at(in, first * value_bytes(type)), out + first);
  });
}
void CpuDevice::from_float(Compute type, std::int64_t count, const float* in, void* out) {
  for_shards(pool(), count, kShard, [&](std::int64_t first, std::int64_t n) {
    loops::from_float(type, n, in + first, bytes_at(out, first * value_bytes(type)), false);
  });
}
void CpuDevice::relu_forward(Compute type, std::int64_t count, const void* x, void* y) {
  for_values(pool(), type, count,
             [&](std::int64_t n, const auto& at) { loops::relu_forward(type, n, at(x), at(y)); });
}
void CpuDevice::relu_backward(Compute type, std::int64_t count, const void* y, const void* dy, void* dx,
                              bool accumulate) {
  for_values(pool(), type, count, [&](std::int64_t n, const auto& at) {
    loops::relu_backward(type, n, at(y), at(dy), at(dx), accumulate);
  });
}
void CpuDevice::add(Compute type, std::int64_t count, const void* a, const void* b, void* y) {
  for_values(pool(), type, count,
             [&](std::int64_t n, const auto& at) { loops::add(type, n, at(a), at(b), at(y)); });
}
void CpuDevice::copy_or_add(Compute type, std::int64_t count, const void* src, void* dst, bool accumulate) {
  if (accumulate) return add(type, count, src, dst, dst);
  for_values(pool(), type, count, [&](std::int64_t n, const auto& at) {
    std::memcpy(at(dst), at(src), static_cast<std::size_t>(n * value_bytes(type)));
  });
}

void CpuDevice::scale(Compute type, std::int64_t count, float factor, const void* src, void* dst,
                      bool accumulate) {
  constexpr std::int64_t kPiece = 4096;
  const std::int64_t b = value_bytes(type);
  for_shards(pool(), count, kPiece, [&](std::int64_t first, std::int64_t n) {
    alignas(64) float values[kPiece];
    loops::to_float(type, n, bytes_at(src, first * b), values);
    loops::scale(n, factor, values);
    loops::from_float(type, n, values, bytes_at(dst, first * b), accumulate);
  });
}

const void* CpuDevice::bias_backward(Compute type, std::int64_t rows, std::int64_t columns, const void* y,
                                     const void* dy, bool relu, void* g, float* bias_gradient) {
  const void* out = relu ? g : dy;
  for_shards(pool(), columns, 256, [&](std::int64_t first, std::int64_t n) {
    std::fill_n(bias_gradient + first, n, 0.0F);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t at = (r * columns + first) * value_bytes(type);
      if (relu) loops::relu_backward(type, n, bytes_at(y, at), bytes_at(dy, at), bytes_at(g, at), false);
      loops::add_row(type, n, bytes_at(out, at), bias_gradient + first);
    }
  });
  return out;
}

}  // namespace lpmm::kernels
