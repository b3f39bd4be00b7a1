#include "theory/floors.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/maps.h"
#include "lpmm/error.h"

namespace lpmm::theory {
namespace {

constexpr double kPi = std::numbers::pi;

double normal_density(double x) {
  return std::exp(-0.5 * x * x) / std::sqrt(2 * kPi);
}

// The stored neighbours of y = x / step.
struct Cell {
  double low, high;
};
Cell cell_of(Format format, MapTable table, double y) {
  if (format.map == Map::kLinear) return {std::floor(y), std::floor(y) + 1};
  const float* end = table.values + table.entries;
  const float* above = std::upper_bound(table.values, end, static_cast<float>(y));
  if (above == table.values) return {table.values[0], table.values[0]};
  if (above == end) return {above[-1], above[-1]};
  return {above[-1], above[0]};
}

}  // namespace

RoundingMoments rounding_moments(Format format, MapTable table, Rounding rounding, double x, double step) {
  const double y = x / step;
  const auto [low, high] = cell_of(format, table, y);
  const bool inside = y >= low && high > low;
  if (inside && rounding == Rounding::kStochastic) return {0, (y - low) * (high - y) * step * step};
  return {((inside && y > 0.5 * (low + high) ? high : low) - y) * step, 0};
}

double grid_error(Rounding rounding, double step, double spread) {
  if (step == 0 || spread == 0) return 0;
  const double r = spread / step;
  const bool sr = rounding == Rounding::kStochastic;
  // Below a tenth of a step the updates that cross a cell are beyond five deviations (rn) or ten (sr).
  if (r < 0.1) return sr ? step * spread * std::sqrt(2 / kPi) - spread * spread : spread * spread;
  double sum = 0;
  for (int k = 1; k < 64; ++k) {
    const double term = std::exp(-2 * kPi * kPi * k * k * r * r) / (k * k);
    sum += sr ? -term : k % 2 == 0 ? term : -term;
  }
  return step * step * ((sr ? 1.0 / 6 : 1.0 / 12) + sum / (kPi * kPi));
}

double map_error(Format format, MapTable table, Rounding rounding, double step, double spread) {
  const double limit = map_limit(format) * step;
  const double from = is_signed(format.map) ? -limit : 0.0;
  constexpr int kPoints = 1 << 16;
  const double width = (limit - from) / kPoints;
  double error = 0;
  double weight = 0;
  for (int i = 0; i < kPoints; ++i) {
    const double x = from + (i + 0.5) * width;
    const double w = normal_density(x / spread);
    error += w * rounding_moments(format, table, rounding, x, step).error();
    weight += w;
  }
  return weight > 0 ? error / weight : 0;
}

double expected_square_of_largest(int count) {
  // E[max^2] = integral of 2 t P(max > t).
  constexpr double kWidth = 1e-3;
  double sum = 0;
  for (double t = kWidth / 2; t < 12; t += kWidth) {
    sum += 2 * t * kWidth * (1 - std::pow(std::erf(t / std::numbers::sqrt2), count));
  }
  return sum;
}

double state_noise(const Codec& codec, MapTable table, double spread) {
  if (!is_packed(codec.format) || spread == 0) return 0;
  const double largest = spread * std::sqrt(expected_square_of_largest(codec.block));
  return map_error(codec.format, table, codec.rounding, largest / map_limit(codec.format), spread);
}

double underflow_share(Rounding rounding, double step, double spread) {
  if (spread == 0) return 1;
  const double a = step / spread;
  if (rounding == Rounding::kNearest) return std::erf(a / (2 * std::numbers::sqrt2));
  if (a == 0) return 0;
  return std::erf(a / std::numbers::sqrt2) + std::sqrt(2 / kPi) * std::expm1(-0.5 * a * a) / a;
}

Eigen::MatrixXd stationary_covariance(const Eigen::MatrixXd& a, const Eigen::MatrixXd& q) {
  const Eigen::Index n = a.rows();
  if (a.cols() != n || q.rows() != n || q.cols() != n) {
    throw UsageError("stationary_covariance: A and Q must be square and of one size");
  }
  // Smith's doubling of the sum over k of A^k Q A'^k: after i rounds it holds 2^i terms.
  Eigen::MatrixXd power = a;
  Eigen::MatrixXd p = q;
  for (int i = 0; i < 64; ++i) {
    const Eigen::MatrixXd added = power * p * power.transpose();
    p += added;
    if (!p.allFinite()) break;
    if (added.norm() <= 1e-16 * p.norm()) return p;
    power = (power * power).eval();
  }
  throw UsageError(
      "stationary_covariance: no stationary state, the spectral radius is not below 1; lower "
      "the learning rate");
}

double floor_variance(const QuadraticProblem& s, double rounding_noise) {
  const double beta = s.momentum;
  const double lr = s.learning_rate;
  const double pull = lr * s.curvature;
  const double unit = (1 + beta) / ((1 - beta) * pull * (2 * (1 + beta) - pull));
  const double gradient = s.gradient_noise * s.gradient_noise + s.accumulator_noise;
  return unit * (lr * lr * (gradient + beta * beta * s.momentum_noise) +
                 rounding_noise * ((1 - beta) * (1 - beta) + 2 * beta * pull / (1 + beta)));
}

Floor quadratic_floor(const QuadraticProblem& s) {
  const double lr = s.learning_rate;
  Eigen::Matrix2d a;
  a << 1 - lr * s.curvature, -lr * s.momentum, s.curvature, s.momentum;
  const Eigen::Vector2d input(-lr, 1);
  const Eigen::Matrix2d gradient =
      (s.gradient_noise * s.gradient_noise + s.accumulator_noise) * input * input.transpose();

  Floor floor;
  floor.rounding_noise = s.step * s.step / 6;
  for (int i = 0; i < 200; ++i) {
    Eigen::Matrix2d q = gradient;
    q(0, 0) += floor.rounding_noise;
    q(1, 1) += s.momentum_noise;
    const Eigen::MatrixXd p = stationary_covariance(a, q);
    floor.variance = p(0, 0);
    floor.update_spread = lr * std::sqrt(p(1, 1) - s.momentum_noise);  // the fresh momentum moves x
    const double before = floor.rounding_noise;
    floor.rounding_noise = s.moves * s.step * s.step / 6 +
                           (1 - s.moves) * grid_error(Rounding::kStochastic, s.step, floor.update_spread);
    if (std::abs(floor.rounding_noise - before) <= 1e-12 * before) break;
  }
  floor.loss = 0.5 * s.curvature * floor.variance;
  floor.underflow = (1 - s.moves) * underflow_share(Rounding::kStochastic, s.step, floor.update_spread);
  return floor;
}

}  // namespace lpmm::theory
