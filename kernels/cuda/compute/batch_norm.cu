// Batch norm: sums of shards of rows, merged in double in an order that shapes alone decide.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <type_traits>

#include "kernels/cuda/compute/columns.h"
#include "kernels/cuda/compute/map.h"
#include "kernels/cuda/cuda_device.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {
namespace {

constexpr int kChannelThreads = 256;  // of kernels with a thread a channel

// kWide neighbours.
template <int kWide, class Cell>
LPMM_HD void load_cells(const Cell* p, float (&v)[kWide]) {
  if constexpr (kWide == kVector) {
    load_vector(p, v);
  } else {
    v[0] = load(p);
  }
}
template <int kWide, class Cell>
LPMM_HD void store_cells(Cell* p, const float (&v)[kWide]) {
  if constexpr (kWide == kVector) {
    store_vector(p, v);
  } else {
    store(p, v[0]);
  }
}

// Deviations from the shard's first row, and their squares: they lose nothing to a large mean.
template <class Cell, int kWide>
struct DeviationTerms {
  std::int64_t channels;
  const Cell* x;
  float origin[kWide] = {};
  LPMM_HD void begin(std::int64_t first, std::int64_t c) { load_cells(x + first * channels + c, origin); }
  LPMM_HD void operator()(std::int64_t row, std::int64_t c, float (&of)[2]) const {
    of[0] = load(x + row * channels + c) - origin[0];
    of[1] = of[0] * of[0];
  }
  LPMM_HD void wide(std::int64_t row, std::int64_t c, float (&of)[2][kVector]) const {
    load_vector(x + row * channels + c, of[0]);
    for (int i = 0; i < kVector; ++i) {
      of[0][i] -= origin[i];
      of[1][i] = of[0][i] * of[0][i];
    }
  }
};
// Rows of a batch in shards.
struct Shards {
  std::int64_t rows, shard_rows, channels;
  LPMM_HD double count(std::int64_t shard) const {
    const std::int64_t left = rows - shard * shard_rows;
    return static_cast<double>(left < shard_rows ? left : shard_rows);
  }
};
// Mean of a shard and its sum of squares about that.
template <class Cell>
struct StoreMoments {
  Shards shards;
  const Cell* x;
  double* partials;
  LPMM_HD void operator()(std::int64_t shard, std::int64_t c, const float (&of)[2]) const {
    const std::int64_t channels = shards.channels;
    const double n = shards.count(shard), sum = of[0];
    partials[2 * shard * channels + c] = load(x + shard * shards.shard_rows * channels + c) + sum / n;
    partials[(2 * shard + 1) * channels + c] = of[1] - sum * sum / n;
  }
};
// In fp64: deviations of all rows from the first shard's mean, and their squares.
struct MomentTerms {
  Shards shards;
  const double* partials;
  double origin = 0;
  LPMM_HD void begin(std::int64_t, std::int64_t c) { origin = partials[c]; }
  LPMM_HD void operator()(std::int64_t shard, std::int64_t c, double (&of)[2]) const {
    const double delta = partials[2 * shard * shards.channels + c] - origin;
    of[0] = shards.count(shard) * delta;
    of[1] = partials[(2 * shard + 1) * shards.channels + c] + of[0] * delta;
  }
};
// 1 / deviation, and weight and bias as the factor and the offset of x.
LPMM_HD void prepare_channel(std::int64_t c, float mean, float variance, float* inverse_deviation,
                             const BatchNormScale& of) {
  const auto inverse = static_cast<float>(1 / std::sqrt(variance + kBatchNormEpsilon));
  const float factor = product(of.weight[c], inverse);
  inverse_deviation[c] = inverse;
  of.scale[c] = factor;
  of.shift[c] = of.bias[c] - product(mean, factor);
}
__global__ void prepare(int channels, const float* mean, float* inverse_deviation, BatchNormScale of) {
  begin_kernel();
  const std::int64_t c = std::int64_t{1} * blockIdx.x * blockDim.x + threadIdx.x;
  if (c < channels) prepare_channel(c, mean[c], inverse_deviation[c], inverse_deviation, of);
}
struct StoreStatistics {
  std::int64_t rows;
  const double* partials;
  BatchNormStatistics to;
  LPMM_HD void operator()(std::int64_t c, const double (&of)[2]) const {
    const auto n = static_cast<double>(rows);
    const double squares = of[1] - of[0] * of[0] / n, unbiased = n > 1 ? n / (n - 1) : 1;
    const auto mean = static_cast<float>(partials[c] + of[0] / n);
    const auto variance = static_cast<float>((squares < 0 ? 0 : squares) / n);
    to.mean[c] = mean;
    prepare_channel(c, mean, variance, to.inverse_deviation, to.scale);
    const auto center =
        static_cast<float>((1 - kBatchNormMomentum) * to.running_mean[c] + kBatchNormMomentum * mean);
    const auto spread = static_cast<float>((1 - kBatchNormMomentum) * to.running_variance[c] +
                                           kBatchNormMomentum * unbiased * variance);
    to.running_mean[c] = center;
    to.running_variance[c] = spread;
    if (!(std::abs(center) < INFINITY) || !(std::abs(spread) < INFINITY)) *to.finite = false;
  }
};

// Bodies that know their channels' coefficients: a thread has Body::kWide channels of kAheadRows rows, and
// loads all of them before it stores one.
constexpr int kAheadRows = 2;
template <class Body>
__global__ void map_rows(std::int64_t rows, int channels, int across, Body body) {
  begin_kernel();
  const int thread = static_cast<int>(threadIdx.x), lines = kMapThreads / across;
  const Place block = Place::of(blockIdx.x, (channels / Body::kWide + across - 1) / across);
  const int channel = (static_cast<int>(block.column) * across + thread % across) * Body::kWide;
  const std::int64_t row = block.row * (kAheadRows * lines) + thread / across;
  if (channel >= channels || row >= rows) return;
  body.begin(channel);
  typename Body::Cells cells[kAheadRows];
  LPMM_UNROLL
  for (int k = 0; k < kAheadRows; ++k) {  // past the end, the first one again: no branch holds loads up
    const std::int64_t of = row + k * lines < rows ? row + k * lines : row;
    cells[k] = body.load(of * channels + channel);
  }
  LPMM_UNROLL
  for (int k = 0; k < kAheadRows; ++k) {
    if (row + k * lines < rows) body.store((row + k * lines) * channels + channel, cells[k]);
  }
}
template <class Body>
void run_rows(Stream stream, const BatchNormShape& s, const Body& body) {
  const int vectors = s.channels / Body::kWide;
  int across = 1;  // threads of a row: a line of memory where a row has one
  while (across < 8 && across < vectors) across *= 2;
  const std::int64_t block_rows = std::int64_t{kAheadRows} * (kMapThreads / across);
  launch_apart(map_rows<Body>, (s.rows + block_rows - 1) / block_rows * ((vectors + across - 1) / across),
               kMapThreads, stream, s.rows, s.channels, across, body);
}

// x * scale + shift, two roundings as on the CPU; then what is added.
template <class Cell, int kOfThread, bool kRelu>
struct Apply {
  static constexpr int kWide = kOfThread;
  struct Cells {
    float x[kWide], residual[kWide];
  };
  const Cell *x, *residual;  // which may be null
  Cell* y;
  const float *scale, *shift;
  float factor[kWide] = {}, offset[kWide] = {};
  LPMM_HD void begin(std::int64_t c) {
    load_cells(scale + c, factor);
    load_cells(shift + c, offset);
  }
  LPMM_HD Cells load(std::int64_t i) const {
    Cells in = {};
    load_cells(x + i, in.x);
    if (residual != nullptr) load_cells(residual + i, in.residual);
    return in;
  }
  LPMM_HD void store(std::int64_t i, const Cells& in) const {
    float out[kWide];
    for (int k = 0; k < kWide; ++k) {
      const float v = product(in.x[k], factor[k]) + offset[k] + in.residual[k];
      out[k] = kRelu && v <= 0.0F ? 0.0F : v;
    }
    store_cells(y + i, out);
  }
};

// g = dy where y > 0 or there is no ReLU.
template <class Cell, int kWide, bool kRelu>
struct GradientTerms {
  std::int64_t channels;
  const Cell *x, *y, *dy;
  const float* mean;
  float center[kWide] = {};
  LPMM_HD void begin(std::int64_t, std::int64_t c) { load_cells(mean + c, center); }
  LPMM_HD void operator()(std::int64_t row, std::int64_t c, float (&of)[2]) const {
    const std::int64_t i = row * channels + c;
    const float g = load(dy + i);
    of[0] = !kRelu || load(y + i) > 0.0F ? g : 0.0F;
    of[1] = of[0] * (load(x + i) - center[0]);
  }
  LPMM_HD void wide(std::int64_t row, std::int64_t c, float (&of)[2][kVector]) const {
    const std::int64_t i = row * channels + c;
    float gate[kVector];
    load_vector(dy + i, of[0]);
    load_vector(x + i, of[1]);
    if constexpr (kRelu) load_vector(y + i, gate);
    for (int k = 0; k < kVector; ++k) {
      if (kRelu && !(gate[k] > 0.0F)) of[0][k] = 0.0F;
      of[1][k] = of[0][k] * (of[1][k] - center[k]);
    }
  }
};
// With r = 1 / deviation and M rows: dx = weight * r * (g - sum g / M - (x - mean) * r^2 * sum g (x - mean) /
// M), which is g * a[c] + x * b[c] + d[c]. Frozen statistics are as those of infinitely many rows.
struct StoreCoefficients {
  BatchNormShape shape;
  BatchNormBackward args;
  double count;         // M
  float* coefficients;  // [a, b, d][channel]
  LPMM_HD void operator()(std::int64_t c, const double (&sums)[2]) const {
    const double r = args.inverse_deviation[c], weight = args.weight[c];
    const double slope = weight * r * r * r * sums[1] / count;
    coefficients[c] = static_cast<float>(weight * r);
    coefficients[shape.channels + c] = static_cast<float>(-slope);
    coefficients[2 * shape.channels + c] =
        static_cast<float>(slope * args.mean[c] - weight * r * sums[0] / count);
    args.weight_gradient[c] = static_cast<float>(sums[1] * r);
    args.bias_gradient[c] = static_cast<float>(sums[0]);
  }
};

template <class Cell, int kOfThread, bool kRelu>
struct ApplyGradient {
  static constexpr int kWide = kOfThread;
  struct Cells {
    float x[kWide], g[kWide], dx[kWide], residual[kWide];
  };
  const Cell *x, *y, *dy;
  Cell *dx, *dresidual;
  bool accumulate, accumulate_residual;
  const float* coefficients;
  int channels;
  float a[kWide] = {}, b[kWide] = {}, d[kWide] = {};
  LPMM_HD void begin(std::int64_t c) {
    load_cells(coefficients + c, a);
    load_cells(coefficients + channels + c, b);
    load_cells(coefficients + 2 * channels + c, d);
  }
  LPMM_HD Cells load(std::int64_t i) const {
    Cells in = {};
    float gate[kWide] = {};
    load_cells(x + i, in.x);
    load_cells(dy + i, in.g);
    if constexpr (kRelu) load_cells(y + i, gate);
    if (accumulate) load_cells(dx + i, in.dx);
    if (accumulate_residual) load_cells(dresidual + i, in.residual);
    for (int k = 0; k < kWide; ++k) {
      if (kRelu && !(gate[k] > 0.0F)) in.g[k] = 0.0F;
    }
    return in;
  }
  LPMM_HD void store(std::int64_t i, const Cells& in) const {
    float out[kWide], residual[kWide];
    for (int k = 0; k < kWide; ++k) {
      const float v = product(in.x[k], b[k]) + product(in.g[k], a[k]) + d[k];
      out[k] = accumulate ? v + in.dx[k] : v;
      residual[k] = accumulate_residual ? in.g[k] + in.residual[k] : in.g[k];
    }
    store_cells(dx + i, out);
    if (dresidual != nullptr) store_cells(dresidual + i, residual);
  }
};

// Calls body(Cell*, kWide), a null pointer and a constant.
template <class Body>
void with_cells(const BatchNormShape& s, std::initializer_list<const void*> memory, const Body& body) {
  const bool is_wide = s.channels % kVector == 0 && std::all_of(memory.begin(), memory.end(), is_aligned);
  with_type(s.type, [&]<class Cell>(Cell* null) {
    is_wide ? body(null, std::integral_constant<int, kVector>())
            : body(null, std::integral_constant<int, 1>());
  });
}
// Calls body(kRelu).
template <class Body>
void with_relu(bool relu, const Body& body) {
  relu ? body(std::true_type()) : body(std::false_type());
}

}  // namespace

