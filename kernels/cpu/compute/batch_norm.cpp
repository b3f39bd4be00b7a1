// Batch norm: partial sums of shards of rows, merged in a fixed order.
#include "kernels/cpu.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/compute/cut.h"
#include "kernels/cpu/compute/loops.h"

namespace lpmm::kernels {
namespace {

// At most 2048 rows per shard: partial sums are fp32.
std::int64_t norm_rows(const BatchNormShape& s) {
  return std::clamp<std::int64_t>(kShard / s.channels, 1, 2048);
}
std::int64_t norm_shards(const BatchNormShape& s) {
  return (s.rows + norm_rows(s) - 1) / norm_rows(s);
}

// Running statistics, from those of a batch.
void propose_running(const BatchNormShape& s, const float* variance, const BatchNormStatistics& of) {
  const double rows = static_cast<double>(s.rows), unbiased = rows > 1 ? rows / (rows - 1) : 1;
  float *running_mean = of.running_mean, *running_variance = of.running_variance;
  for (int c = 0; c < s.channels; ++c) {
    running_mean[c] =
        static_cast<float>((1 - kBatchNormMomentum) * running_mean[c] + kBatchNormMomentum * of.mean[c]);
    running_variance[c] = static_cast<float>((1 - kBatchNormMomentum) * running_variance[c] +
                                             kBatchNormMomentum * unbiased * variance[c]);
    if (!std::isfinite(running_mean[c]) || !std::isfinite(running_variance[c])) *of.finite = false;
  }
}

}  // namespace

// Two partial sums per shard and channel; three coefficients per channel.
std::int64_t CpuDevice::batch_norm_scratch_bytes(const BatchNormShape& shape) const {
  return aligned(4 * (2 * norm_shards(shape) + 3) * shape.channels);
}

void CpuDevice::batch_norm_statistics(const BatchNormShape& s, const void* x, const BatchNormStatistics& of,
                                      void* scratch) {
  float *mean = of.mean, *variance = of.inverse_deviation;
  auto* partials = static_cast<float*>(scratch);  // [shard][mean, squares][channel]
  const std::int64_t rows = norm_rows(s), row_bytes = s.channels * value_bytes(s.type);
  for_shards(pool(), s.rows, rows, [&](std::int64_t first, std::int64_t n) {
    float* p = partials + first / rows * 2 * s.channels;
    loops::elements().batch_norm_statistics({n, s.channels, s.type}, bytes_at(x, first * row_bytes), p,
                                            p + s.channels);
  });
  for (int c = 0; c < s.channels; ++c) {
    double count = 0, center = 0, squares = 0;
    for (std::int64_t i = 0; i < norm_shards(s); ++i) {
      const float* p = partials + i * 2 * s.channels + c;
      const auto n = static_cast<double>(std::min(rows, s.rows - i * rows));
      const double delta = p[0] - center;
      squares += p[s.channels] + delta * delta * count * n / (count + n);
      center += delta * n / (count + n);
      count += n;
    }
    mean[c] = static_cast<float>(center);
    variance[c] = static_cast<float>(std::max(squares, 0.0) / count);
  }
  propose_running(s, variance, of);
  batch_norm_prepare(s.channels, mean, variance, of.scale);
}

void CpuDevice::batch_norm_prepare(int channels, const float* mean, float* inverse_deviation,
                                   const BatchNormScale& of) {
  for (int c = 0; c < channels; ++c) {
    inverse_deviation[c] = static_cast<float>(1 / std::sqrt(inverse_deviation[c] + kBatchNormEpsilon));
    of.scale[c] = of.weight[c] * inverse_deviation[c];
    of.shift[c] = of.bias[c] - mean[c] * of.scale[c];
  }
}

void CpuDevice::batch_norm_apply(const BatchNormShape& s, const BatchNormApply& args) {
  const std::int64_t row_bytes = s.channels * value_bytes(s.type);
  for_shards(pool(), s.rows, norm_rows(s), [&](std::int64_t first, std::int64_t n) {
    BatchNormApply part = args;
    advance(first * row_bytes, part.x, part.residual, part.y);
    loops::elements().batch_norm_apply({n, s.channels, s.type}, part);
  });
}

// With r = 1 / deviation and M rows: dx = weight * r * (g - sum g / M - (x - mean) * r^2 * sum g (x - mean) /
// M). Frozen statistics are as those of infinitely many rows.
void CpuDevice::batch_norm_backward(const BatchNormShape& s, const BatchNormBackward& args, void* scratch) {
  auto* partials = static_cast<float*>(scratch);  // [shard][sum g, sum gx][channel]
  const std::int64_t rows = norm_rows(s), shards = norm_shards(s);
  const auto part_of = [&](std::int64_t first) {
    BatchNormBackward part = args;
    advance(first * s.channels * value_bytes(s.type), part.x, part.y, part.dy, part.dx, part.dresidual);
    return part;
  };
  for_shards(pool(), s.rows, rows, [&](std::int64_t first, std::int64_t n) {
    float* p = partials + first / rows * 2 * s.channels;
    loops::elements().batch_norm_reduce({n, s.channels, s.type}, part_of(first), p, p + s.channels);
  });
  float* a = partials + 2 * shards * s.channels;
  float* b = a + s.channels;
  float* d = b + s.channels;
  for (int c = 0; c < s.channels; ++c) {
    double sum = 0, sum_x = 0;
    for (std::int64_t i = 0; i < shards; ++i) {
      sum += partials[i * 2 * s.channels + c];
      sum_x += partials[i * 2 * s.channels + s.channels + c];
    }
    const double r = args.inverse_deviation[c];
    const double count = args.frozen ? std::numeric_limits<double>::infinity() : static_cast<double>(s.rows);
    const double slope = args.weight[c] * r * r * r * sum_x / count;
    a[c] = static_cast<float>(args.weight[c] * r);
    b[c] = static_cast<float>(-slope);
    d[c] = static_cast<float>(slope * args.mean[c] - args.weight[c] * r * sum / count);
    args.weight_gradient[c] = static_cast<float>(sum_x * r);
    args.bias_gradient[c] = static_cast<float>(sum);
  }
  if (args.dx == nullptr) return;
  for_shards(pool(), s.rows, rows, [&](std::int64_t first, std::int64_t n) {
    loops::elements().batch_norm_backward({n, s.channels, s.type}, part_of(first), a);
  });
}

}  // namespace lpmm::kernels
