// Batch norm: sums of shards of rows, merged in double in an order that shapes alone decide.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cuda/compute/columns.h"
#include "kernels/cuda/compute/map.h"
#include "kernels/cuda/cuda_device.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {
namespace {

constexpr std::int64_t kNormRows = 512;  // of a shard
constexpr int kChannelThreads = 256;     // of kernels with a thread a channel

std::int64_t norm_shards(const NormShape& s) {
  return (s.rows + kNormRows - 1) / kNormRows;
}

// Deviations from the shard's first row, and their squares: they lose nothing to a large mean.
template <class Cell>
struct DeviationTerms {
  std::int64_t channels;
  const Cell* x;
  LPMM_HD void operator()(std::int64_t row, std::int64_t c, float (&of)[2]) const {
    const float origin = load(x + row / kNormRows * kNormRows * channels + c);
    of[0] = load(x + row * channels + c) - origin;
    of[1] = of[0] * of[0];
  }
};
// Mean of a shard and its sum of squares about that.
template <class Cell>
struct StoreMoments {
  std::int64_t rows, channels;
  const Cell* x;
  double* partials;
  LPMM_HD void operator()(std::int64_t shard, std::int64_t c, const float (&of)[2]) const {
    const std::int64_t first = shard * kNormRows, left = rows - first;
    const auto n = static_cast<double>(left < kNormRows ? left : kNormRows);
    const double sum = of[0], origin = load(x + first * channels + c);
    partials[2 * shard * channels + c] = origin + sum / n;
    partials[(2 * shard + 1) * channels + c] = of[1] - sum * sum / n;
  }
};

struct Moments {
  double count = 0, mean = 0, squares = 0;
  LPMM_HD void merge(const Moments& o) {
    if (o.count == 0) return;
    const double delta = o.mean - mean, share = o.count / (count + o.count);
    squares += o.squares + delta * delta * count * share;
    mean += delta * share;
    count += o.count;
  }
};
// A warp a channel: each lane merges every 32nd shard, then lanes meet.
__global__ void merge_moments(NormShape s, const double* partials, float* mean, float* variance) {
  const std::int64_t c = row_of_warp();
  if (c >= s.channels) return;
  Moments all;
  for (std::int64_t shard = lane_of_warp(); shard * kNormRows < s.rows; shard += kWarp) {
    const std::int64_t left = s.rows - shard * kNormRows;
    all.merge({static_cast<double>(left < kNormRows ? left : kNormRows), partials[2 * shard * s.channels + c],
               partials[(2 * shard + 1) * s.channels + c]});
  }
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    const Moments other{__shfl_down_sync(kAllLanes, all.count, lanes),
                        __shfl_down_sync(kAllLanes, all.mean, lanes),
                        __shfl_down_sync(kAllLanes, all.squares, lanes)};
    all.merge(other);
  }
  if (lane_of_warp() != 0) return;
  mean[c] = static_cast<float>(all.mean);
  variance[c] = static_cast<float>((all.squares < 0 ? 0 : all.squares) / all.count);
}

__global__ void prepare(int channels, const float* mean, float* inverse_deviation, float* scale,
                        float* shift) {
  const std::int64_t c = std::int64_t{1} * blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= channels) return;
  inverse_deviation[c] = static_cast<float>(1 / std::sqrt(inverse_deviation[c] + kNormEpsilon));
  scale[c] = product(scale[c], inverse_deviation[c]);
  shift[c] -= product(mean[c], scale[c]);
}
__global__ void propose(NormShape s, const float* mean, const float* variance, float* running_mean,
                        float* running_variance, bool* finite) {
  const std::int64_t c = std::int64_t{1} * blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= s.channels) return;
  const auto rows = static_cast<double>(s.rows);
  const double unbiased = rows > 1 ? rows / (rows - 1) : 1;
  const auto center = static_cast<float>((1 - kNormMomentum) * running_mean[c] + kNormMomentum * mean[c]);
  const auto spread =
      static_cast<float>((1 - kNormMomentum) * running_variance[c] + kNormMomentum * unbiased * variance[c]);
  running_mean[c] = center;
  running_variance[c] = spread;
  if (!(std::abs(center) < INFINITY) || !(std::abs(spread) < INFINITY)) *finite = false;
}

// x * scale + shift, two roundings as on the CPU; then what is added.
template <bool kRelu>
struct Apply {
  const float *scale, *shift;
  LPMM_HD float operator()(const Place& at, float x, float residual) const {
    return act(product(x, scale[at.column]) + shift[at.column] + residual);
  }
  LPMM_HD float operator()(const Place& at, float x) const {
    return act(product(x, scale[at.column]) + shift[at.column]);
  }
  LPMM_HD static float act(float v) { return kRelu && v <= 0.0F ? 0.0F : v; }
};

