// Norms of rows: a warp per row; gradients of weight and bias by shards of rows.
#include <cmath>

#include "kernels/cuda/compute/columns.h"
#include "kernels/cuda/compute/map.h"
#include "kernels/cuda/cuda_device.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {
namespace {

constexpr std::int64_t kShardRows = 256;

std::int64_t row_shards(const RowNormShape& s) {
  return (s.rows + kShardRows - 1) / kShardRows;
}

template <class Cell>
__global__ void normalize_rows(RowNormShape s, const Cell* x, const float* weight, const float* bias, Cell* y,
                               float* mean, float* inverse_deviation) {
  const std::int64_t row = row_of_warp();
  if (row >= s.rows) return;
  const float share = 1.0F / static_cast<float>(s.width);
  x += row * s.width;
  y += row * s.width;
  float center = 0, squares = 0;
  if (s.is_centred) {
    float sum = 0;
    for (std::int64_t c = lane_of_warp(); c < s.width; c += kWarp) sum += load(x + c);
    center = share * warp_sum(sum);
  }
  for (std::int64_t c = lane_of_warp(); c < s.width; c += kWarp) {
    const float d = load(x + c) - center;
    squares += d * d;
  }
  const double variance = static_cast<double>(warp_sum(squares)) * share;
  const auto inverse = static_cast<float>(1 / std::sqrt(variance + s.epsilon));
  for (std::int64_t c = lane_of_warp(); c < s.width; c += kWarp) {
    const float v = (load(x + c) - center) * inverse * weight[c];
    store(y + c, s.is_centred ? v + bias[c] : v);
  }
  if (lane_of_warp() != 0) return;
  if (s.is_centred) mean[row] = center;
  inverse_deviation[row] = inverse;
}

// With n = (x - mean) * r and g = dy * weight: dx = r * (g - mean of g - n * mean of g n), without the mean
// of g where the norm is not centred.
template <class Cell>
__global__ void gradient_of_rows(RowNormShape s, RowNormBackward args, const Cell* x, const Cell* dy,
                                 Cell* dx) {
  const std::int64_t row = row_of_warp();
  if (row >= s.rows) return;
  const float share = 1.0F / static_cast<float>(s.width);
  const float center = s.is_centred ? args.mean[row] : 0.0F, inverse = args.inverse_deviation[row];
  x += row * s.width;
  dy += row * s.width;
  dx += row * s.width;
  float sum_g = 0, sum_gn = 0;
  for (std::int64_t c = lane_of_warp(); c < s.width; c += kWarp) {
    const float g = load(dy + c) * args.weight[c];
    sum_g += g;
    sum_gn += g * ((load(x + c) - center) * inverse);
  }
  const float mean_g = s.is_centred ? share * warp_sum(sum_g) : 0.0F, mean_gn = share * warp_sum(sum_gn);
  for (std::int64_t c = lane_of_warp(); c < s.width; c += kWarp) {
    const float g = load(dy + c) * args.weight[c], n = (load(x + c) - center) * inverse;
    const float v = inverse * (g - mean_g - n * mean_gn);
    store(dx + c, args.accumulate ? v + load(dx + c) : v);
  }
}

template <class Cell>
struct ParameterTerms {
  std::int64_t width;
  const Cell *x, *dy;
  const float *mean, *inverse_deviation;
  LPMM_HD void operator()(std::int64_t row, std::int64_t c, float (&of)[2]) const {
    const float d = load(dy + row * width + c);
    const float center = mean == nullptr ? 0.0F : mean[row];
    of[0] = d * ((load(x + row * width + c) - center) * inverse_deviation[row]);
    of[1] = d;
  }
};
struct StoreGradients {
  float *weight, *bias;
  LPMM_HD void operator()(std::int64_t, std::int64_t c, const float (&of)[2]) const {
    weight[c] = of[0];
    if (bias != nullptr) bias[c] = of[1];
  }
};

}  // namespace

void CudaDevice::row_norm_forward(const RowNormShape& s, const void* x, const float* weight,
                                  const float* bias, void* y, float* mean, float* inverse_deviation) {
  with_type(s.type, [&]<class Cell>(Cell*) {
    launch(normalize_rows<Cell>, row_blocks(s.rows), kRowThreads, 0, stream(), s, static_cast<const Cell*>(x),
           weight, bias, static_cast<Cell*>(y), mean, inverse_deviation);
  });
}

// Partial gradients of weight and bias of each shard.
std::int64_t CudaDevice::row_norm_scratch_bytes(const RowNormShape& s) const {
  return aligned(4 * 2 * row_shards(s) * s.width);
}

void CudaDevice::row_norm_backward(const RowNormShape& s, const RowNormBackward& args, void* scratch) {
  auto* const partials = static_cast<float*>(scratch);
  with_type(s.type, [&]<class Cell>(Cell*) {
    const auto *x = static_cast<const Cell*>(args.x), *dy = static_cast<const Cell*>(args.dy);
    // Before dx, which may be dy.
    sum_columns<2, float>(stream(), s.rows, s.width, kShardRows,
                          ParameterTerms<Cell>{s.width, x, dy, args.mean, args.inverse_deviation},
                          StoreSums<2, float>{s.width, partials});
    launch(gradient_of_rows<Cell>, row_blocks(s.rows), kRowThreads, 0, stream(), s, args, x, dy,
           static_cast<Cell*>(args.dx));
  });
  const std::int64_t shards = row_shards(s);
  sum_columns<2, float>(stream(), shards, s.width, shards, ShardTerms<2, float>{s.width, partials},
                        StoreGradients{args.weight_gradient, args.bias_gradient});
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
