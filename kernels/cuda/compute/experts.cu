// Which experts a row chooses: a warp a row; the order of choices: a warp an expert. Rows on their way to
// experts and back.
#include <cmath>

#include "kernels/cuda/compute/columns.h"
#include "kernels/cuda/compute/map.h"
#include "kernels/cuda/cuda_device.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {
namespace {

// A probability, or less than any where it is not a number.
LPMM_HD float chance(float probability) {
  return probability >= 0 ? probability : -1.0F;
}

template <class Cell>
__global__ void choose_by_row(ChoiceArgs args, const Cell* logits) {
  begin_kernel();
  const ChoiceShape& s = args.shape;
  const std::int64_t row = row_of_warp();
  if (row >= s.rows) return;
  logits += row * s.experts;
  float* const p = args.choices.probabilities + row * s.experts;
  float most = -INFINITY, sum = 0;
  for (int e = lane_of_warp(); e < s.experts; e += kWarp) most = std::fmax(most, load(logits + e));
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2)
    most = std::fmax(most, __shfl_xor_sync(kAllLanes, most, lanes));
  for (int e = lane_of_warp(); e < s.experts; e += kWarp) sum += p[e] = std::exp(load(logits + e) - most);
  sum = warp_sum(sum);
  for (int e = lane_of_warp(); e < s.experts; e += kWarp) p[e] /= sum;  // each lane reads its own again
  float last = 2;
  int before = -1;
  for (int j = 0; j < s.chosen; ++j) {
    float best = -2;
    int at = s.experts;
    for (int e = lane_of_warp(); e < s.experts; e += kWarp) {
      const float v = chance(p[e]);
      const bool is_left = v < last || (v == last && e > before);
      if (!is_left || v <= best) continue;
      best = v;
      at = e;
    }
    for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
      const float other = __shfl_xor_sync(kAllLanes, best, lanes);
      const int there = __shfl_xor_sync(kAllLanes, at, lanes);
      if (other < best || (other == best && there >= at)) continue;
      best = other;
      at = there;
    }
    if (lane_of_warp() == 0) args.choices.experts[row * s.chosen + j] = at;
    last = best;
    before = at;
  }
}

template <class Cell>
__global__ void choose_gradient(ChoiceArgs args, Cell* gradient) {
  begin_kernel();
  const ChoiceShape& s = args.shape;
  const std::int64_t row = row_of_warp();
  if (row >= s.rows) return;
  const float *const p = args.choices.probabilities + row * s.experts, *const g = args.probability_gradient +
                                                                                  row * s.experts;
  gradient += row * s.experts;
  float mean = 0;
  for (int e = lane_of_warp(); e < s.experts; e += kWarp) mean += p[e] * g[e];
  mean = warp_sum(mean);
  for (int e = lane_of_warp(); e < s.experts; e += kWarp) {
    const float v = p[e] * (g[e] - mean);
    store(gradient + e, args.accumulate ? v + load(gradient + e) : v);
  }
}

// The choices of an expert begin behind those of the experts before it.
__global__ void order_by_expert(ChoiceArgs args) {
  begin_kernel();
  const ChoiceShape& s = args.shape;
  const std::int64_t expert = row_of_warp(), choices = s.choices();
  if (expert >= s.experts) return;
  const std::int32_t* const experts = args.choices.experts;
  std::int64_t before = 0;
  for (std::int64_t i = lane_of_warp(); i < choices; i += kWarp) before += experts[i] < expert ? 1 : 0;
  std::int64_t next = warp_sum(before);
  if (lane_of_warp() == 0) {
    args.order.first[expert] = next;
    if (expert == 0) args.order.first[s.experts] = choices;
  }
  for (std::int64_t from = 0; from < choices; from += kWarp) {
    const std::int64_t i = from + lane_of_warp();
    const bool is_mine = i < choices && experts[i] == expert;
    const std::uint32_t lanes = lanes_where(is_mine);
    const std::int64_t place = next + number_of(lanes & ((1U << lane_of_warp()) - 1U));
    next += number_of(lanes);
    if (!is_mine) continue;
    const std::int64_t row = i / s.chosen;
    const float probability = args.choices.probabilities[row * s.experts + expert];
    args.order.weights[place] = probability / args.weight_sum(row);
    args.order.rows[place] = static_cast<std::int32_t>(row);
    args.order.places[i] = static_cast<std::int32_t>(place);
  }
}

// A thread for each row.
__global__ void order_gradient(ChoiceArgs args) {
  begin_kernel();
  const std::int64_t row = std::int64_t{1} * blockIdx.x * blockDim.x + threadIdx.x;
  if (row < args.shape.rows) args.add_row_gradient(row);
}

template <class Cell>
struct Take {
  std::int64_t width, count;
  const std::int32_t* rows;
  const Cell* x;
  LPMM_HD float operator()(const Place& at) const {
    return at.row < count ? load(x + rows[at.row] * width + at.column) : 0.0F;
  }
};