// g = dy where y > 0 or there is no ReLU.
template <class Cell>
struct GradientTerms {
  std::int64_t channels;
  const Cell *x, *y, *dy;
  const float* mean;
  LPMM_HD void operator()(std::int64_t row, std::int64_t c, float (&of)[2]) const {
    const std::int64_t i = row * channels + c;
    const float g = load(dy + i);
    of[0] = y == nullptr || load(y + i) > 0.0F ? g : 0.0F;
    of[1] = of[0] * (load(x + i) - mean[c]);
  }
};
// With r = 1 / deviation and M rows: dx = weight * r * (g - sum g / M - (x - mean) * r^2 * sum g (x - mean) /
// M), which is g * a[c] + x * b[c] + d[c]. Frozen statistics are as those of infinitely many rows.
struct StoreCoefficients {
  NormShape shape;
  NormBackward args;
  double count;         // M
  float* coefficients;  // [a, b, d][channel]
  LPMM_HD void operator()(std::int64_t, std::int64_t c, const double (&sums)[2]) const {
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

template <class Cell>
struct GradientArgs {
  const Cell *x, *y, *dy;  // y is null where there is no ReLU
  Cell *dx, *dresidual;
  bool accumulate, accumulate_residual;
  const float* coefficients;
  int channels;
};
template <class Cell>
__global__ void apply_gradient(std::int64_t count, bool is_vector, GradientArgs<Cell> args) {
  const Piece piece = Piece::mine(count, is_vector);
  if (!piece.has(0)) return;
  Place place = Place::of(piece.first, args.channels);
  Values g = piece.load(args.dy), dx = {}, residual = {};
  const Values x = piece.load(args.x), y = args.y != nullptr ? piece.load(args.y) : Values{};
  if (args.accumulate) dx = piece.load(args.dx);
  if (args.accumulate_residual) residual = piece.load(args.dresidual);
  for (int i = 0; i < kVector; ++i, place.next(args.channels)) {
    if (args.y != nullptr && !(y.v[i] > 0.0F)) g.v[i] = 0.0F;
    const float* at = args.coefficients + place.column;
    const float v = product(x.v[i], at[args.channels]) + product(g.v[i], at[0]) + at[2 * args.channels];
    dx.v[i] = args.accumulate ? v + dx.v[i] : v;
    residual.v[i] = args.accumulate_residual ? g.v[i] + residual.v[i] : g.v[i];
  }
  piece.store(args.dx, dx);
  if (args.dresidual != nullptr) piece.store(args.dresidual, residual);
}

}  // namespace

// Partial moments or sums of each shard and channel, and three coefficients of each channel.
std::int64_t CudaDevice::norm_scratch_bytes(const NormShape& s) const {
  return aligned(8 * 2 * norm_shards(s) * s.channels) + aligned(4 * 3 * s.channels);
}

void CudaDevice::norm_statistics(const NormShape& s, const void* x, float* mean, float* variance,
                                 void* scratch) {
  auto* const partials = static_cast<double*>(scratch);
  with_type(s.type, [&]<class Cell>(Cell*) {
    const auto* cells = static_cast<const Cell*>(x);
    sum_columns<2, float>(stream(), s.rows, s.channels, kNormRows, DeviationTerms<Cell>{s.channels, cells},
                          StoreMoments<Cell>{s.rows, s.channels, cells, partials});
  });
  launch(merge_moments, row_blocks(s.channels), kRowThreads, 0, stream(), s, partials, mean, variance);
}

void CudaDevice::norm_prepare(int channels, const float* mean, float* inverse_deviation, float* scale,
                              float* shift) {
  launch_apart(prepare, (channels + kChannelThreads - 1) / kChannelThreads, kChannelThreads, stream(),
               channels, mean, inverse_deviation, scale, shift);
}
void CudaDevice::norm_propose(const NormShape& s, const float* mean, const float* variance,
                              float* running_mean, float* running_variance, bool* finite) {
  launch_apart(propose, (s.channels + kChannelThreads - 1) / kChannelThreads, kChannelThreads, stream(), s,
               mean, variance, running_mean, running_variance, finite);
}

void CudaDevice::norm_apply(const NormShape& s, const void* x, const float* scale, const float* shift,
                            const void* residual, bool relu, void* y) {
  with_type(s.type, [&]<class Cell>(Cell*) {
    const auto apply = [&](const auto& body) {
      const auto *in = static_cast<const Cell*>(x), *more = static_cast<const Cell*>(residual);
      auto* out = static_cast<Cell*>(y);
      if (more == nullptr) {
        map_matrix(stream(), s.rows, s.channels, body, out, false, in);
      } else {
        map_matrix(stream(), s.rows, s.channels, body, out, false, in, more);
      }
    };
    relu ? apply(Apply<true>{scale, shift}) : apply(Apply<false>{scale, shift});
  });
}

void CudaDevice::norm_backward(const NormShape& s, const NormBackward& args, void* scratch) {
  auto* const partials = static_cast<double*>(scratch);
  const std::int64_t shards = norm_shards(s), count = s.rows * s.channels;
  auto* const coefficients =
      reinterpret_cast<float*>(static_cast<std::byte*>(scratch) + aligned(8 * 2 * shards * s.channels));
  const double rows = args.frozen ? std::numeric_limits<double>::infinity() : static_cast<double>(s.rows);
  with_type(s.type, [&]<class Cell>(Cell*) {
    const auto *x = static_cast<const Cell*>(args.x), *dy = static_cast<const Cell*>(args.dy);
    const auto* y = static_cast<const Cell*>(args.relu ? args.y : nullptr);
    sum_columns<2, float>(stream(), s.rows, s.channels, kNormRows,
                          GradientTerms<Cell>{s.channels, x, y, dy, args.mean},
                          StoreSums<2, double>{s.channels, partials});
    sum_columns<2, double>(stream(), shards, s.channels, shards, ShardTerms<2, double>{s.channels, partials},
                           StoreCoefficients{s, args, rows, coefficients});
    if (args.dx == nullptr) return;
    const GradientArgs<Cell> of{x,
                                y,
                                dy,
                                static_cast<Cell*>(args.dx),
                                static_cast<Cell*>(args.dresidual),
                                args.accumulate,
                                args.accumulate_residual && args.dresidual != nullptr,
                                coefficients,
                                s.channels};
    const bool is_vector =
        is_aligned(x) && is_aligned(y) && is_aligned(dy) && is_aligned(of.dx) && is_aligned(of.dresidual);
    launch_apart(apply_gradient<Cell>, map_blocks(count), kMapThreads, stream(), count, is_vector, of);
  });
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
