// Element loops, activations and the gradient of a bias, in shards.
#include "kernels/cpu.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/compute/backend.h"
#include "kernels/cpu/compute/cut.h"
#include "kernels/cpu/compute/loops.h"
#include "kernels/cpu/sequence/activation_loops.h"
#include "kernels/cpu/sequence/sequence_loops.h"

namespace lpmm::kernels {

const char* cpu_library() {
  return backend::name();
}

void CpuDevice::to_float(ValueType type, std::int64_t count, const void* in, float* out) {
  for_shards(pool(), count, kShard, [&](std::int64_t first, std::int64_t n) {
    loops::elements().to_float(type, {.columns = n}, bytes_at(in, first * value_bytes(type)), out + first);
  });
}
void CpuDevice::from_float(ValueType type, std::int64_t count, const float* in, void* out) {
  for_shards(pool(), count, kShard, [&](std::int64_t first, std::int64_t n) {
    loops::elements().from_float(type, {.columns = n}, in + first, bytes_at(out, first * value_bytes(type)));
  });
}
void CpuDevice::add(const Array& of, const void* a, const void* b, void* y) {
  for_shards(pool(), of.count, kShard, [&](std::int64_t first, std::int64_t n) {
    const std::int64_t at = first * value_bytes(of.type);
    loops::elements().add(of.type, n, bytes_at(a, at), bytes_at(b, at), bytes_at(y, at));
  });
}
void CpuDevice::copy_or_add(const Array& of, const void* src, void* dst, bool accumulate) {
  if (accumulate) return add(of, src, dst, dst);
  for_shards(pool(), of.count * value_bytes(of.type), 4 * kShard, [&](std::int64_t at, std::int64_t n) {
    std::memcpy(bytes_at(dst, at), bytes_at(src, at), static_cast<std::size_t>(n));
  });
}

void CpuDevice::scale(const ScaleArgs& args) {
  constexpr std::int64_t kPiece = 4096;
  const std::int64_t b = value_bytes(args.of.type);
  for_shards(pool(), args.of.count, kPiece, [&](std::int64_t first, std::int64_t n) {
    alignas(64) float values[kPiece];
    loops::elements().to_float(args.of.type, {.columns = n}, bytes_at(args.x, first * b), values);
    if (args.by_column == nullptr) {
      loops::sequences().scale(n, args.factor, values);
    } else {
      std::int64_t column = first % args.columns;
      for (std::int64_t i = 0; i < n; ++i, column = column + 1 == args.columns ? 0 : column + 1)
        values[i] *= args.by_column[column];
    }
    loops::elements().from_float(args.of.type, {.columns = n, .accumulate = args.accumulate}, values,
                                 bytes_at(args.y, first * b));
  });
}

// ---- activations -----------------------------------------------------------------------------------------
namespace {

// Runs a loop on shards of rows; those that are not gated are one long row.
void for_parts(Pool& pool, const ActivationArgs& args, void (*loop)(const ActivationArgs&)) {
  const std::int64_t rows = args.is_gated ? args.rows : args.rows * args.width,
                     width = args.is_gated ? args.width : 1, bytes = width * value_bytes(args.type);
  for_shards(pool, rows, std::max<std::int64_t>(1, kShard / width), [&](std::int64_t first, std::int64_t n) {
    ActivationArgs part = args;
    part.rows = args.is_gated ? n : 1;
    part.width = args.is_gated ? width : n;
    advance(first * bytes, part.y, part.dy);
    advance((args.is_gated ? 2 : 1) * first * bytes, part.x, part.dx);
    loop(part);
  });
}

}  // namespace

void CpuDevice::activate(const ActivationArgs& args) {
  for_parts(pool(), args, loops::activations().forward);
}
void CpuDevice::activate_backward(const ActivationArgs& args) {
  for_parts(pool(), args, loops::activations().backward);
}

const void* CpuDevice::bias_backward(const BiasBackward& args) {
  const void* out = args.g != nullptr ? args.g : args.dy;
  const ValueType type = args.of.type;
  constexpr std::int64_t kStrip = 256;
  for_shards(pool(), args.columns, kStrip, [&](std::int64_t first, std::int64_t n) {
    std::fill_n(args.bias_gradient + first, n, 0.0F);
    for (std::int64_t i = first; i < args.of.count; i += args.columns) {
      const std::int64_t at = i * value_bytes(type);
      if (args.x != nullptr) {
        alignas(64) float x[kStrip], dy[kStrip];
        loops::elements().to_float(type, {.columns = n}, bytes_at(args.x, at), x);
        loops::elements().to_float(type, {.columns = n}, bytes_at(args.dy, at), dy);
        for (std::int64_t k = 0; k < n; ++k) args.bias_gradient[first + k] += dy[k] * x[k];
        continue;
      }
      if (args.g != nullptr) {
        loops::activations().backward({.type = type,
                                       .width = n,
                                       .x = bytes_at(args.y, at),
                                       .dy = bytes_at(args.dy, at),
                                       .dx = bytes_at(args.g, at)});
      }
      loops::elements().add_row(type, n, bytes_at(out, at), args.bias_gradient + first);
    }
  });
  return out;
}

}  // namespace lpmm::kernels
