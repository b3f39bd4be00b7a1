// Softmax and sigmoid cross-entropy of few classes, and squares, row by row.
#include "kernels/cpu.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/compute/cut.h"

namespace lpmm::kernels {
namespace {

struct Row {
  int best = 0;
  double maximum = 0, log_sum = 0, mean = 0;  // log_sum = log of the sum of exp(logit)
};
Row measure_row(const LossArgs& args, std::int64_t row) {
  Row r;
  const int classes = args.shape.classes;
  const std::int64_t at = row * classes;
  for (int c = 0; c < classes; ++c) {
    const double v = get(args.type, args.x, at + c);
    r.mean += v / classes;
    if (c == 0 || v > r.maximum) {
      r.best = c;
      r.maximum = v;
    }
  }
  double sum = 0;
  for (int c = 0; c < classes; ++c) sum += std::exp(get(args.type, args.x, at + c) - r.maximum);
  r.log_sum = r.maximum + std::log(sum);
  return r;
}

// Returns the loss of one class that a row has or has not (target 1 or 0); x is its logit.
double sigmoid_loss(double x, double target) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))) - target * x;
}

// Adds a row's targets to the loss, and counts the row if all of them are right.
void add_targets(const LossArgs& args, std::int64_t row) {
  const int classes = args.shape.classes;
  if (classes == 1) {
    const double off = static_cast<double>(get(args.type, args.x, row)) - args.targets[row];
    args.result->sum += off * off;
    return;
  }
  double loss = 0;
  bool is_right = true;
  for (std::int64_t at = row * classes; at < (row + 1) * classes; ++at) {
    const double x = get(args.type, args.x, at);
    loss += sigmoid_loss(x, args.targets[at]);
    is_right = is_right && (x > 0) == (args.targets[at] > 0.5F);
  }
  args.result->sum += loss / classes;
  args.result->correct += is_right ? 1 : 0;
}

void put_target_gradients(const LossArgs& args, std::int64_t row) {
  const int classes = args.shape.classes;
  if (classes == 1) {
    const float off = get(args.type, args.x, row) - args.targets[row];
    return put(args.type, args.dx, row, 2.0F * off / static_cast<float>(args.divisor()));
  }
  for (std::int64_t at = row * classes; at < (row + 1) * classes; ++at) {
    const double told = 1 / (1 + std::exp(-static_cast<double>(get(args.type, args.x, at))));
    put(args.type, args.dx, at, static_cast<float>((told - args.targets[at]) / (classes * args.divisor())));
  }
}

}  // namespace

void CpuDevice::loss_forward(const LossArgs& args) {
  const LossShape& s = args.shape;
  *args.result = {};
  for (std::int64_t i = 0; i < s.rows; ++i) {
    if (args.targets != nullptr) {
      add_targets(args, i);
      continue;
    }
    const Row row = measure_row(args, i);
    const double target = get(args.type, args.x, i * s.classes + args.labels[i]);
    args.result->sum += row.log_sum - (1 - s.smoothing) * target - s.smoothing * row.mean;
    args.result->correct += row.best == args.labels[i] ? 1 : 0;
  }
}

void CpuDevice::loss_backward(const LossArgs& args) {
  const LossShape& s = args.shape;
  for (std::int64_t i = 0; i < s.rows; ++i) {
    if (args.targets != nullptr) {
      put_target_gradients(args, i);
      continue;
    }
    const Row row = measure_row(args, i);
    for (int c = 0; c < s.classes; ++c) {
      const double wanted = (c == args.labels[i] ? 1 - s.smoothing : 0) + s.smoothing / s.classes;
      const double p = std::exp(get(args.type, args.x, i * s.classes + c) - row.log_sum);
      put(args.type, args.dx, i * s.classes + c, static_cast<float>((p - wanted) / args.divisor()));
    }
  }
}

}  // namespace lpmm::kernels
