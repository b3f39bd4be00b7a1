// Convolution as products on tensor cores whose factors are gathered from the pixels as they are needed, so
// that columns (kernels/cuda/compute/convolution.cu) are never stored: the implicit product of Chetlur et al.
// 2014 (arXiv 1410.0759). Factors are bf16, sums fp32. Partial sums of the weights' gradient are added up in
// an order that shapes alone decide.
#include <algorithm>

#include "kernels/cuda/compute/columns.h"
#include "kernels/cuda/compute/convolution.h"
#include "kernels/cuda/compute/mma.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {
namespace {

constexpr int kProductThreads = 128, kProductWarps = kProductThreads / kWarp;
constexpr int kCopied = 8;  // cells at once

// Which pixel a window has at a tap: of row r and tap k, (r * step + offset + sign * k) / divisor, where that
// is a whole number and in the image. The gradient of the input gathers from dy, by windows turned round.
struct Gather {
  const Bf16* pixels;
  int height, width, channels;  // of what is gathered from
  int rows_height, rows_width;  // of what the rows are pixels of
  int kernel, step, offset, sign, divisor;
  std::int64_t rows;
  LPMM_HD int depth() const { return kernel * kernel * channels; }

  static Gather of_input(const ConvShape& s, const void* x) {
    const std::int64_t rows = std::int64_t{1} * s.batch * s.out_height() * s.out_width();
    return {static_cast<const Bf16*>(x),
            s.height,
            s.width,
            s.in,
            s.out_height(),
            s.out_width(),
            s.kernel,
            s.stride,
            -s.pad,
            1,
            1,
            rows};
  }
  static Gather of_gradient(const ConvShape& s, const void* dy) {
    const std::int64_t rows = std::int64_t{1} * s.batch * s.height * s.width;
    return {static_cast<const Bf16*>(dy),
            s.out_height(),
            s.out_width(),
            s.out,
            s.height,
            s.width,
            s.kernel,
            1,
            s.pad,
            -1,
            s.stride,
            rows};
  }
};

// A tap and the first of eight channels there.
struct TapOfThread {
  int y = 0, x = 0, channel = 0;
  LPMM_DEVICE void advance(const Gather& g, int cells) {
    channel += cells;
    while (channel >= g.channels) {
      channel -= g.channels;
      if (++x == g.kernel) {
        x = 0;
        ++y;
      }
    }
  }
};
struct RowOfThread {
  std::int64_t row, image;
  int y, x;
  LPMM_DEVICE static RowOfThread at(const Gather& g, std::int64_t row) {
    const Place line = Place::of(row, g.rows_width), image = Place::of(line.row, g.rows_height);
    return {row, image.row, static_cast<int>(image.column), static_cast<int>(line.column)};
  }
  LPMM_DEVICE void advance(const Gather& g, int rows) {
    row += rows;
    x += rows;
    while (x >= g.rows_width) {
      x -= g.rows_width;
      if (++y == g.rows_height) {
        y = 0;
        ++image;
      }
    }
  }
};

LPMM_DEVICE bool find_pixel(const Gather& g, int row, int tap, int size, int& at) {
  at = row * g.step + g.offset + g.sign * tap;
  if (at < 0) return false;
  if (g.divisor != 1) {
    const int whole = at / g.divisor;
    if (whole * g.divisor != at) return false;
    at = whole;
  }
  return at < size;
}
// Begins to copy a tap's eight channels for a row before `end`; zeros where there is no such pixel.
LPMM_DEVICE void begin_gather(const Gather& g, const RowOfThread& row, const TapOfThread& tap,
                              std::int64_t end, Bf16* to) {
  int y = 0, x = 0;
  const bool is_there = row.row < end && tap.y < g.kernel && find_pixel(g, row.y, tap.y, g.height, y) &&
                        find_pixel(g, row.x, tap.x, g.width, x);
  const std::int64_t pixel = is_there ? (row.image * g.height + y) * g.width + x : 0;
  begin_copy<2 * kCopied>(to, g.pixels + pixel * g.channels + (is_there ? tap.channel : 0), is_there);
}

// ---- y = windows * weights^T
// -------------------------------------------------------------------------------
struct WindowProduct {
  Gather windows;
  const Bf16* weights;  // rows of (ky, kx, channel)
  int outputs;
  Bf16* y;
  bool accumulate;
};

// A block's rows, columns and how much of the depth it takes at once; a warp has all columns of its rows.
template <int kOutputs>
struct ProductTile {
  static constexpr int kRows = 128, kDepth = 32, kColumns = kOutputs;
  static constexpr int kStride = kDepth + 8;  // rows lie so that eight are in different banks
  static constexpr int kVectors = kDepth / kCopied, kRowStep = kProductThreads / kVectors;
  static constexpr int kSlots = kRows / kRowStep;
  static constexpr int kWarpRows = kRows / kProductWarps, kHeights = kWarpRows / 16;
  static constexpr int kCells = (kRows + kColumns) * kStride;  // of a stage
  using Results = Sums[kHeights][kColumns / 8];
};

template <class T>
LPMM_DEVICE void begin_stage(const WindowProduct& p, const RowOfThread (&rows)[T::kSlots],
                             const TapOfThread& tap, int depth, int first_column, Bf16* stage) {
  const int thread = static_cast<int>(threadIdx.x), vector = thread % T::kVectors * kCopied;
  LPMM_UNROLL
  for (int i = 0; i < T::kSlots; ++i) {
    begin_gather(p.windows, rows[i], tap, p.windows.rows,
                 stage + (thread / T::kVectors + i * T::kRowStep) * T::kStride + vector);
  }
  Bf16* const weights = stage + T::kRows * T::kStride;
  for (int column = thread / T::kVectors; column < T::kColumns; column += T::kRowStep) {
    const int at = depth + vector;
    const bool is_there = first_column + column < p.outputs && at < p.windows.depth();
    begin_copy<2 * kCopied>(
        weights + column * T::kStride + vector,
        p.weights + (is_there ? std::int64_t{1} * (first_column + column) * p.windows.depth() + at : 0),
        is_there);
  }
}
template <class T>
LPMM_DEVICE void multiply_stage(const Bf16* stage, typename T::Results& results) {
  const int lane = lane_of_mma(), warp_row = static_cast<int>(threadIdx.x) / kWarp * T::kWarpRows;
  const SharedCells left = SharedCells::at(stage) + ((warp_row + lane % 16) * T::kStride + lane / 16 * 8);
  const SharedCells right = SharedCells::at(stage + T::kRows * T::kStride) +
                            ((lane / 16 * 8 + lane % 8) * T::kStride + lane / 8 % 2 * 8);
  LPMM_UNROLL
  for (int step = 0; step < T::kDepth / 16; ++step) {
    Quad columns[T::kColumns / 16];
    LPMM_UNROLL
    for (int n = 0; n < T::kColumns / 16; ++n)
      columns[n] = load_matrices(right + (16 * n * T::kStride + 16 * step));
    LPMM_UNROLL
    for (int m = 0; m < T::kHeights; ++m) {
      multiply_add(results[m], load_matrices(left + (16 * m * T::kStride + 16 * step)), columns);
    }
  }
}
template <class T>
LPMM_DEVICE void store_product(const WindowProduct& p, const typename T::Results& results,
                               std::int64_t first_row, int first_column) {
  const int lane = lane_of_mma();
  const std::int64_t row_of_lane =
      first_row + static_cast<int>(threadIdx.x) / kWarp * T::kWarpRows + lane / 4;
  LPMM_UNROLL
  for (int m = 0; m < T::kHeights; ++m) {
    LPMM_UNROLL
    for (int i = 0; i < 2; ++i) {
      const std::int64_t row = row_of_lane + 16 * m + 8 * i;
      if (row >= p.windows.rows) continue;
      auto* const pairs = reinterpret_cast<std::uint32_t*>(p.y + row * p.outputs + first_column) + lane % 4;
      LPMM_UNROLL
      for (int n = 0; n < T::kColumns / 8; ++n) {
        if (first_column + 8 * n >= p.outputs) continue;
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
__global__ void __launch_bounds__(kProductThreads, 4) multiply_windows(WindowProduct p) {
  auto* const stages = static_cast<Bf16*>(dynamic_shared());
  const int thread = static_cast<int>(threadIdx.x),
            column_tiles = (p.outputs + T::kColumns - 1) / T::kColumns;
  const std::int64_t first_row = std::int64_t{1} * blockIdx.x / column_tiles * T::kRows;
  const int first_column = static_cast<int>(blockIdx.x) % column_tiles * T::kColumns;
  RowOfThread rows[T::kSlots];
  LPMM_UNROLL
  for (int i = 0; i < T::kSlots; ++i) {
    rows[i] = RowOfThread::at(p.windows, first_row + thread / T::kVectors + i * T::kRowStep);
  }
  TapOfThread tap;
  tap.advance(p.windows, thread % T::kVectors * kCopied);
  typename T::Results results = {};
  begin_stage<T>(p, rows, tap, 0, first_column, stages);
  int stage = 0;
  for (int depth = 0; depth < p.windows.depth(); depth += T::kDepth) {
    wait_for_copies();
    __syncthreads();
    const Bf16* const now = stages + stage * T::kCells;
    stage ^= 1;
    if (depth + T::kDepth < p.windows.depth()) {
      tap.advance(p.windows, T::kDepth);
      begin_stage<T>(p, rows, tap, depth + T::kDepth, first_column, stages + stage * T::kCells);
    }
    multiply_stage<T>(now, results);
  }
  store_product<T>(p, results, first_row, first_column);
}

// ---- weight gradient = dy^T * windows
// ----------------------------------------------------------------------
struct GradientProduct {
  Gather windows;
  const Bf16* dy;
  int outputs;
  std::int64_t shard_rows;  // pixels whose products a block adds up
  float* sums;              // [shard][output][ky, kx, channel]
};

template <int kOutputs>
struct GradientTile {
  static constexpr int kHeight = kOutputs, kColumns = 64, kDepth = 32;
  static constexpr int kLeftStride = kHeight + 8, kStride = kColumns + 8;
  static constexpr int kVectors = kColumns / kCopied, kRowStep = kProductThreads / kVectors;
  static constexpr int kSlots = kDepth / kRowStep;
  static constexpr int kCells = kDepth * (kLeftStride + kStride);  // of a stage: dy, windows
  using Results = Sums[kHeight / 16][2];
};

template <class T>
LPMM_DEVICE void begin_stage(const GradientProduct& p, const RowOfThread (&rows)[T::kSlots],
                             const TapOfThread& tap, std::int64_t first, std::int64_t end, int first_output,
                             Bf16* stage) {
  const int thread = static_cast<int>(threadIdx.x);
  constexpr int kLeftVectors = T::kHeight / kCopied;
  for (int i = thread; i < T::kDepth * kLeftVectors; i += kProductThreads) {
    const int row = i / kLeftVectors, output = i % kLeftVectors * kCopied;
    const bool is_there = first + row < end && first_output + output < p.outputs;
    begin_copy<2 * kCopied>(stage + row * T::kLeftStride + output,
                            p.dy + (is_there ? (first + row) * p.outputs + first_output + output : 0),
                            is_there);
  }
  Bf16* const windows = stage + T::kDepth * T::kLeftStride;
  LPMM_UNROLL
  for (int i = 0; i < T::kSlots; ++i) {
    begin_gather(
        p.windows, rows[i], tap, end,
        windows + (thread / T::kVectors + i * T::kRowStep) * T::kStride + thread % T::kVectors * kCopied);
  }
}
template <class T>
LPMM_DEVICE void multiply_gradient_stage(const Bf16* stage, typename T::Results& results) {
  const int lane = lane_of_mma(), warp_column = static_cast<int>(threadIdx.x) / kWarp * 16;
  // Both lie with their depth, the pixels, in rows.
  const SharedCells left =
      SharedCells::at(stage) + ((lane % 8 + lane / 16 * 8) * T::kLeftStride + lane / 8 % 2 * 8);
  const SharedCells right = SharedCells::at(stage + T::kDepth * T::kLeftStride) +
                            (lane % 16 * T::kStride + lane / 16 * 8 + warp_column);
  LPMM_UNROLL
  for (int step = 0; step < T::kDepth / 16; ++step) {
    const Quad columns[1] = {load_transposed(right + 16 * step * T::kStride)};
    LPMM_UNROLL
    for (int m = 0; m < T::kHeight / 16; ++m) {
      multiply_add(results[m], load_transposed(left + (16 * step * T::kLeftStride + 16 * m)), columns);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kProductThreads, 4) multiply_gradient(GradientProduct p) {
  auto* const stages = static_cast<Bf16*>(dynamic_shared());
  const int thread = static_cast<int>(threadIdx.x), lane = lane_of_mma(), depth = p.windows.depth();
  const int column_tiles = (depth + T::kColumns - 1) / T::kColumns,
            output_tiles = (p.outputs + T::kHeight - 1) / T::kHeight;
  const std::int64_t shard = std::int64_t{1} * blockIdx.x / (column_tiles * output_tiles);
  const int tile = static_cast<int>(blockIdx.x) % (column_tiles * output_tiles);
  const int first_column = tile % column_tiles * T::kColumns, first_output = tile / column_tiles * T::kHeight;
  const std::int64_t first = shard * p.shard_rows,
                     end = first + p.shard_rows < p.windows.rows ? first + p.shard_rows : p.windows.rows;
  RowOfThread rows[T::kSlots];
  LPMM_UNROLL
  for (int i = 0; i < T::kSlots; ++i) {
    rows[i] = RowOfThread::at(p.windows, first + thread / T::kVectors + i * T::kRowStep);
  }
  TapOfThread tap;
  tap.advance(p.windows, first_column + thread % T::kVectors * kCopied);
  typename T::Results results = {};
  begin_stage<T>(p, rows, tap, first, end, first_output, stages);
  int stage = 0;
  for (std::int64_t row = first; row < end; row += T::kDepth) {
    wait_for_copies();
    __syncthreads();
    const Bf16* const now = stages + stage * T::kCells;
    stage ^= 1;
    if (row + T::kDepth < end) {
      LPMM_UNROLL
      for (RowOfThread& of : rows) of.advance(p.windows, T::kDepth);
      begin_stage<T>(p, rows, tap, row + T::kDepth, end, first_output, stages + stage * T::kCells);
    }
    multiply_gradient_stage<T>(now, results);
  }
  const int column = first_column + thread / kWarp * 16 + lane % 4 * 2;
  LPMM_UNROLL
  for (int m = 0; m < T::kHeight / 16; ++m) {
    LPMM_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int output = first_output + 16 * m + lane / 4 + 8 * i;
      float* const sums = p.sums + (shard * p.outputs + output) * depth + column;
      LPMM_UNROLL
      for (int n = 0; n < 2; ++n) {
        if (output >= p.outputs || column + 8 * n >= depth) continue;
        sums[8 * n] = results[m][n].v[2 * i];
        sums[8 * n + 1] = results[m][n].v[2 * i + 1];
      }
    }
  }
}

// ---- weights
// ----------------------------------------------------------------------------------------------- OIHW to
// rows of an output's (ky, kx, input), or of an input's (ky, kx, output).
struct WeightsByOutput {
  ConvShape s;
  const float* weights;
  LPMM_HD float operator()(const Place& at) const {
    const Place tap = Place::of(at.column, s.in);
    return weights[(at.row * s.in + tap.column) * s.kernel * s.kernel + tap.row];
  }
};
struct WeightsByInput {
  ConvShape s;
  const float* weights;
  LPMM_HD float operator()(const Place& at) const {
    const Place tap = Place::of(at.column, s.out);
    return weights[(tap.column * s.in + at.row) * s.kernel * s.kernel + tap.row];
  }
};
// Back from rows of an output's (ky, kx, input).
struct StoreWeightGradient {
  ConvShape s;
  float* gradient;
  LPMM_HD void operator()(std::int64_t, std::int64_t column, const float (&sum)[1]) const {
    const std::int64_t area = std::int64_t{1} * s.kernel * s.kernel;
    const Place of_output = Place::of(column, area * s.in), tap = Place::of(of_output.column, s.in);
    gradient[(of_output.row * s.in + tap.column) * area + tap.row] = sum[0];
  }
};

// Calls body with the narrowest tile that has `outputs` columns, or the widest.
template <template <int> class Tile, class Body>
void with_outputs(int outputs, const Body& body) {
  if (outputs <= 16) return body(Tile<16>{});
  if (outputs <= 32) return body(Tile<32>{});
  return body(Tile<64>{});
}
std::int64_t tiles_of(std::int64_t size, std::int64_t tile) {
  return (size + tile - 1) / tile;
}

class MmaConvolution final : public Convolution {
 public:
  MmaConvolution(const CudaDevice& device, const ConvShape& shape) : device_(device), shape_(shape) {
    const std::int64_t rows = Gather::of_input(shape, nullptr).rows;
    // As many blocks as large devices run at once, and no shard of few rows.
    constexpr std::int64_t kBlocks = 512, kFewestRows = 256, kStep = 32;
    const std::int64_t tiles = tiles_of(shape.out, 64) * tiles_of(depth(), 64);
    const std::int64_t shards = std::clamp<std::int64_t>(kBlocks / tiles, 1, tiles_of(rows, kFewestRows));
    shard_rows_ = tiles_of(tiles_of(rows, shards), kStep) * kStep;
    shards_ = tiles_of(rows, shard_rows_);
  }

  // Weights in bf16; then partial sums of their gradient.
  std::int64_t scratch_bytes() const override { return aligned(4 * shards_ * shape_.weights()); }

  void forward(const void* x, const float* weights, void* y, void* scratch) const override {
    auto* const rows = static_cast<Bf16*>(scratch);
    map_matrix(stream(), shape_.out, depth(), WeightsByOutput{shape_, weights}, rows, false);
    multiply({Gather::of_input(shape_, x), rows, shape_.out, static_cast<Bf16*>(y), false});
  }

  void backward(const void* x, const float* weights, const void* dy, void* dx, bool accumulate,
                float* weight_gradient, void* scratch) const override {
    if (dx != nullptr) {
      auto* const rows = static_cast<Bf16*>(scratch);
      map_matrix(stream(), shape_.in, shape_.weights() / shape_.in, WeightsByInput{shape_, weights}, rows,
                 false);
      multiply({Gather::of_gradient(shape_, dy), rows, shape_.in, static_cast<Bf16*>(dx), accumulate});
    }
    auto* const sums = static_cast<float*>(scratch);
    const GradientProduct p{Gather::of_input(shape_, x), static_cast<const Bf16*>(dy), shape_.out,
                            shard_rows_, sums};
    with_outputs<GradientTile>(shape_.out, [&]<class T>(T) {
      launch(multiply_gradient<T>,
             shards_ * tiles_of(shape_.out, T::kHeight) * tiles_of(depth(), T::kColumns), kProductThreads,
             2 * 2 * T::kCells, stream(), p);
    });
    sum_columns<1, float>(stream(), shards_, shape_.weights(), shards_,
                          ShardTerms<1, float>{shape_.weights(), sums},
                          StoreWeightGradient{shape_, weight_gradient});
  }

 private:
  Stream stream() const { return device_.stream(); }
  std::int64_t depth() const { return shape_.weights() / shape_.out; }
  void multiply(const WindowProduct& p) const {
    with_outputs<ProductTile>(p.outputs, [&]<class T>(T) {
      launch(multiply_windows<T>, tiles_of(p.windows.rows, T::kRows) * tiles_of(p.outputs, T::kColumns),
             kProductThreads, 2 * 2 * T::kCells, stream(), p);
    });
  }

  const CudaDevice& device_;
  ConvShape shape_;
  std::int64_t shard_rows_, shards_;
};

}  // namespace

std::unique_ptr<Convolution> convolution_on_tensor_cores(const CudaDevice& device, const ConvShape& shape) {
  return std::make_unique<MmaConvolution>(device, shape);
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
