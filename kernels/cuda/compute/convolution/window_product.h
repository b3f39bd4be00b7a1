// y = windows * weights^T: an output, or the gradient of an input.
#pragma once

#include "kernels/cuda/compute/convolution/gather.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

struct WindowProduct {
  Gather windows;
  const Bf16* weights;  // rows of (ky, kx, channel)
  int outputs;
  Bf16* y;
  bool accumulate;
};

// Rows and columns of a block, and how much of the depth it takes at once. Warps share the rows; of more
// than 64 columns, two have the same rows.
template <int kTileRows, int kOutputs>
struct ProductTile {
  static constexpr int kRows = kTileRows, kColumns = kOutputs, kDepth = 32;
  static constexpr int kStride = kDepth + 8;  // rows lie so that eight are in different banks
  static constexpr int kAcross = kColumns > 64 ? 2 : 1, kThreads = 128 * kAcross;
  static constexpr int kWarpRows = kRows * kAcross / (kThreads / kWarp), kWarpColumns = kColumns / kAcross;
  static constexpr int kVectors = kDepth / kCopied, kRowStep = kThreads / kVectors, kSlots = kRows / kRowStep;
  static constexpr int kCells = (kRows + kColumns) * kStride;  // of a stage
  static constexpr int kBytes = 2 * kStages * kCells;
  static constexpr int kBlocks = kBytes > 56 << 10 ? (kAcross == 1 ? 3 : 2) : 4;  // that shared memory holds
  using Results = Sums[kWarpRows / 16][kWarpColumns / 8];

  LPMM_DEVICE static int warp() { return static_cast<int>(threadIdx.x) / kWarp; }
  LPMM_DEVICE static int warp_row() { return warp() / kAcross * kWarpRows; }
  LPMM_DEVICE static int warp_column() { return warp() % kAcross * kWarpColumns; }
};

template <class T>
LPMM_DEVICE void begin_stage(const WindowProduct& p, const WindowOfThread (&windows)[T::kSlots],
                             const TapOfThread& tap, int depth, int first_column, Bf16* stage) {
  const int row = static_cast<int>(threadIdx.x) / T::kVectors,
            vector = static_cast<int>(threadIdx.x) % T::kVectors * kCopied;
  const int number = tap.number(p.windows), offset = tap.offset(p.windows);
  LPMM_UNROLL
  for (int i = 0; i < T::kSlots; ++i) {
    begin_gather(p.windows, windows[i], number, offset,
                 stage + (row + i * T::kRowStep) * T::kStride + vector);
  }
  Bf16* const weights = stage + T::kRows * T::kStride;
  const int at = depth + vector;
  LPMM_UNROLL
  for (int first = 0; first < T::kColumns; first += T::kRowStep) {
    const int column = first + row;
    if (T::kColumns < T::kRowStep && column >= T::kColumns) continue;
    const bool is_there = first_column + column < p.outputs && at < p.windows.depth();
    const std::int64_t from =
        is_there ? std::int64_t{1} * (first_column + column) * p.windows.depth() + at : 0;
    begin_copy<2 * kCopied>(weights + column * T::kStride + vector, p.weights + from, is_there);
  }
}

template <class T>
LPMM_DEVICE void multiply_stage(const Bf16* stage, typename T::Results& results) {
  const int lane = lane_of_mma();
  const SharedCells left =
      SharedCells::at(stage) + ((T::warp_row() + lane % 16) * T::kStride + lane / 16 * 8);
  const SharedCells right = SharedCells::at(stage + (T::kRows + T::warp_column()) * T::kStride) +
                            ((lane / 16 * 8 + lane % 8) * T::kStride + lane / 8 % 2 * 8);
  LPMM_UNROLL
  for (int step = 0; step < T::kDepth / 16; ++step) {
    Quad columns[T::kWarpColumns / 16];
    LPMM_UNROLL
    for (int n = 0; n < T::kWarpColumns / 16; ++n) {
      columns[n] = load_matrices(right + (16 * n * T::kStride + 16 * step));
    }
    LPMM_UNROLL
    for (int m = 0; m < T::kWarpRows / 16; ++m) {
      multiply_add(results[m], load_matrices(left + (16 * m * T::kStride + 16 * step)), columns);
    }
  }
}

