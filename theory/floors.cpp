#include "theory/floors.h"

#include <Eigen/LU>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "kernels/formats/maps.h"
#include "kernels/noise.h"
#include "lpmm/base/error.h"

namespace lpmm::theory {
namespace {

constexpr double kPi = std::numbers::pi;

double normal_density(double x) {
  return std::exp(-0.5 * x * x) / std::sqrt(2 * kPi);
}

// E B(x + z) - B(x), z ~ N(0, variance), for the polynomial B(y) = y^2 - y + 1/6 on [0, 1), repeated, which
// is the sum over k >= 1 of cos(2 pi k y) / (pi k)^2. x in [0, 1).
double smoothing(double x, double variance) {
  if (variance == 0) return 0;
  if (variance > 0.02) {
    double sum = x - x * x - 1.0 / 6;
    for (int k = 1; k < 10; ++k) {
      sum += std::exp(-2 * kPi * kPi * k * k * variance) * std::cos(2 * kPi * k * x) / (kPi * kPi * k * k);
    }
    return sum;
  }
  // The gain of a parabola, less what its kinks at 0 and 1 cut off.
  const double deviation = std::sqrt(variance);
  const auto beyond = [&](double distance) {
    const double z = distance / deviation;
    return deviation * (normal_density(z) - z * std::erfc(z / std::numbers::sqrt2) / 2);
  };
  return variance - 2 * (beyond(x) + beyond(1 - x));
}

// The distance between the draws of `qr` in two writes, as a share of their range.
constexpr std::int64_t kDraws = 65536;
double weyl(std::int64_t lag) {
  return static_cast<double>(std::abs(lag) * kWeylStep % kDraws) / double{kDraws};
}

// The stored neighbours of y = x / step.
struct Neighbours {
  double low, high;
};
Neighbours cell_of(Format format, MapTable table, double y) {
  if (format.map == Map::kLinear) return {std::floor(y), std::floor(y) + 1};
  const float* end = table.values + table.entries;
  const float* above = std::upper_bound(table.values, end, static_cast<float>(y));
  if (above == table.values) return {table.values[0], table.values[0]};
  if (above == end) return {above[-1], above[-1]};
  return {above[-1], above[0]};
}

// The values next to a stored one, infinite beyond the ends of the map.
Neighbours neighbours_of(Format format, MapTable table, double value) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  if (format.map == Map::kLinear) {
    const double limit = map_limit(format);
    return {value > -limit ? value - 1 : -kNone, value < limit ? value + 1 : kNone};
  }
  const float* end = table.values + table.entries;
  const float* at = std::lower_bound(table.values, end, static_cast<float>(value));
  return {at > table.values ? at[-1] : -kNone, at + 1 < end ? at[1] : kNone};
}

// The amount that a rounding error of x adds to m, relative to the error: kappa of README 4.
double feedback_of(const QuadraticProblem& s) {
  if (!s.error_feedback) return 0;
  if (s.momentum <= 0) throw UsageError("error feedback goes through the momentum: set it above 0");
  return (1 / s.momentum - 1) / s.learning_rate;
}

// Sum over lags of the errors' covariance times that of how x answers to them, over the lag 0 alone: (14a).
// Two updates share the momentum's memory of past gradients; without it all lags repeat after 2^16.
double quasi_noise_kept(const QuadraticProblem& s, const Eigen::Matrix2d& a,
                        const Eigen::Matrix2d& of_rounding, const Floor& floor) {
  if (floor.rounding_noise == 0) return 1;
  const auto covariance = [&](double correlation, std::int64_t lag) {
    return quasi_covariance(s.step, floor.update_spread, correlation, lag);
  };
  Eigen::Vector2d answer = of_rounding.col(0), period = Eigen::Vector2d::Zero();
  const double forgotten = 1e-12 * answer.norm();
  double correlation = 1, by_momentum = 0;
  for (std::int64_t lag = 1; lag <= kDraws && answer.norm() > forgotten; ++lag) {
    answer = (a * answer).eval();
    correlation *= s.momentum;
    const double alone = covariance(0, lag);
    period += alone * answer;
    if (correlation > 1e-9) by_momentum += (covariance(correlation, lag) - alone) * answer(0);
  }
  Eigen::Matrix2d over = a;
  for (std::int64_t power = 1; power < kDraws; power *= 2) over = (over * over).eval();
  const Eigen::Vector2d all = (Eigen::Matrix2d::Identity() - over).inverse() * period;
  return 1 + 2 * (all(0) + by_momentum) / (floor.rounding_noise * of_rounding(0, 0));
}

}  // namespace

