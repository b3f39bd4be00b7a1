// Softmax cross-entropy: a warp a row; sums over rows by one block, in double, in a fixed tree.
#include <cmath>

#include "kernels/cuda/compute/columns.h"
#include "kernels/cuda/compute/map.h"
#include "kernels/cuda/cuda_device.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {
namespace {

constexpr int kLossThreads = 1024;  // of the block that sums over rows

// A maximum and the first column that holds it; all lanes get the warp's.
template <class Number>
struct Best {
  Number maximum = -INFINITY;
  std::int64_t column = -1;
  __device__ void meet() {
    for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
      const Number other = __shfl_xor_sync(kAllLanes, maximum, lanes);
      const std::int64_t at = __shfl_xor_sync(kAllLanes, column, lanes);
      if (at >= 0 && (column < 0 || other > maximum || (other == maximum && at < column))) {
        maximum = other;
        column = at;
      }
    }
  }
};

// ---- few classes, all in double --------------------------------------------------------------------------
struct LossRow {
  std::int64_t best;
  double log_sum, mean;  // log_sum = log of the sum of exp(logit)
};
template <class Cell>
__device__ LossRow measure_row(int classes, const Cell* logits) {
  Best<double> best;
  double mean = 0, sum = 0;
  for (int c = lane_of_warp(); c < classes; c += kWarp) {
    const double v = load(logits + c);
    mean += v / classes;
    if (best.column < 0 || v > best.maximum) best = {v, c};
  }
  best.meet();
  for (int c = lane_of_warp(); c < classes; c += kWarp) sum += std::exp(load(logits + c) - best.maximum);
  return {best.column, best.maximum + std::log(warp_sum(sum)), warp_sum(mean)};
}

// Threads of a block as a tree; the first one writes.
__device__ void finish_loss(double loss, std::int64_t correct, LossResult* result) {
  auto* const sums = static_cast<double*>(dynamic_shared());
  auto* const counts = reinterpret_cast<std::int64_t*>(sums + kLossThreads);
  const int thread = static_cast<int>(threadIdx.x);
  sums[thread] = loss;
  counts[thread] = correct;
  for (int half = kLossThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread >= half) continue;
    sums[thread] += sums[thread + half];
    counts[thread] += counts[thread + half];
  }
  if (thread != 0) return;
  result->sum = sums[0];
  result->correct = counts[0];
}
constexpr std::int64_t kLossShared = kLossThreads * (sizeof(double) + sizeof(std::int64_t));

template <class Cell>
__global__ void __launch_bounds__(kLossThreads)
    loss_of_rows(LossShape s, const Cell* logits, const std::int32_t* labels, LossResult* result) {
  begin_kernel();
  double loss = 0;
  std::int64_t correct = 0;
  for (std::int64_t i = threadIdx.x / kWarp; i < s.rows; i += kLossThreads / kWarp) {
    const Cell* of_row = logits + i * s.classes;
    const LossRow row = measure_row(s.classes, of_row);
    if (lane_of_warp() != 0) continue;
    const double target = load(of_row + labels[i]);
    loss += row.log_sum - (1 - s.smoothing) * target - s.smoothing * row.mean;
    correct += row.best == labels[i] ? 1 : 0;
  }
  finish_loss(loss, correct, result);
}

template <class Cell>
__global__ void loss_gradient(LossShape s, double divisor, const Cell* logits, const std::int32_t* labels,
                              Cell* dlogits) {
  begin_kernel();
  const std::int64_t i = row_of_warp();
  if (i >= s.rows) return;
  logits += i * s.classes;
  dlogits += i * s.classes;
  const LossRow row = measure_row(s.classes, logits);
  for (int c = lane_of_warp(); c < s.classes; c += kWarp) {
    const double wanted = (c == labels[i] ? 1 - s.smoothing : 0) + s.smoothing / s.classes;
    const double p = std::exp(load(logits + c) - row.log_sum);
    store(dlogits + c, static_cast<float>((p - wanted) / divisor));
  }
}

// ---- squares ----------------------------------------------------------------------------------------------
template <class Cell>
__global__ void __launch_bounds__(kLossThreads)
    squares_of_rows(std::int64_t rows, const Cell* x, const float* targets, LossResult* result) {
  begin_kernel();
  double loss = 0;
  for (std::int64_t i = threadIdx.x; i < rows; i += kLossThreads) {
    const double off = static_cast<double>(load(x + i)) - targets[i];
    loss += off * off;
  }
  finish_loss(loss, 0, result);
}

