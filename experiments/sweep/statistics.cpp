#include "experiments/sweep/statistics.h"

#include <cmath>

namespace lpmm {
namespace {

// The continued fraction of the incomplete beta function by Lentz's method (Numerical Recipes 6.4).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto away_from_zero = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), value = d;
  for (int m = 1; m <= 10000; ++m) {
    const auto extend = [&](double term) {
      d = 1 / away_from_zero(1 + term * d);
      c = away_from_zero(1 + term / c);
      value *= d * c;
      return d * c;
    };
    extend(m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)));
    if (std::abs(extend(-(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))) - 1) < 1e-15) break;
  }
  return value;
}

// I_x(a, b)
double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

// P(T > t) for t >= 0.
double upper_tail(double t, double freedom) {
  return 0.5 * incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t));
}

}  // namespace

double student_t_quantile(double p, std::int64_t freedom) {
  if (p < 0.5) return -student_t_quantile(1 - p, freedom);
  const auto n = static_cast<double>(freedom);
  double low = 0, high = 1;
  while (upper_tail(high, n) > 1 - p) high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = 0.5 * (low + high);
    (upper_tail(middle, n) > 1 - p ? low : high) = middle;
  }
  return 0.5 * (low + high);
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
