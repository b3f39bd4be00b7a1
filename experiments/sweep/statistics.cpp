#include "experiments/sweep/statistics.h"

#include <boost/math/distributions/students_t.hpp>
#include <cmath>

namespace lpmm {

double student_t_quantile(double p, std::int64_t freedom) {
  return boost::math::quantile(boost::math::students_t(static_cast<double>(freedom)), p);
}

Mean mean_of(std::span<const double> values) {
  Mean result{static_cast<std::int64_t>(values.size())};
  if (values.empty()) return result;
  const auto n = static_cast<double>(values.size());
  for (const double v : values) result.mean += v / n;
  double squares = 0;
  for (const double v : values) squares += (v - result.mean) * (v - result.mean);
  if (values.size() > 1) result.deviation = std::sqrt(squares / (n - 1));
  return result;
}

MeanBounds bounds_95(const Mean& mean) {
  const double error = mean.deviation / std::sqrt(static_cast<double>(mean.count));
  const double one_sided = student_t_quantile(0.95, mean.count - 1) * error;
  const double two_sided = student_t_quantile(0.975, mean.count - 1) * error;
  return {mean.mean + one_sided, mean.mean - two_sided, mean.mean + two_sided};
}

}  // namespace lpmm