// The mean over the classes of a row, of which it has each or not (target 1 or 0).
template <class Cell>
__global__ void __launch_bounds__(kLossThreads)
    sigmoids_of_rows(LossShape s, const Cell* x, const float* targets, LossResult* result) {
  begin_kernel();
  double loss = 0;
  std::int64_t correct = 0;
  for (std::int64_t i = threadIdx.x; i < s.rows; i += kLossThreads) {
    double of_row = 0;
    bool is_right = true;
    for (std::int64_t at = i * s.classes; at < (i + 1) * s.classes; ++at) {
      const double v = load(x + at);
      of_row += (v > 0 ? v : 0) + std::log1p(std::exp(-std::abs(v))) - targets[at] * v;
      is_right = is_right && (v > 0) == (targets[at] > 0.5F);
    }
    loss += of_row / s.classes;
    correct += is_right ? 1 : 0;
  }
  finish_loss(loss, correct, result);
}

struct SigmoidGradient {
  double divisor;  // rows and classes
  const float* targets;
  LPMM_HD float operator()(const Place& at, float x) const {
    const double told = 1 / (1 + std::exp(-static_cast<double>(x)));
    return static_cast<float>((told - targets[at.column]) / divisor);
  }
};

struct SquareGradient {
  float rows;
  const float* targets;
  LPMM_HD float operator()(const Place& at, float x) const { return 2.0F * (x - targets[at.column]) / rows; }
};

// ---- a vocabulary by chunks ------------------------------------------------------------------------------
// exp(from - to), and 1 where both are infinite.
LPMM_HD float decay(float from, float to) {
  return from == to ? 1.0F : std::exp(from - to);
}

__global__ void scan_rows(SoftmaxArgs args) {
  begin_kernel();
  const LossShape& loss = args.shape;
  const std::int64_t row = row_of_warp(), first = args.first, columns = args.columns;
  if (row >= loss.rows) return;
  const float* const logits = args.logits + row * columns;
  Best<float> best;
  float sum = 0, total = 0;  // of exp(logit - maximum), and of the logits
  for (std::int64_t c = lane_of_warp(); c < columns; c += kWarp) {
    const float x = logits[c];
    total += x;
    if (x > best.maximum) {
      sum = sum * std::exp(best.maximum - x) + 1.0F;
      best = {x, c};
    } else {
      sum += std::exp(x - best.maximum);
    }
  }
  const float mine = best.maximum;
  best.meet();
  const auto chunk = static_cast<double>(warp_sum(sum * decay(mine, best.maximum)));
  if (loss.smoothing > 0) total = warp_sum(total);
  if (lane_of_warp() != 0) return;
  SoftmaxRow s = first == 0 ? SoftmaxRow{} : args.state[row];
  if (best.maximum > s.maximum) {
    s.best = static_cast<std::int32_t>(first + best.column);
    s.sum = s.sum * static_cast<double>(decay(s.maximum, best.maximum)) + chunk;
    s.maximum = best.maximum;
  } else {
    s.sum += chunk * static_cast<double>(decay(best.maximum, s.maximum));
  }
  const std::int64_t label = args.labels[row] - first;
  if (label >= 0 && label < columns) s.target = logits[label];
  if (loss.smoothing > 0) s.total += static_cast<double>(total);
  args.state[row] = s;
}

__global__ void __launch_bounds__(kLossThreads) finish_rows(SoftmaxArgs args) {
  begin_kernel();
  const LossShape& s = args.shape;
  double loss = 0;
  std::int64_t correct = 0;
  for (std::int64_t r = threadIdx.x; r < s.rows; r += kLossThreads) {
    const SoftmaxRow& state = args.state[r];
    const double log_sum = state.maximum + std::log(state.sum);
    args.log_sums[r] = static_cast<float>(log_sum);
    if (args.labels[r] < 0) continue;
    loss += s.smoothing > 0
                ? log_sum - (1 - s.smoothing) * state.target - s.smoothing * (state.total / s.classes)
                : log_sum - state.target;
    correct += state.best == args.labels[r] ? 1 : 0;
  }
  finish_loss(loss, correct, args.result);
}

struct SoftmaxGradient {
  std::int64_t first;
  float scale, spread, wanted;  // of all columns, and of the label's
  const float* log_sums;
  const std::int32_t* labels;
  const float* factors;
  LPMM_HD float operator()(const Place& at, float logit) const {
    if (labels[at.row] < 0) return 0.0F;
    const float p = product(scale, std::exp(logit - log_sums[at.row])) - spread,
                g = labels[at.row] == first + at.column ? p - wanted : p;
    return factors == nullptr ? g : product(g, factors[at.row]);
  }
};

