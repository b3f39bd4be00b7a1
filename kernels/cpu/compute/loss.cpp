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
Row look_at(const LossShape& s, Compute type, const void* logits, std::int64_t row) {
  Row r;
  const std::int64_t at = row * s.classes;
  for (int c = 0; c < s.classes; ++c) {
    const double v = get(type, logits, at + c);
    r.mean += v / s.classes;
    if (c == 0 || v > r.maximum) {
      r.best = c;
      r.maximum = v;
    }
  }
  double sum = 0;
  for (int c = 0; c < s.classes; ++c) sum += std::exp(get(type, logits, at + c) - r.maximum);
  r.log_sum = r.maximum + std::log(sum);
  return r;
}

}  // namespace

void CpuDevice::softmax_loss(const LossShape& s, Compute type, const void* logits, const std::int32_t* labels,
                             LossResult* result) {
  *result = {};
  for (std::int64_t i = 0; i < s.rows; ++i) {
    const Row row = look_at(s, type, logits, i);
    const double target = get(type, logits, i * s.classes + labels[i]);
    result->sum += row.log_sum - (1 - s.smoothing) * target - s.smoothing * row.mean;
    result->correct += row.best == labels[i] ? 1 : 0;
  }
}

void CpuDevice::softmax_loss_backward(const LossShape& s, Compute type, const void* logits,
                                      const std::int32_t* labels, void* dlogits) {
  for (std::int64_t i = 0; i < s.rows; ++i) {
    const Row row = look_at(s, type, logits, i);
    for (int c = 0; c < s.classes; ++c) {
      const double wanted = (c == labels[i] ? 1 - s.smoothing : 0) + s.smoothing / s.classes;
      const double p = std::exp(get(type, logits, i * s.classes + c) - row.log_sum);
      put(type, dlogits, i * s.classes + c, static_cast<float>((p - wanted) / static_cast<double>(s.rows)));
    }
  }
}

void CpuDevice::square_loss(std::int64_t rows, Compute type, const void* x, const float* targets,
                            LossResult* result) {
  *result = {};
  for (std::int64_t i = 0; i < rows; ++i) {
    const double off = static_cast<double>(get(type, x, i)) - targets[i];
    result->sum += off * off;
  }
}

void CpuDevice::square_loss_backward(std::int64_t rows, Compute type, const void* x, const float* targets,
                                     void* dx) {
  for (std::int64_t i = 0; i < rows; ++i) {
    put(type, dx, i, 2.0F * (get(type, x, i) - targets[i]) / static_cast<float>(rows));
  }
}

}  // namespace lpmm::kernels