__global__ void add_to_rows(AddRowsArgs args) {
  begin_kernel();
  const std::int64_t i = std::int64_t{1} * blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= args.count * args.width) return;
  const Place at = Place::of(i, args.width);
  args.y[args.rows[at.row] * args.width + at.column] += args.x[i];
}

template <class Cell>
__global__ void weigh_each_row(WeighRowsArgs args, Cell* x, const Cell* other) {
  begin_kernel();
  const std::int64_t row = row_of_warp();
  if (row >= args.count) return;
  x += row * args.width;
  other += args.dots == nullptr ? 0 : row * args.width;
  const float weight = args.weights[row];
  float dot = 0;
  for (std::int64_t c = lane_of_warp(); c < args.width; c += kWarp) {
    const float v = load(x + c);
    if (args.dots != nullptr) dot += v * load(other + c);
    store(x + c, product(v, weight));
  }
  if (args.dots == nullptr) return;
  dot = warp_sum(dot);
  if (lane_of_warp() == 0) args.dots[row] = dot;
}

// A warp for each expert.
__global__ void sum_of_expert(BalanceArgs args) {
  begin_kernel();
  const ChoiceShape& s = args.shape;
  const std::int64_t expert = row_of_warp();
  if (expert >= s.experts) return;
  double choices = 0, probabilities = 0;
  for (std::int64_t i = lane_of_warp(); i < s.choices(); i += kWarp)
    choices += args.choices.experts[i] == expert ? 1 : 0;
  for (std::int64_t r = lane_of_warp(); r < s.rows; r += kWarp)
    probabilities += static_cast<double>(args.choices.probabilities[r * s.experts + expert]);
  choices = warp_sum(choices);
  probabilities = warp_sum(probabilities);
  if (lane_of_warp() != 0) return;
  args.sums[expert] += choices;
  args.sums[s.experts + expert] += probabilities;
}

__global__ void add_balance_loss(BalanceArgs args) {
  begin_kernel();
  double sum = 0;
  for (int e = static_cast<int>(threadIdx.x); e < args.shape.experts; e += kWarp)
    sum += args.slope(args.sums[e]) * args.sums[args.shape.experts + e];
  sum = warp_sum(sum);
  if (threadIdx.x == 0) args.result->sum += sum;
}

struct BalanceSlope {
  BalanceArgs args;
  LPMM_HD float operator()(const Place& at) const {
    return static_cast<float>(args.slope(args.sums[at.column]));
  }
};

std::int64_t thread_blocks(std::int64_t count) {
  return (count + kMapThreads - 1) / kMapThreads;
}

}  // namespace

void CudaDevice::choose(const ChoiceArgs& args) {
  with_type(args.type, [&]<class Cell>(Cell*) {
    launch(choose_by_row<Cell>, row_blocks(args.shape.rows), kRowThreads, 0, stream(), args,
           static_cast<const Cell*>(args.logits));
  });
}
void CudaDevice::choose_backward(const ChoiceArgs& args) {
  with_type(args.type, [&]<class Cell>(Cell*) {
    launch(choose_gradient<Cell>, row_blocks(args.shape.rows), kRowThreads, 0, stream(), args,
           static_cast<Cell*>(args.logit_gradient));
  });
}
void CudaDevice::order_choices(const ChoiceArgs& args) {
  launch(order_by_expert, row_blocks(args.shape.experts), kRowThreads, 0, stream(), args);
}
void CudaDevice::order_choices_backward(const ChoiceArgs& args) {
  const ChoiceShape& s = args.shape;
  if (!args.accumulate) fill_with_zeros(args.probability_gradient, 4 * s.rows * s.experts);
  launch_apart(order_gradient, thread_blocks(s.rows), kMapThreads, stream(), args);
}
void CudaDevice::take_rows(const TakeRowsArgs& args) {
  with_type(args.type, [&]<class Cell>(Cell*) {
    map_matrix(stream(), args.padded, args.width,
               Take<Cell>{args.width, args.count, args.rows, static_cast<const Cell*>(args.x)},
               static_cast<Cell*>(args.y), false);
  });
}
void CudaDevice::add_rows(const AddRowsArgs& args) {
  launch_apart(add_to_rows, thread_blocks(args.count * args.width), kMapThreads, stream(), args);
}
void CudaDevice::weigh_rows(const WeighRowsArgs& args) {
  with_type(args.type, [&]<class Cell>(Cell*) {
    launch(weigh_each_row<Cell>, row_blocks(args.count), kRowThreads, 0, stream(), args,
           static_cast<Cell*>(args.x), static_cast<const Cell*>(args.other));
  });
}
void CudaDevice::balance_sums(const BalanceArgs& args) {
  launch(sum_of_expert, row_blocks(args.shape.experts), kRowThreads, 0, stream(), args);
}
void CudaDevice::balance_loss(const BalanceArgs& args) {
  launch(add_balance_loss, 1, kWarp, 0, stream(), args);
}
void CudaDevice::balance_backward(const BalanceArgs& args) {
  map_matrix(stream(), args.shape.rows, args.shape.experts, BalanceSlope{args}, args.probability_gradient,
             args.accumulate);
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
