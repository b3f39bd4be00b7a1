// dy^T * windows, the gradient of weights: blocks add up the products of shards of pixels.
#pragma once

#include "kernels/cuda/compute/convolution/gather.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

struct GradientProduct {
  Gather windows;
  const Bf16* dy;
  int outputs;
  std::int64_t shard_rows;  // a multiple of what a block takes at once
  float* sums;              // [shard][output][ky, kx, channel]
};

// Outputs and columns of a block; kDown warps share the outputs, kAcross the columns.
template <int kOutputs, int kTileColumns, int kDown, int kAcross>
struct GradientTile {
  static constexpr int kHeight = kOutputs, kColumns = kTileColumns, kDepth = 32;
  static constexpr int kThreads = kDown * kAcross * kWarp;
  static constexpr int kWarpHeight = kHeight / kDown, kWarpColumns = kColumns / kAcross;
  static constexpr int kLeftStride = kHeight + 8, kStride = kColumns + 8;
  static constexpr int kVectors = kColumns / kCopied, kRowStep = kThreads / kVectors;
  static constexpr int kSlots = kDepth / kRowStep;
  static constexpr int kCells = kDepth * (kLeftStride + kStride);  // of a stage: dy, windows
  static constexpr int kBytes = 2 * kStages * kCells;
  using Results = Sums[kWarpHeight / 16][kWarpColumns / 8];

  LPMM_DEVICE static int warp() { return static_cast<int>(threadIdx.x) / kWarp; }
  LPMM_DEVICE static int warp_output() { return warp() / kAcross * kWarpHeight; }
  LPMM_DEVICE static int warp_column() { return warp() % kAcross * kWarpColumns; }
};

template <class T>
LPMM_DEVICE void begin_stage(const GradientProduct& p, const TapOfRows (&taps)[T::kSlots], std::int64_t first,
                             std::int64_t end, int first_output, Bf16* stage) {
  const int thread = static_cast<int>(threadIdx.x);
  constexpr int kLeftVectors = T::kHeight / kCopied;
  LPMM_UNROLL
  for (int begin = 0; begin < T::kDepth * kLeftVectors; begin += T::kThreads) {
    const int i = begin + thread, row = i / kLeftVectors, output = i % kLeftVectors * kCopied;
    if (row >= T::kDepth) continue;
    const bool is_there = first + row < end && first_output + output < p.outputs;
    begin_copy<2 * kCopied>(stage + row * T::kLeftStride + output,
                            p.dy + (is_there ? (first + row) * p.outputs + first_output + output : 0),
                            is_there);
  }
  Bf16* const windows = stage + T::kDepth * T::kLeftStride;
  LPMM_UNROLL
  for (int i = 0; i < T::kSlots; ++i) {
    begin_gather(
        p.windows, taps[i],
        windows + (thread / T::kVectors + i * T::kRowStep) * T::kStride + thread % T::kVectors * kCopied);
  }
}

// Both factors lie with their depth, the pixels, in rows.
template <class T>
LPMM_DEVICE void multiply_gradient_stage(const Bf16* stage, typename T::Results& results) {
  const int lane = lane_of_mma();
  const SharedCells left = SharedCells::at(stage) + ((lane % 8 + lane / 16 * 8) * T::kLeftStride +
                                                     T::warp_output() + lane / 8 % 2 * 8);
  const SharedCells right = SharedCells::at(stage + T::kDepth * T::kLeftStride) +
                            (lane % 16 * T::kStride + T::warp_column() + lane / 16 * 8);
  LPMM_UNROLL
  for (int step = 0; step < T::kDepth / 16; ++step) {
    Quad columns[T::kWarpColumns / 16];
    LPMM_UNROLL
    for (int n = 0; n < T::kWarpColumns / 16; ++n) {
      columns[n] = load_transposed(right + (16 * step * T::kStride + 16 * n));
    }
    LPMM_UNROLL
    for (int m = 0; m < T::kWarpHeight / 16; ++m) {
      multiply_add(results[m], load_transposed(left + (16 * step * T::kLeftStride + 16 * m)), columns);
    }
  }
}

template <class T>
LPMM_DEVICE void store_sums(const GradientProduct& p, const typename T::Results& results, std::int64_t shard,
                            int first_output, int first_column) {
  const int lane = lane_of_mma(), depth = p.windows.depth(),
            column = first_column + T::warp_column() + lane % 4 * 2;
  LPMM_UNROLL
  for (int m = 0; m < T::kWarpHeight / 16; ++m) {
    LPMM_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int output = first_output + T::warp_output() + 16 * m + lane / 4 + 8 * i;
      float* const sums = p.sums + (shard * p.outputs + output) * depth + column;
      LPMM_UNROLL
      for (int n = 0; n < T::kWarpColumns / 8; ++n) {
        if (output >= p.outputs || column + 8 * n >= depth) continue;
        sums[8 * n] = results[m][n].v[2 * i];
        sums[8 * n + 1] = results[m][n].v[2 * i + 1];
      }
    }
  }
}

template <class T>
__global__ void __launch_bounds__(T::kThreads, 512 / T::kThreads) multiply_gradient(GradientProduct p) {
  begin_kernel();
  auto* const stages = static_cast<Bf16*>(dynamic_shared());
  const int thread = static_cast<int>(threadIdx.x);
  const int column_tiles = (p.windows.depth() + T::kColumns - 1) / T::kColumns,
            tiles = column_tiles * ((p.outputs + T::kHeight - 1) / T::kHeight);
  const std::int64_t shard = std::int64_t{1} * blockIdx.x / tiles, first = shard * p.shard_rows,
                     end = first + p.shard_rows < p.windows.rows ? first + p.shard_rows : p.windows.rows;
  const int tile = static_cast<int>(blockIdx.x) % tiles, first_column = tile % column_tiles * T::kColumns,
            first_output = tile / column_tiles * T::kHeight;
  TapOfThread tap;
  tap.advance(p.windows, first_column + thread % T::kVectors * kCopied);
  TapOfRows taps[T::kSlots];
  LPMM_UNROLL
  for (int i = 0; i < T::kSlots; ++i) {
    const std::int64_t row = first + thread / T::kVectors + i * T::kRowStep;
    taps[i] = TapOfRows::of(p.windows, RowOfThread::at(p.windows, row, end), tap);
  }
  std::int64_t row = first;
  typename T::Results results = {};
  go_over_stages(
      static_cast<int>((end - first + T::kDepth - 1) / T::kDepth),
      [&](int stage) {
        begin_stage<T>(p, taps, row, end, first_output, stages + stage * T::kCells);
        LPMM_UNROLL
        for (TapOfRows& of : taps) of.advance(p.windows, T::kDepth);
        row += T::kDepth;
      },
      [&](int stage) { multiply_gradient_stage<T>(stages + stage * T::kCells, results); });
  store_sums<T>(p, results, shard, first_output, first_column);
}

// Calls body with the tile for `outputs` rows of `depth` columns.
template <class Body>
void with_gradient_tile(int outputs, std::int64_t depth, const Body& body) {
  if (outputs <= 16) return body(GradientTile<16, 64, 1, 4>{});
  if (outputs <= 32) return body(GradientTile<32, 64, 1, 4>{});
  if (outputs <= 64 || depth <= 64) return body(GradientTile<64, 64, 2, 2>{});
  body(GradientTile<128, 128, 4, 2>{});
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
