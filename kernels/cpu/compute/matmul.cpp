// The matrix product in tiles that depend on shapes only.
#include "kernels/cpu.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/compute/backend.h"
#include "kernels/cpu/compute/cut.h"
#include "kernels/cpu/compute/loops.h"

namespace lpmm::kernels {
namespace {

// A factor of a product, op(values).
struct Factor {
  ValueType type = ValueType::kFp32;
  const void* values = nullptr;
  std::int64_t stride = 0;
  bool transposed = false;

  Factor at(std::int64_t row, std::int64_t column) const {
    return {
        type,
        bytes_at(values, (transposed ? column * stride + row : row * stride + column) * value_bytes(type)),
        stride, transposed};
  }
  // An fp32 copy of its first rows and columns, without transposition.
  template <std::int64_t kStride>
  Factor packed(std::int64_t rows, std::int64_t columns, float (*to)[kStride]) const {
    if (!transposed) {
      loops::elements().to_float(type, {rows, columns, stride, kStride}, values, to[0]);
    } else if (type == ValueType::kFp32) {
      loops::elements().transpose({columns, rows, stride, kStride}, static_cast<const float*>(values), to[0]);
    } else {
      constexpr std::int64_t kStrip = 16;
      alignas(kAlign) float strip[kStrip][kStride];
      for (std::int64_t c = 0; c < columns; c += kStrip) {
        const std::int64_t n = std::min(kStrip, columns - c);
        loops::elements().to_float(type, {n, rows, stride, kStride},
                                   bytes_at(values, c * stride * value_bytes(type)), strip[0]);
        loops::elements().transpose({n, rows, kStride, kStride}, strip[0], to[0] + c);
      }
    }
    return {ValueType::kFp32, to[0], kStride, false};
  }
};

// Libraries read small factors where they lie. That is slow down the columns of the first, and along rows a
// page apart: such factors are copied piece by piece, as are those that have to be widened. Strides are odd
// multiples of a cache line.
struct PackedPieces {
  static constexpr std::int64_t kSide = 256, kStride = kSide + 16, kPage = 1024;
  alignas(kAlign) float a[kSide][kStride], b[kSide][kStride];
};

bool is_widened(ValueType type) {
  return type == ValueType::kBf16 && !backend::multiplies_bf16();
}
// True if each value of a packed copy is used often enough.
bool packing_pays(std::int64_t m, std::int64_t n) {
  return std::min(m, n) >= 32;
}

std::int64_t tiles_of(const MatrixArgs& g, std::int64_t rows, std::int64_t columns) {
  return ((g.m + rows - 1) / rows) * ((g.n + columns - 1) / columns);
}

std::int64_t pieces_bytes(const MatrixArgs& g, int threads) {
  const bool packs = is_widened(g.type) || (g.type == ValueType::kFp32 && packing_pays(g.m, g.n));
  return packs ? threads * static_cast<std::int64_t>(sizeof(PackedPieces)) : 0;
}

// The product in fp32, without a bias.
void multiply(Pool& pool, const MatrixArgs& g, void* scratch) {
  using Pieces = PackedPieces;
  const Factor a{g.type, g.a, g.a_stride, g.transpose_a}, b{g.type, g.b, g.b_stride, g.transpose_b};
  const bool pack = is_widened(g.type) || (g.type == ValueType::kFp32 && packing_pays(g.m, g.n) &&
                                           (a.transposed || std::max(a.stride, b.stride) >= Pieces::kPage));
  // Tiles of c, and slices of k: large ones where that leaves work for some threads.
  std::int64_t rows = Pieces::kSide, columns = pack ? Pieces::kSide : 2 * Pieces::kSide,
               depth = pack ? Pieces::kSide : g.k;
  if (pack || g.type == ValueType::kBf16) {
    while (columns > 64 && tiles_of(g, rows, columns) < 8) (columns < rows ? rows : columns) /= 2;
  } else {
    const std::int64_t size = std::max(g.m, g.n), panel = size <= 1024 ? 64 : 256;
    rows = g.m > g.n ? panel : g.m;
    columns = g.m > g.n ? g.n : panel;
  }
  const std::int64_t across = (g.n + columns - 1) / columns;
  pool.for_each(tiles_of(g, rows, columns), [&](std::int64_t item, int thread) {
    const std::int64_t row = item / across * rows, column = item % across * columns;
    MatrixArgs part{.m = std::min(rows, g.m - row),
                    .n = std::min(columns, g.n - column),
                    .c = static_cast<float*>(g.c) + row * g.c_stride + column,
                    .c_stride = g.c_stride};
    for (std::int64_t first = 0; first < g.k; first += depth) {
      part.k = std::min(depth, g.k - first);
      part.accumulate = g.accumulate || first > 0;
      Factor left = a.at(row, first), right = b.at(first, column);
      if (pack) {
        auto& pieces = static_cast<Pieces*>(scratch)[thread];
        left = left.packed(part.m, part.k, pieces.a);
        if (is_widened(g.type) || b.stride >= Pieces::kPage) right = right.packed(part.k, part.n, pieces.b);
      }
      part.type = left.type;
      part.transpose_a = left.transposed;
      part.a = left.values;
      part.a_stride = left.stride;
      part.transpose_b = right.transposed;
      part.b = right.values;
      part.b_stride = right.stride;
      backend::matmul(part);
    }
  });
}

}  // namespace

// A product that is rounded is made in fp32 behind the pieces.
std::int64_t CpuDevice::matmul_scratch_bytes(const MatrixArgs& g) const {
  return pieces_bytes(g, threads_) + (g.c_type == ValueType::kFp32 ? 0 : 4 * g.m * g.n);
}

void CpuDevice::matmul(const MatrixArgs& g, void* scratch) {
  const bool rounds = g.c_type != ValueType::kFp32;
  MatrixArgs sums = g;
  if (rounds) {
    sums.c = bytes_at(scratch, pieces_bytes(g, threads_));
    sums.c_stride = g.n;
  }
  multiply(pool(), sums, scratch);
  if (!rounds && g.bias == nullptr) return;
  for_shards(pool(), g.m, std::max<std::int64_t>(1, kShard / g.n), [&](std::int64_t first, std::int64_t n) {
    const Rows rows = {n, g.n, sums.c_stride, g.c_stride};
    const float* const from = static_cast<const float*>(sums.c) + first * sums.c_stride;
    void* const to = bytes_at(g.c, first * g.c_stride * value_bytes(g.c_type));
    if (g.bias != nullptr) {
      loops::elements().add_bias(g.c_type, rows, from, g.bias, to);
    } else {
      loops::elements().from_float(g.c_type, rows, from, to);
    }
  });
}

namespace backend {

Widened::Widened(const MatrixArgs& of) : args(of) {
  const auto widen = [](const void* from, std::int64_t lines, std::int64_t values, std::int64_t& stride,
                        std::vector<float>& to) {
    to.resize(static_cast<std::size_t>(lines * values));
    loops::elements().to_float(ValueType::kBf16, {lines, values, stride, values}, from, to.data());
    stride = values;
    return to.data();
  };
  args.type = ValueType::kFp32;
  args.a = widen(of.a, of.transpose_a ? of.k : of.m, of.transpose_a ? of.m : of.k, args.a_stride, a);
  args.b = widen(of.b, of.transpose_b ? of.n : of.k, of.transpose_b ? of.k : of.n, args.b_stride, b);
}

}  // namespace backend

}  // namespace lpmm::kernels
