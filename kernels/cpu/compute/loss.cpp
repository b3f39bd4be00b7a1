// Softmax cross-entropy of few classes, and squares, row by row.
#include "kernels/cpu.h"

#include <cmath>

#include "kernels/cpu/compute/cut.h"

namespace lpmm::kernels {
namespace {

struct Row {
  int best = 0;
  double maximum = 0, log_sum = 0, mean = 0;  // log_sum = log of the sum of exp(logit)
};
Row look_at(const LossArgs& args, std::int64_t row) {
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

}  // namespace

void CpuDevice::loss_forward(const LossArgs& args) {
  const LossShape& s = args.shape;
  *args.result = {};
  for (std::int64_t i = 0; i < s.rows; ++i) {
    if (args.targets != nullptr) {
      const double off = static_cast<double>(get(args.type, args.x, i)) - args.targets[i];
      args.result->sum += off * off;
      continue;
    }
    const Row row = look_at(args, i);
    const double target = get(args.type, args.x, i * s.classes + args.labels[i]);
    args.result->sum += row.log_sum - (1 - s.smoothing) * target - s.smoothing * row.mean;
    args.result->correct += row.best == args.labels[i] ? 1 : 0;
  }
}

void CpuDevice::loss_backward(const LossArgs& args) {
  const LossShape& s = args.shape;
  for (std::int64_t i = 0; i < s.rows; ++i) {
    if (args.targets != nullptr) {
      const float off = get(args.type, args.x, i) - args.targets[i];
      put(args.type, args.dx, i, 2.0F * off / static_cast<float>(s.rows));
      continue;
    }
    const Row row = look_at(args, i);
    for (int c = 0; c < s.classes; ++c) {
      const double wanted = (c == args.labels[i] ? 1 - s.smoothing : 0) + s.smoothing / s.classes;
      const double p = std::exp(get(args.type, args.x, i * s.classes + c) - row.log_sum);
      put(args.type, args.dx, i * s.classes + c,
          static_cast<float>((p - wanted) / static_cast<double>(s.rows)));
    }
  }
}

}  // namespace lpmm::kernels