// Partial moments or sums of each shard and channel, and three coefficients of each channel.
std::int64_t CudaDevice::batch_norm_scratch_bytes(const BatchNormShape& s) const {
  return aligned(8 * 2 * whole_shards(s.rows, s.channels) * s.channels) + aligned(4 * 3 * s.channels);
}

void CudaDevice::batch_norm_statistics(const BatchNormShape& s, const void* x, const BatchNormStatistics& of,
                                       void* scratch) {
  auto* const partials = static_cast<double*>(scratch);
  const Shards shards{s.rows, whole_shard_rows(s.rows, s.channels), s.channels};
  const Arrivals::Turn turn = packed_.arrivals.take(whole_strips(s.channels), stream());
  const AddShards then{turn.counters, MomentTerms{shards, partials}, StoreStatistics{s.rows, partials, of}};
  with_cells(s, {x}, [&]<class Cell, int kWide>(Cell*, std::integral_constant<int, kWide>) {
    const auto* cells = static_cast<const Cell*>(x);
    sum_whole_columns<2, kWide>(stream(), s.rows, s.channels, DeviationTerms<Cell, kWide>{s.channels, cells},
                                StoreMoments<Cell>{shards, cells, partials}, then);
  });
}

void CudaDevice::batch_norm_prepare(int channels, const float* mean, float* inverse_deviation,
                                    const BatchNormScale& of) {
  launch_apart(prepare, (channels + kChannelThreads - 1) / kChannelThreads, kChannelThreads, stream(),
               channels, mean, inverse_deviation, of);
}
void CudaDevice::batch_norm_apply(const BatchNormShape& s, const BatchNormApply& args) {
  with_cells(s, {args.x, args.residual, args.y, args.scale, args.shift},
             [&]<class Cell, int kWide>(Cell*, std::integral_constant<int, kWide>) {
               with_relu(args.relu, [&]<bool kRelu>(std::bool_constant<kRelu>) {
                 run_rows(stream(), s,
                          Apply<Cell, kWide, kRelu>{static_cast<const Cell*>(args.x),
                                                    static_cast<const Cell*>(args.residual),
                                                    static_cast<Cell*>(args.y), args.scale, args.shift});
               });
             });
}

