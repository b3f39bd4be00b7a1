#include "theory/floors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu.h"
#include "kernels/formats/element.h"
#include "kernels/formats/maps.h"
#include "kernels/noise.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/model_memory.h"

namespace lpmm::theory {
namespace {

constexpr Rounding kBoth[] = {Rounding::kNearest, Rounding::kStochastic};

double stored(Format f, Rounding rounding, double x, double step, std::uint32_t draw) {
  const MapTable table = map_table(f);
  const auto s = static_cast<float>(step);
  return decode_code(f, table, encode_value(f, table, rounding, static_cast<float>(x), s, draw), s);
}

// Over all 65,536 draws, so nothing is left to chance.
TEST(Rounding, MomentsAreTheCodecs) {
  constexpr double kStep = 0.25;
  for (const Format f :
       {Format{Map::kLinear, 4}, Format{Map::kDynamic, 8}, Format{Map::kSoftsign, 4},
        Format{Map::kLinearNoZero, 4}, Format{Map::kDynamicUnsigned, 4}, Format{Map::kLinear, 2},
        Format{Map::kSoftsign, 3}, Format{Map::kSquareRoot, 2}, Format{Map::kSquareRoot, 3},
        Format{Map::kSquareRoot, 4}, Format{Map::kSquareRoot, 8}, Format{Map::kDynamicNoZero, 4},
        Format{Map::kDynamicNoZero, 8}}) {
    for (const Rounding rounding : kBoth) {
      for (const double y : {0.003, 0.11, 0.4371, 0.62, 0.99}) {
        const double x = y * map_limit(f) * kStep;
        double sum = 0, square = 0;
        for (std::uint32_t draw = 0; draw < 65536; ++draw) {
          const double error = stored(f, rounding, x, kStep, draw) - x;
          sum += error / 65536;
          square += error * error / 65536;
        }
        const RoundingMoments m = rounding_moments(f, map_table(f), rounding, x, kStep);
        EXPECT_NEAR(m.bias, sum, 2e-5 * kStep) << y;
        EXPECT_NEAR(m.error(), square, 3e-5 * kStep * kStep) << y;
      }
    }
  }
}

TEST(Rounding, GridErrorAndUnderflowAreTheCodecsOnAGrid) {
  constexpr Format kFormat{Map::kLinear, 12};
  constexpr double kStep = 0x1p-5;
  constexpr int kDraws = 200'000;
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  for (const Rounding rounding : kBoth) {
    for (const double spread : {0.01, 0.09, 0.15, 0.4, 1.0, 6.0}) {
      double square = 0;
      int kept = 0;
      for (int i = 0; i < kDraws; ++i) {
        const auto start = static_cast<double>(static_cast<int>(random() % 200) - 100) * kStep;
        const double x = static_cast<float>(start + spread * kStep * normal(random));
        const double s = stored(kFormat, rounding, x, kStep, random() & 0xFFFFU);
        square += (s - x) * (s - x) / kDraws;
        kept += s == start ? 1 : 0;
      }
      const double expected = grid_error(rounding, kStep, spread * kStep);
      EXPECT_NEAR(square, expected, 0.02 * expected) << spread;
      EXPECT_NEAR(static_cast<double>(kept) / kDraws, underflow_share(rounding, kStep, spread * kStep), 0.005)
          << spread;
    }
  }
}

// Updates of two writes from grid points, with the draws that one element takes in them.
TEST(Rounding, QuasiCovarianceIsTheCodecs) {
  constexpr Format kFormat{Map::kLinear, 12};
  constexpr double kStep = 0x1p-5;
  constexpr int kDraws = 200'000;
  std::mt19937 random(4);
  std::normal_distribution<double> normal;
  Noise first;
  first.stream = noise_stream(Role::kParameter);
  for (const double spread : {0.02, 0.3, 1.5}) {
    for (const double correlation : {0.0, 0.5, 0.95}) {
      for (const std::uint32_t lag : {1U, 2U, 3U, 7U, 64U}) {
        Noise second = first;
        second.step = first.step + lag;
        double sum = 0;
        for (int i = 0; i < kDraws; ++i) {
          const double a = normal(random);
          const double b = correlation * a + std::sqrt(1 - correlation * correlation) * normal(random);
          const auto error = [&](double update, const Noise& noise) {
            const double x = static_cast<float>(spread * kStep * update);
            return stored(kFormat, Rounding::kQuasiStochastic, x, kStep,
                          rounding_draw(quasi_noise(noise), i)) -
                   x;
          };
          sum += error(a, first) * error(b, second) / kDraws;
        }
        const double variance = grid_error(Rounding::kQuasiStochastic, kStep, spread * kStep);
        EXPECT_NEAR(sum / variance, quasi_covariance(kStep, spread * kStep, correlation, lag) / variance,
                    0.03)
            << spread << " " << correlation << " " << lag;
      }
    }
    EXPECT_NEAR(quasi_covariance(kStep, spread * kStep, 1, 0),
                grid_error(Rounding::kStochastic, kStep, spread * kStep), 1e-12);
  }
}

// However small updates are beside the step: step * E|x| - E x^2, and E x^2.
TEST(Rounding, GridErrorOfTinyUpdates) {
  for (const double spread : {1e-3, 1e-9, 1e-17}) {
    const double mean = spread * std::sqrt(2 / std::numbers::pi);
    EXPECT_NEAR(grid_error(Rounding::kStochastic, 1, spread) / (mean - spread * spread), 1, 1e-6) << spread;
    EXPECT_NEAR(grid_error(Rounding::kNearest, 1, spread) / (spread * spread), 1, 1e-6) << spread;
    EXPECT_NEAR(quasi_share(1, spread, 0), std::sqrt(0.5), 1e-3) << spread;
  }
}

TEST(Rounding, MapErrorOfALinearMapIsTheGrids) {
  constexpr Format kInt8{Map::kLinear, 8};
  for (const Rounding rounding : kBoth) {
    const double wide = rounding == Rounding::kStochastic ? 1.0 / 6 : 1.0 / 12;
    EXPECT_NEAR(map_error(kInt8, {}, rounding, 0.5, 10), 0.25 * wide, 0.002);
  }
  const Format de8{Map::kDynamic, 8};
  std::mt19937 random(2);
  std::normal_distribution<double> normal(0, 0.3);
  double square = 0;
  int count = 0;
  for (int i = 0; i < 200'000; ++i) {
    const double x = static_cast<float>(normal(random));
    if (std::abs(x) > 1) continue;
    const double s = stored(de8, Rounding::kStochastic, x, 1, random() & 0xFFFFU);
    square += (s - x) * (s - x);
    ++count;
  }
  EXPECT_NEAR(map_error(de8, map_table(de8), Rounding::kStochastic, 1, 0.3) * count / square, 1, 0.02);
}

TEST(Rounding, LargestOfNormals) {
  EXPECT_NEAR(expected_square_of_largest(1), 1, 1e-4);
  EXPECT_NEAR(expected_square_of_largest(2), 1 + 2 / std::numbers::pi, 1e-4);
}

// For every value of a map: inputs just inside the band leave it, just outside they do not.
TEST(DeadBand, IsTheCodecs) {
  for (const Format f :
       {Format{Map::kLinear, 4}, Format{Map::kLinear, 8}, Format{Map::kSoftsign, 4}, Format{Map::kDynamic, 4},
        Format{Map::kDynamicNoZero, 8}, Format{Map::kLinearNoZero, 4}, Format{Map::kSquareRoot, 4}}) {
    const MapTable table = map_table(f);
    for (int code = 0; code < 1 << f.bits; ++code) {
      const int signed_code = has_signed_codes(f.map) ? code - code_limit(f.bits) : code;
      if (has_signed_codes(f.map) && signed_code > code_limit(f.bits)) continue;
      const double value = decode_code(f, table, signed_code, 1.0F);
      if (f.map == Map::kDynamic && value == 0 && code == 0) continue;
      for (const auto& [decay, weight] : {std::pair{0.9, 1.0}, std::pair{0.99, 0.01}}) {
        const DeadBand band = dead_band(f, table, value, decay, weight);
        ASSERT_LT(band.low, band.high);
        const double width = std::isfinite(band.low) && std::isfinite(band.high) ? band.high - band.low : 0.1;
        const auto next = [&, decay = decay, weight = weight](double x) {
          return stored(f, Rounding::kNearest, decay * value + weight * x, 1, kNearestDraw);
        };
        if (std::isfinite(band.low)) {
          EXPECT_EQ(next(band.low + 0.02 * width), value) << code;
          EXPECT_LT(next(band.low - 0.02 * width), value) << code;
        }
        if (std::isfinite(band.high)) {
          EXPECT_EQ(next(band.high - 0.02 * width), value) << code;
          EXPECT_GT(next(band.high + 0.02 * width), value) << code;
        }
      }
    }
  }
}

// A state without input decays by rn until it sticks.
TEST(DeadBand, WhereDecayStops) {
  EXPECT_EQ(stuck_value({Map::kLinear, 8}, {}, 0.9), 4);
  EXPECT_EQ(stuck_value({Map::kLinear, 8}, {}, 0.99), 50);
  EXPECT_EQ(stuck_value({Map::kLinear, 12}, {}, 0.999), 500);
  for (const Format f : {Format{Map::kLinear, 8}, Format{Map::kDynamic, 8}, Format{Map::kSoftsign, 8},
                         Format{Map::kSquareRoot, 8}, Format{Map::kDynamicUnsigned, 8}}) {
    for (const double decay : {0.52, 0.9, 0.99}) {
      const MapTable table = map_table(f);
      double value = map_limit(f), before = 0;
      do {
        before = value;
        value = stored(f, Rounding::kNearest, decay * value, 1, kNearestDraw);
      } while (value != before);
      EXPECT_EQ(value, stuck_value(f, table, decay)) << decay;
    }
  }
}

// Against the folds of a packed accumulator.
TEST(FoldNoise, IsTheAccumulators) {
  constexpr int kElements = 64 * 128;
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  CpuDevice device(1);
  for (const char* spec : {"int8:block128:sr", "int4:block128:sr", "soft4:block128:sr", "int8:block64:sr"}) {
    for (const int folds : {1, 4, 16}) {
      for (const auto& [mean_spread, noise_spread] :
           {std::pair{0.0F, 1.0F}, std::pair{1.0F, 0.0F}, std::pair{1.0F, 2.0F}}) {
        Policy policy = make_policy("fp32");
        policy.specs[Role::kAccumulator] = parse_spec(spec);
        OptimizerConfig sgd;
        sgd.rule = "sgd";
        ModelMemory memory({{"w", {64, 128}}}, policy, sgd, 7, folds, device);
        std::vector<float> mean(kElements), gradient(kElements), result(kElements);
        std::vector<double> exact(kElements);
        for (float& x : mean) x = mean_spread * normal(random);
        memory.initialize(0, 0, result);
        Step this_step = memory.begin_step({1, 1});
        for (int k = 0; k < folds; ++k) {
          for (std::size_t i = 0; i < kElements; ++i) {
            gradient[i] = mean[i] + noise_spread * normal(random);
            exact[i] += static_cast<double>(gradient[i]) / folds;
          }
          this_step.fold(0, 0, gradient, static_cast<std::uint32_t>(k));
        }
        std::move(this_step).commit();  // x = -accumulator
        memory.decode(0, 0, result);
        double square = 0;
        for (std::size_t i = 0; i < kElements; ++i) square += std::pow(result[i] + exact[i], 2) / kElements;
        const Codec codec = parse_spec(spec);
        const double expected = fold_noise(codec, map_table(codec.format), folds, mean_spread, noise_spread);
        // Gradients that are all alike make the step grow as they do, and codes hardly change: less noise.
        const std::string at = fmt::format("{} {} {} {}", spec, folds, mean_spread, noise_spread);
        EXPECT_GT(square / expected, noise_spread > 0 ? 0.85 : 0.1) << at;
        EXPECT_LT(square / expected, 1.15) << at;
      }
    }
  }
}

TEST(Floor, LyapunovEquation) {
  Eigen::Matrix2d a;
  a << 0.7, -0.4, 0.5, 0.6;
  const Eigen::Matrix2d q = (Eigen::Matrix2d() << 2, 0.3, 0.3, 1).finished();
  const Eigen::MatrixXd p = stationary_covariance(a, q);
  EXPECT_LT((p - a * p * a.transpose() - q).norm(), 1e-12);
  EXPECT_THROW(stationary_covariance(Eigen::Matrix2d::Identity(), q), UsageError);
  EXPECT_THROW(stationary_covariance(a, Eigen::MatrixXd::Identity(3, 3)), UsageError);
}

TEST(Floor, ClosedFormIsTheLyapunovSolution) {
  for (const double momentum : {0.0, 0.5, 0.9, 0.99}) {
    for (const double lr : {0.001, 0.03, 0.4}) {
      const QuadraticProblem p{.curvature = 2,
                               .gradient_noise = 0.7,
                               .learning_rate = lr,
                               .momentum = momentum,
                               .step = 0.05,
                               .moves = 0.3,
                               .momentum_noise = 0.2,
                               .accumulator_noise = 0.1};
      const Floor f = quadratic_floor(p);
      EXPECT_NEAR(floor_variance(p, f.rounding_noise), f.variance, 1e-9 * f.variance);
      if (momentum == 0) continue;
      QuadraticProblem fed = p;
      fed.error_feedback = true;
      const Floor g = quadratic_floor(fed);
      EXPECT_NEAR(floor_variance(fed, g.rounding_noise), g.variance, 1e-9 * g.variance);
    }
  }
  QuadraticProblem without_momentum{.step = 0.05};
  without_momentum.error_feedback = true;
  EXPECT_THROW(quadratic_floor(without_momentum), UsageError);
}

// At learning rates that are small beside 1 / curvature, whatever the momentum.
TEST(Floor, GrowthByRounding) {
  for (const double momentum : {0.0, 0.9}) {
    QuadraticProblem p{.learning_rate = 1e-4 * (1 - momentum), .momentum = momentum};
    const double without = quadratic_floor(p).variance;
    for (const double step : {1e-5, 1e-4, 1e-3}) {
      p.step = step;
      const Floor f = quadratic_floor(p);
      const double growth = floor_growth(f.rounding_noise, f.update_spread * f.update_spread, momentum);
      EXPECT_NEAR(growth, f.variance / without, 0.02 * growth) << momentum << " " << step;
      EXPECT_GT(growth, 1.0);
    }
  }
  EXPECT_EQ(floor_growth(0, 0, 0.9), 1);
}

// If updates are noise and far below a step, draws that keep their distance leave 1 / sqrt(2) of the floor;
// with momentum less, as long as its memory outlasts the pause between two moves.
TEST(Floor, OfQuasiStochasticRounding) {
  QuadraticProblem p{.learning_rate = 1e-4, .step = 0.05};
  const double independent = quadratic_floor(p).variance;
  p.quasi = true;
  EXPECT_NEAR(quadratic_floor(p).variance / independent, std::sqrt(0.5), 0.02);
  for (const double momentum : {0.0, 0.9}) {
    p.momentum = momentum;
    p.learning_rate = 1e-5;
    for (const double step : {1e-3, 1e-4, 2e-5}) {  // updates of a hundredth of a step to more than one
      p.step = step;
      const Floor f = quadratic_floor(p);
      EXPECT_NEAR(quasi_share(step, f.update_spread, momentum), f.noise_kept, 0.02)
          << momentum << " " << step;
    }
  }
  EXPECT_LT(quasi_share(1, 0.1, 0.9), 0.35);
  EXPECT_THROW(quasi_share(1, 0.1, 1), UsageError);
  EXPECT_EQ(quasi_covariance(1, 0.3, 0.5, -3), quasi_covariance(1, 0.3, 0.5, 3));
  // Updates beyond a step, whose noise stands still at once: what is kept of it is in the variance.
  p = {.learning_rate = 0.1, .quasi = true};
  const double without = quadratic_floor(p).variance;
  p.step = 0.07;
  const Floor f = quadratic_floor(p);
  EXPECT_GT(f.update_spread, 1.2 * p.step);
  EXPECT_NEAR(f.variance, without + f.noise_kept * f.rounding_noise / (2 * 0.1 - 0.01), 1e-9);
  p.moves = 0.1;
  EXPECT_THROW(quadratic_floor(p), UsageError);
  p.moves = 0;
  p.error_feedback = true;
  EXPECT_THROW(quadratic_floor(p), UsageError);
}

// Independent simulations in double precision: h = 1, sigma = 1, step 0.05.
TEST(Floor, KnownSimulations) {
  QuadraticProblem p{.curvature = 1, .gradient_noise = 1, .learning_rate = 0.003, .step = 0.05};
  EXPECT_NEAR(quadratic_floor(p).variance, 0.0202, 0.0002);
  p.learning_rate = 0.01;
  EXPECT_NEAR(quadratic_floor(p).variance, 0.0202, 0.0002);
  p.learning_rate = 0.003;
  p.moves = 1;
  EXPECT_NEAR(quadratic_floor(p).variance, 0.0720, 0.0015);
  p.learning_rate = 0.001;
  p.momentum = 0.9;
  EXPECT_NEAR(quadratic_floor(p).variance, 0.0277, 0.0003);
  p.moves = 0;
  EXPECT_NEAR(quadratic_floor(p).variance, 0.0098, 0.0002);
}

// The recursion itself, with the codec's rounding written out and noise in momentum and accumulator.
TEST(Floor, MatchesSimulation) {
  constexpr int kElements = 1000;
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  for (const double step : {0.02, 0.2, 1.0}) {  // updates from far below a step to about one
    for (const double momentum : {0.0, 0.9}) {
      for (const auto& [moves, feedback] :
           {std::pair{0.0, false}, std::pair{0.5, false}, std::pair{1.0, false}, std::pair{0.0, true},
            std::pair{0.5, true}, std::pair{1.0, true}}) {
        if (feedback && momentum == 0) continue;
        const QuadraticProblem p{.curvature = 1.5,
                                 .gradient_noise = 0.8,
                                 .learning_rate = 0.02,
                                 .momentum = momentum,
                                 .step = step,
                                 .moves = moves,
                                 .momentum_noise = momentum > 0 ? 0.5 : 0.0,
                                 .accumulator_noise = 0.1,
                                 .error_feedback = feedback};
        double variance = 0, kept = 0;
        int samples = 0;
        for (int i = 0; i < kElements; ++i) {
          const double optimum = uniform(random) * step;
          double x = 0, m = 0, offset = 0;
          for (int t = 0; t < 500; ++t) {
            const double g = p.curvature * (x - optimum) + p.gradient_noise * normal(random) +
                             std::sqrt(p.accumulator_noise) * normal(random);
            m = momentum * m + g;
            const bool moved = uniform(random) < moves;
            if (moved) offset = uniform(random) * step;
            const double wanted = x - p.learning_rate * m;
            const double next = offset + step * std::floor((wanted - offset) / step + uniform(random));
            if (t >= 250) {
              kept += !moved && std::abs(next - x) < 1e-9 ? 1 : 0;
              variance += (next - optimum) * (next - optimum);
              ++samples;
            }
            if (feedback) m += (1 / momentum - 1) / p.learning_rate * (next - wanted);
            x = next;
            m += std::sqrt(p.momentum_noise) * normal(random);
          }
        }
        const Floor f = quadratic_floor(p);
        const std::string at = fmt::format("{} {} {} {}", step, momentum, moves, feedback);
        // The error that comes back through feedback is no more Gaussian than the cells it comes from.
        EXPECT_NEAR(variance / samples / f.variance, 1, feedback ? 0.09 : 0.06) << at;
        EXPECT_NEAR(kept / samples, f.underflow, 0.02) << at;
      }
    }
  }
}

TEST(GradientBound, FallsToWhatTheGridLeaves) {
  DescentProblem p{.gradient_noise = 2, .learning_rate = 0.1, .step = 0.01, .elements = 100, .steps = 1};
  const double early = gradient_bound(p);
  p.steps = std::int64_t{1} << 50;
  EXPECT_LT(gradient_bound(p), early);
  // A sticky grid leaves L step sqrt(n) z however small the rate; a moving one more, the smaller the rate is.
  p.learning_rate = 1e-9;
  const double plateau = gradient_bound(p);
  EXPECT_NEAR(plateau, 0.1 * std::sqrt(plateau + 2), 1e-3);
  p.moving = true;
  EXPECT_GT(gradient_bound(p), 1e5);
  // With error feedback the rest goes with the square of the step, and does not depend on the rate.
  p.momentum = 0.9;
  EXPECT_NEAR(gradient_bound(p), 100 * 0.01 * 0.01 / 4 / 0.1, 1e-3);
  EXPECT_LT(gradient_bound(p), plateau);
}

TEST(GradientBound, RefusesWhatItDoesNotCover) {
  const DescentProblem good{.learning_rate = 0.5, .elements = 1, .steps = 1};
  EXPECT_GT(gradient_bound(good), 0);
  DescentProblem p = good;
  p.learning_rate = 1.1;
  EXPECT_THROW(gradient_bound(p), UsageError);
  p = good;
  p.momentum = 0.9;
  EXPECT_THROW(gradient_bound(p), UsageError);
  p.learning_rate = 0.002;
  EXPECT_GT(gradient_bound(p), 0);
  p.momentum = 1;
  EXPECT_THROW(gradient_bound(p), UsageError);
  p = good;
  p.steps = 0;
  EXPECT_THROW(gradient_bound(p), UsageError);
}

// Length of u over what it is without feedback, in steps whose length is fixed; the mean over the last half.
double measured_length(double error, double rate, double beta, int steps) {
  constexpr int kElements = 2000;
  constexpr double kSize = 3;  // |p|, which stays
  std::mt19937 random(1);
  std::normal_distribution<double> normal(0, 1 / std::sqrt(kElements));
  std::vector<double> u(kElements), plain(kElements);
  double length = 0, usual = 0;
  for (int s = 0; s < steps; ++s) {
    double squares = 0, of_plain = 0;
    for (std::size_t i = 0; i < u.size(); ++i) {
      const double g = normal(random);
      u[i] = beta * u[i] + (1 - beta) * g;
      plain[i] = beta * plain[i] + (1 - beta) * g;
      squares += u[i] * u[i];
      of_plain += plain[i] * plain[i];
    }
    if (2 * s >= steps) length += squares, usual += of_plain;
    const double moved = rate * kSize / std::sqrt(squares) * beta / (1 - beta);
    for (double& x : u) x -= error * kSize * normal(random) / moved;
  }
  return std::sqrt(length / usual);
}

TEST(FixedSteps, FeedbackMakesTheMomentumLonger) {
  for (const double beta : {0.5, 0.9}) {
    const double most = std::sqrt((1 + beta) / (1 - beta));  // limit of the error over the rate
    for (const double share : {0.3, 0.7}) {
      const double expected = fed_back_length(share * most * 1e-3, 1e-3, beta);
      EXPECT_NEAR(expected, 1 / std::sqrt(1 - share * share), 1e-9);
      EXPECT_NEAR(measured_length(share * most * 1e-3, 1e-3, beta, 600), expected, 0.05 * expected) << beta;
    }
    EXPECT_TRUE(std::isinf(fed_back_length(1.3 * most * 1e-3, 1e-3, beta)));
    EXPECT_GT(measured_length(1.3 * most * 1e-3, 1e-3, beta, 600), 100) << beta;
  }
}

}  // namespace
}  // namespace lpmm::theory