template <class T>
LPMM_DEVICE void store_product(const WindowProduct& p, const typename T::Results& results,
                               std::int64_t first_row, int first_column) {
  const int lane = lane_of_mma(), column = first_column + T::warp_column();
  LPMM_UNROLL
  for (int m = 0; m < T::kWarpRows / 16; ++m) {
    LPMM_UNROLL
    for (int i = 0; i < 2; ++i) {
      const std::int64_t row = first_row + T::warp_row() + lane / 4 + 16 * m + 8 * i;
      if (row >= p.windows.rows) continue;
      auto* const pairs = reinterpret_cast<std::uint32_t*>(p.y + row * p.outputs + column) + lane % 4;
      LPMM_UNROLL
      for (int n = 0; n < T::kWarpColumns / 8; ++n) {
        if (column + 8 * n >= p.outputs) continue;
        float low = results[m][n].v[2 * i], high = results[m][n].v[2 * i + 1];
        if (p.accumulate) {
          low += bf16_to_float(static_cast<Bf16>(pairs[4 * n]));
          high += bf16_to_float(static_cast<Bf16>(pairs[4 * n] >> 16));
        }
        pairs[4 * n] = pair_of(low, high);
      }
    }
  }
}

template <class T>
__global__ void __launch_bounds__(T::kThreads, T::kBlocks) multiply_windows(WindowProduct p) {
  begin_kernel();
  auto* const stages = static_cast<Bf16*>(dynamic_shared());
  const int thread = static_cast<int>(threadIdx.x),
            column_tiles = (p.outputs + T::kColumns - 1) / T::kColumns;
  const std::int64_t first_row = std::int64_t{1} * blockIdx.x / column_tiles * T::kRows;
  const int first_column = static_cast<int>(blockIdx.x) % column_tiles * T::kColumns;
  WindowOfThread windows[T::kSlots];
  LPMM_UNROLL
  for (int i = 0; i < T::kSlots; ++i) {
    const std::int64_t row = first_row + thread / T::kVectors + i * T::kRowStep;
    windows[i] = WindowOfThread::of(p.windows, RowOfThread::at(p.windows, row, p.windows.rows));
  }
  TapOfThread tap;
  tap.advance(p.windows, thread % T::kVectors * kCopied);
  int depth = 0;
  typename T::Results results = {};
  go_over_stages((p.windows.depth() + T::kDepth - 1) / T::kDepth,
                 [&](int stage) {
                   begin_stage<T>(p, windows, tap, depth, first_column, stages + stage * T::kCells);
                   tap.advance(p.windows, T::kDepth);
                   depth += T::kDepth;
                 },
                 [&](int stage) { multiply_stage<T>(stages + stage * T::kCells, results); });
  store_product<T>(p, results, first_row, first_column);
}

#if defined(__CUDACC__)
inline constexpr std::int64_t kEnoughBlocks = 200;
#else
inline constexpr std::int64_t kEnoughBlocks = 2;  // small products too take every tile
#endif

// Calls body with the tile for a product: wide ones read the least, where enough of them are left for all
// processors of a large device.
template <class Body>
void with_product_tile(std::int64_t rows, int outputs, const Body& body) {
  const auto blocks = [&](int tile_rows, int columns) {
    return (rows + tile_rows - 1) / tile_rows * ((outputs + columns - 1) / columns);
  };
  if (outputs <= 16) return body(ProductTile<128, 16>{});
  if (outputs <= 32) return body(ProductTile<128, 32>{});
  if (outputs > 64 && blocks(128, 128) >= kEnoughBlocks) return body(ProductTile<128, 128>{});
  if (blocks(128, 64) >= kEnoughBlocks) return body(ProductTile<128, 64>{});
  body(ProductTile<64, 64>{});
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
