// The matrix product of a device without a library: tiles that depend on shapes only, each sum in the order
// of k.
#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/cpu/values.h"
#include "kernels/cpu_packed.h"

namespace lpmm::kernels::cpu {
namespace {

constexpr std::int64_t kSide = 64, kDepth = 256;

// Sums of a tile of c, and slices of the factors: [k][row of a] and [k][column of b], zeros outside.
struct Pieces {
  alignas(kAlign) float sums[kSide][kSide], a[kDepth][kSide], b[kDepth][kSide];
};

// to[k][i] <- the factor at (first + k, place + i), whose values lie `along_k` and `across` apart.
void gather(ValueType type, const void* values, std::int64_t along_k, std::int64_t across, std::int64_t first,
            std::int64_t depth, std::int64_t place, std::int64_t count, float (*to)[kSide]) {
  for (std::int64_t k = 0; k < depth; ++k) {
    for (std::int64_t i = 0; i < count; ++i) {
      to[k][i] = get(type, values, (first + k) * along_k + (place + i) * across);
    }
    std::fill(to[k] + count, to[k] + kSide, 0.0F);
  }
}

void add_products(Pieces& pieces, std::int64_t depth) {
  constexpr std::int64_t kRows = 4, kColumns = 16;  // sums that stay in registers
  for (std::int64_t row = 0; row < kSide; row += kRows) {
    for (std::int64_t column = 0; column < kSide; column += kColumns) {
      float sums[kRows][kColumns];
      for (std::int64_t r = 0; r < kRows; ++r) std::copy_n(pieces.sums[row + r] + column, kColumns, sums[r]);
      for (std::int64_t k = 0; k < depth; ++k) {
        for (std::int64_t r = 0; r < kRows; ++r) {
          for (std::int64_t c = 0; c < kColumns; ++c) {
            sums[r][c] += pieces.a[k][row + r] * pieces.b[k][column + c];
          }
        }
      }
      for (std::int64_t r = 0; r < kRows; ++r) std::copy_n(sums[r], kColumns, pieces.sums[row + r] + column);
    }
  }
}

void store(const MatrixArgs& g, const Pieces& pieces, std::int64_t row, std::int64_t column) {
  for (std::int64_t r = 0; r < std::min(kSide, g.m - row); ++r) {
    for (std::int64_t c = 0; c < std::min(kSide, g.n - column); ++c) {
      const std::int64_t at = (row + r) * g.c_stride + column + c;
      float sum = pieces.sums[r][c];
      if (g.accumulate) sum += get(g.c_type, g.c, at);
      if (g.bias != nullptr) sum += g.bias[column + c];
      put(g.c_type, g.c, at, sum);
    }
  }
}

}  // namespace

void multiply(Pool& pool, const MatrixArgs& g) {
  const std::int64_t down = (g.m + kSide - 1) / kSide, across = (g.n + kSide - 1) / kSide;
  pool.for_each(down * across, [&](std::int64_t item, int) {
    static thread_local const auto room = std::make_unique<Pieces>();  // too large for a thread's own block
    Pieces& pieces = *room;
    const std::int64_t row = item / across * kSide, column = item % across * kSide;
    std::memset(pieces.sums, 0, sizeof pieces.sums);
    for (std::int64_t first = 0; first < g.k; first += kDepth) {
      const std::int64_t depth = std::min(kDepth, g.k - first);
      gather(g.type, g.a, g.transpose_a ? g.a_stride : 1, g.transpose_a ? 1 : g.a_stride, first, depth, row,
             std::min(kSide, g.m - row), pieces.a);
      gather(g.type, g.b, g.transpose_b ? 1 : g.b_stride, g.transpose_b ? g.b_stride : 1, first, depth,
             column, std::min(kSide, g.n - column), pieces.b);
      add_products(pieces, depth);
    }
    store(g, pieces, row, column);
  });
}

}  // namespace lpmm::kernels::cpu