void CudaDevice::batch_norm_backward(const BatchNormShape& s, const BatchNormBackward& args, void* scratch) {
  auto* const partials = static_cast<double*>(scratch);
  auto* const coefficients = reinterpret_cast<float*>(
      static_cast<std::byte*>(scratch) + aligned(8 * 2 * whole_shards(s.rows, s.channels) * s.channels));
  const double rows = args.frozen ? std::numeric_limits<double>::infinity() : static_cast<double>(s.rows);
  const Arrivals::Turn turn = packed_.arrivals.take(whole_strips(s.channels), stream());
  const AddShards then{turn.counters, ShardTerms<2, double>{s.channels, partials},
                       StoreCoefficients{s, args, rows, coefficients}};
  const void* const gate = args.relu ? args.y : nullptr;
  const auto run = [&]<class Cell, int kWide, bool kRelu>(Cell*, std::integral_constant<int, kWide>,
                                                          std::bool_constant<kRelu>) {
    const auto *x = static_cast<const Cell*>(args.x), *y = static_cast<const Cell*>(gate),
               *dy = static_cast<const Cell*>(args.dy);
    sum_whole_columns<2, kWide>(stream(), s.rows, s.channels,
                                GradientTerms<Cell, kWide, kRelu>{s.channels, x, y, dy, args.mean},
                                StoreSums<2, double>{s.channels, partials}, then);
    if (args.dx == nullptr) return;
    auto* const dresidual = static_cast<Cell*>(args.dresidual);
    run_rows(stream(), s,
             ApplyGradient<Cell, kWide, kRelu>{
                 x, y, dy, static_cast<Cell*>(args.dx), dresidual, args.accumulate,
                 args.accumulate_residual && dresidual != nullptr, coefficients, s.channels});
  };
  with_cells(s, {args.x, gate, args.dy, args.dx, args.dresidual, args.mean},
             [&](auto* cell, auto wide) { with_relu(args.relu, [&](auto relu) { run(cell, wide, relu); }); });
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