RoundingMoments rounding_moments(Format format, MapTable table, Rounding rounding, double x, double step) {
  const double y = x / step;
  const auto [low, high] = cell_of(format, table, y);
  const bool inside = y >= low && high > low;
  if (inside && takes_draws(rounding)) return {0, (y - low) * (high - y) * step * step};
  return {((inside && y > 0.5 * (low + high) ? high : low) - y) * step, 0};
}

bool has_floor(Rounding rounding, StepMode steps) {
  return rounding == Rounding::kStochastic ||
         (rounding == Rounding::kQuasiStochastic && steps == StepMode::kSticky);
}

double grid_error(Rounding rounding, double step, double spread) {
  if (step == 0 || spread == 0) return 0;
  const double variance = spread * spread / (step * step);
  return step * step * (takes_draws(rounding) ? -smoothing(0, variance) : smoothing(0.5, variance));
}

double quasi_covariance(double step, double spread, double correlation, std::int64_t lag) {
  if (step == 0 || spread == 0) return 0;
  const double variance = spread * spread / (step * step);
  const double apart = weyl(lag);
  return step * step / 2 *
         (smoothing(apart, 2 * variance * (1 - correlation)) - 2 * smoothing(apart, variance));
}

double quasi_share(double step, double spread, double momentum) {
  if (momentum < 0 || momentum >= 1) throw UsageError("quasi_share: the momentum is at least 0 and below 1");
  const double alone = grid_error(Rounding::kStochastic, step, spread);
  if (alone == 0) return 1;
  // The noise that the draws alone leave, and what momentum takes from it.
  double sum = grid_error(Rounding::kStochastic, step, std::numbers::sqrt2 * spread) / 2;
  double correlation = momentum;
  for (std::int64_t lag = 1; lag <= kDraws && correlation > 1e-4; ++lag, correlation *= momentum) {
    sum += 2 * (quasi_covariance(step, spread, correlation, lag) - quasi_covariance(step, spread, 0, lag));
  }
  return sum / alone;
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

double fold_noise(const Codec& codec, MapTable table, int folds, double mean_spread, double noise_spread) {
  // Noise goes with the variance of what is stored, the noise of earlier folds included.
  const double share = state_noise(codec, table, 1);
  double noise = 0;
  for (int k = 1; k <= folds; ++k) {
    noise += share * (std::pow(k * mean_spread / folds, 2) + k * std::pow(noise_spread / folds, 2) + noise);
  }
  return noise;
}

double underflow_share(Rounding rounding, double step, double spread) {
  if (spread == 0) return 1;
  const double a = step / spread;
  if (rounding == Rounding::kNearest) return std::erf(a / (2 * std::numbers::sqrt2));
  if (a == 0) return 0;
  return std::erf(a / std::numbers::sqrt2) + std::sqrt(2 / kPi) * std::expm1(-0.5 * a * a) / a;
}

DeadBand dead_band(Format format, MapTable table, double value, double decay, double weight) {
  const auto [below, above] = neighbours_of(format, table, value);
  return {((value + below) / 2 - decay * value) / weight, ((value + above) / 2 - decay * value) / weight};
}

double stuck_value(Format format, MapTable table, double decay) {
  const auto low = [&](double value) { return dead_band(format, table, value, decay, 1).low; };
  double stuck = 0;
  if (format.map == Map::kLinear) {
    for (int code = 1; code <= code_limit(format.bits); ++code) {
      const double edge = 1e-9 * code;  // decay is no binary fraction
      if (low(code) < (code % 2 == 0 ? edge : -edge)) stuck = code;
    }
  } else {
    for (int i = 0; i < table.entries; ++i) {
      if (low(table.values[i]) < 0) stuck = table.values[i];
    }
  }
  return stuck;
}

double step_lengthening(double gap, double decay) {
  // A write moves v = 1 by (1 - decay)(g^2 - 1); its rounding noise, by quadrature over g.
  constexpr double kWidth = 1e-3;
  double noise = 0;
  for (double g = kWidth / 2; g < 8; g += kWidth) {
    const double cells = (1 - decay) * std::abs(g * g - 1) / gap, share = cells - std::floor(cells);
    noise += 2 * kWidth * normal_density(g) * share * (1 - share) * gap * gap;
  }
  return 1 + 0.375 * noise / (1 - decay * decay);
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
  const double kept = beta * (1 + lr * feedback_of(s));  // of a rounding error, a step later: beta, or 1
  return unit * (lr * lr * (gradient + beta * beta * s.momentum_noise) +
                 rounding_noise * ((1 - kept) * (1 - kept) + 2 * kept * pull / (1 + beta)));
}

double floor_growth(double rounding_noise, double update_variance, double momentum) {
  if (rounding_noise == 0) return 1;
  return 1 + rounding_noise / update_variance * (1 - momentum) / (1 + momentum);
}

double fed_back_length(double error, double rate, double momentum) {
  const double share = error / rate * std::sqrt((1 - momentum) / (1 + momentum));
  return share < 1 ? 1 / std::sqrt(1 - share * share) : std::numeric_limits<double>::infinity();
}

Floor quadratic_floor(const QuadraticProblem& s) {
  if (s.quasi && (s.moves > 0 || s.error_feedback)) {
    throw UsageError("the floor of qr is known for a sticky step without error feedback");
  }
  const double lr = s.learning_rate;
  Eigen::Matrix2d a;
  a << 1 - lr * s.curvature, -lr * s.momentum, s.curvature, s.momentum;
  const Eigen::Vector2d input(-lr, 1);
  Eigen::Matrix2d gradient =
      (s.gradient_noise * s.gradient_noise + s.accumulator_noise) * input * input.transpose();
  gradient(1, 1) += s.momentum_noise;
  const Eigen::Vector2d rounding(1, feedback_of(s));
  const Eigen::Matrix2d of_gradient = stationary_covariance(a, gradient);
  const Eigen::Matrix2d of_rounding = stationary_covariance(a, rounding * rounding.transpose());

  Floor floor;
  floor.rounding_noise = s.step * s.step / 6;
  for (int i = 0; i < 200; ++i) {
    const double before = floor.rounding_noise, added = floor.noise_kept * before;
    const Eigen::Matrix2d p = of_gradient + added * of_rounding;
    floor.variance = p(0, 0);
    floor.momentum_spread = std::sqrt(p(1, 1) - s.momentum_noise);
    // The fresh momentum moves x: what rounding x gives back comes after.
    floor.update_spread = lr * std::sqrt(p(1, 1) - s.momentum_noise - before * rounding(1) * rounding(1));
    floor.rounding_noise = s.moves * s.step * s.step / 6 +
                           (1 - s.moves) * grid_error(Rounding::kStochastic, s.step, floor.update_spread);
    if (s.quasi) floor.noise_kept = quasi_noise_kept(s, a, of_rounding, floor);
    if (std::abs(floor.noise_kept * floor.rounding_noise - added) <= 1e-10 * added) break;
  }
  floor.loss = 0.5 * s.curvature * floor.variance;
  floor.underflow = (1 - s.moves) * underflow_share(Rounding::kStochastic, s.step, floor.update_spread);
  return floor;
}

double gradient_bound(const DescentProblem& s) {
  const double n = static_cast<double>(s.elements);
  const double noise = s.gradient_noise;
  const double write = n * s.step * s.step / 4;  // most that rounding all elements once adds
  const auto need = [](bool holds, const char* what) {
    if (!holds) throw UsageError(std::string("gradient_bound: ") + what);
  };
  need(s.learning_rate > 0 && s.smoothness > 0 && s.steps > 0,
       "learning rate, smoothness and steps are above 0");
  need(s.momentum >= 0 && s.momentum < 1, "the momentum is at least 0 and below 1");
  if (s.momentum == 0) {
    need(s.learning_rate * s.smoothness <= 1, "the learning rate is at most 1 / smoothness");
    const double lr = s.learning_rate;
    const double plain = 2 * s.excess / (lr * static_cast<double>(s.steps)) + s.smoothness * lr * noise;
    if (s.moving) return plain + s.smoothness * write / lr;
    // z = sqrt(bound + noise) solves z^2 = plain + noise + L step sqrt(n) z.
    const double slope = s.smoothness * s.step * std::sqrt(n);
    const double z = (slope + std::sqrt(slope * slope + 4 * (plain + noise))) / 2;
    return z * z - noise;
  }
  const double lr = s.learning_rate / (1 - s.momentum);  // of the virtual iterate
  const double pull = lr * s.smoothness;
  const double beta = s.momentum;
  need(4 * pull <= 1 - beta, "the learning rate is at most (1 - momentum)^2 / (4 smoothness)");
  const double apart = (beta * beta * lr * lr * noise + write) / (1 - beta);
  return (2 * s.excess / (lr * static_cast<double>(s.steps)) + pull * noise +
          s.smoothness * s.smoothness * apart) /
         (1 - pull - pull * pull * beta * beta / ((1 - beta) * (1 - beta)));
}

}  // namespace lpmm::theory
