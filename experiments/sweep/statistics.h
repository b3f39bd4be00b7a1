// Means with bounds from few samples: Student's t.
#pragma once

#include <cstdint>
#include <span>

namespace lpmm {

// The value that a t-distributed variable of `freedom` >= 1 degrees stays below with probability `p` in (0,
// 1).
double student_t_quantile(double p, std::int64_t freedom);

struct Mean {
  std::int64_t count = 0;
  double mean = 0;
  double deviation = 0;  // that of the sample, over n - 1; 0 if count < 2
};
Mean mean_of(std::span<const double> values);

// 95 % bounds of a mean; they exist for two values or more.
struct MeanBounds {
  double upper = 0;          // one-sided: the true mean lies below with 95 %
  double low = 0, high = 0;  // two-sided
};
MeanBounds bounds_95(const Mean& mean);

}  // namespace lpmm