// A warp for each pair, in turn.
__global__ void __launch_bounds__(kLossThreads) prefer(PreferenceArgs args) {
  begin_kernel();
  double loss = 0, margin = 0;  // of the first lanes
  std::int64_t correct = 0;
  const auto log_probability = [&](std::int64_t begin, std::int64_t end) {
    AnswerSum sum;
    for (std::int64_t r = begin + lane_of_warp(); r < end; r += kWarp) sum.add(args.labels[r], args.state[r]);
    return AnswerSum{warp_sum(sum.sum), warp_sum(sum.labels)};
  };
  const auto fill = [&](std::int64_t begin, std::int64_t end, float factor) {
    for (std::int64_t r = begin + lane_of_warp(); r < end; r += kWarp) args.factors[r] = factor;
  };
  for (std::int64_t i = threadIdx.x / kWarp; i < args.count; i += kLossThreads / kWarp) {
    const PreferencePair pair = args.pairs[i];
    const PreferenceTerms terms(args, pair.reference, log_probability(pair.chosen, pair.chosen_end),
                                log_probability(pair.rejected, pair.rejected_end));
    fill(pair.chosen, pair.chosen_end, terms.chosen);
    fill(pair.rejected, pair.rejected_end, terms.rejected);
    if (lane_of_warp() != 0) continue;
    if (args.differences != nullptr) args.differences[i] = terms.difference;
    loss += terms.loss;
    margin += terms.margin;
    correct += terms.margin > 0 ? 1 : 0;
  }
  finish_loss(margin, 0, args.result);
  if (threadIdx.x == 0) args.result->margin = args.result->sum;
  __syncthreads();
  finish_loss(loss, correct, args.result);
}

}  // namespace

void CudaDevice::loss_forward(const LossArgs& args) {
  const LossShape& s = args.shape;
  with_type(args.type, [&]<class Cell>(Cell*) {
    const auto* x = static_cast<const Cell*>(args.x);
    if (args.targets != nullptr && s.classes > 1) {
      launch(sigmoids_of_rows<Cell>, 1, kLossThreads, kLossShared, stream(), s, x, args.targets, args.result);
    } else if (args.targets != nullptr) {
      launch(squares_of_rows<Cell>, 1, kLossThreads, kLossShared, stream(), s.rows, x, args.targets,
             args.result);
    } else {
      launch(loss_of_rows<Cell>, 1, kLossThreads, kLossShared, stream(), s, x, args.labels, args.result);
    }
  });
}
void CudaDevice::loss_backward(const LossArgs& args) {
  const LossShape& s = args.shape;
  with_type(args.type, [&]<class Cell>(Cell*) {
    const auto* x = static_cast<const Cell*>(args.x);
    auto* dx = static_cast<Cell*>(args.dx);
    if (args.targets != nullptr && s.classes > 1) {
      map_matrix(stream(), 1, s.rows * s.classes, SigmoidGradient{s.classes * args.divisor(), args.targets},
                 dx, false, x);
    } else if (args.targets != nullptr) {
      map_matrix(stream(), 1, s.rows, SquareGradient{static_cast<float>(args.divisor()), args.targets}, dx,
                 false, x);
    } else {
      launch(loss_gradient<Cell>, row_blocks(s.rows), kRowThreads, 0, stream(), s, args.divisor(), x,
             args.labels, dx);
    }
  });
}

void CudaDevice::softmax_scan(const SoftmaxArgs& args) {
  launch(scan_rows, row_blocks(args.shape.rows), kRowThreads, 0, stream(), args);
}
void CudaDevice::softmax_finish(const SoftmaxArgs& args) {
  launch(finish_rows, 1, kLossThreads, kLossShared, stream(), args);
}
void CudaDevice::softmax_gradient(const SoftmaxArgs& args) {
  const LossShape& s = args.shape;
  const float spread = args.scale * static_cast<float>(s.smoothing / s.classes),
              wanted = s.smoothing > 0 ? args.scale * static_cast<float>(1 - s.smoothing) : args.scale;
  with_type(args.type, [&]<class Cell>(Cell*) {
    map_matrix(
        stream(), s.rows, args.columns,
        SoftmaxGradient{args.first, args.scale, spread, wanted, args.log_sums, args.labels, args.factors},
        static_cast<Cell*>(args.gradient), false, static_cast<const float*>(args.logits));
  });
}
void CudaDevice::preference_loss(const PreferenceArgs& args) {
  launch(prefer, 1, kLossThreads, kLossShared, stream(), args);
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
