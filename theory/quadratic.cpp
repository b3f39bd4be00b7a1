#include "theory/quadratic.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/formats/maps.h"
#include "lpmm/memory/model_memory.h"
#include "theory/draws.h"

namespace lpmm::theory {
namespace {

constexpr int kBlock = 128;

double curvature_of(const QuadraticRun& run, int block) {
  return run.blocks == 1 ? run.curvature
                         : run.curvature * std::pow(run.condition, -block / (run.blocks - 1.0));
}

Floor predict(const QuadraticRun& run, const QuadraticResult& result, double curvature) {
  QuadraticProblem problem{.curvature = curvature,
                           .gradient_noise = run.gradient_noise,
                           .learning_rate = run.learning_rate,
                           .momentum = run.momentum,
                           .step = result.step,
                           .moves = result.moves,
                           .error_feedback = run.error_feedback,
                           .quasi = run.parameter.rounding == Rounding::kQuasiStochastic};
  if (run.accumulate_in_momentum) {
    // A fold's rounding error is part of what moves x, and as large as a momentum's that holds such errors.
    // Before the first fold its variance is beta^2 of that after the last.
    const double folds = run.microbatches;
    const double share = 1 - (1 - run.momentum * run.momentum) * (folds - 1) / (2 * folds);
    for (int i = 0; i < 50; ++i) {
      problem.accumulator_noise = folds * share *
                                  state_noise(run.momentum_state, map_table(run.momentum_state.format),
                                              quadratic_floor(problem).momentum_spread);
    }
    return quadratic_floor(problem);
  }
  const double gradient = std::sqrt(run.gradient_noise * run.gradient_noise +
                                    curvature * curvature * quadratic_floor(problem).variance);
  problem.accumulator_noise = state_noise(run.accumulator, map_table(run.accumulator.format), gradient);
  if (run.momentum != 0) {
    problem.momentum_noise = state_noise(run.momentum_state, map_table(run.momentum_state.format),
                                         quadratic_floor(problem).momentum_spread);
  }
  return quadratic_floor(problem);
}

bool is_pin(const QuadraticRun& run, std::size_t i) {
  return run.motion != GridMotion::kNatural && i % kBlock == 0;
}

constexpr auto kStream = static_cast<std::uint32_t>(Stream::kTest);

ModelMemory memory_of(const QuadraticRun& run, Device& device) {
  OptimizerConfig optimizer;
  optimizer.settings["momentum"] = run.momentum;
  Policy policy = make_policy(kPlainPreset);
  policy.specs[Role::kParameter] = run.parameter;
  policy.specs[Role::kAccumulator] = run.accumulator;
  policy.specs[Role::kMomentum] = run.momentum_state;
  policy.error_feedback = run.error_feedback;
  policy.accumulate_in_momentum = run.accumulate_in_momentum;
  return {{{"x", {run.blocks, kBlock}}}, policy, optimizer, run.seed, run.microbatches, device};
}

// Optima in +-[0.2, 0.6] with the range of a block at 1.
std::vector<float> optima_of(const QuadraticRun& run) {
  std::vector<float> optimum(static_cast<std::size_t>(run.blocks) * kBlock);
  for (std::size_t i = 0; i < optimum.size(); ++i) {
    const Uniforms u = uniforms({run.seed, 1, 0, kStream}, static_cast<std::uint32_t>(i));
    optimum[i] = (u.u[0] < 0.5F ? -1.0F : 1.0F) * (0.2F + 0.4F * u.u[1]);
    if (is_pin(run, i)) optimum[i] = 1;
  }
  return optimum;
}

// One training: the optima, the values, and what moves the pins of a shaken grid.
class Training {
 public:
  Training(const QuadraticRun& run, Device& device)
      : run_(run), memory_(memory_of(run, device)), optimum_(optima_of(run)), x_(optimum_.size()) {
    for (std::size_t i = 0; i < x_.size(); ++i)
      x_[i] = is_pin(run, i) ? 1 : static_cast<float>(run.start) * optimum_[i];
    memory_.initialize(0, 0, x_);
    for (int b = 0; b < run.blocks; ++b) curvature_.push_back(static_cast<float>(curvature_of(run, b)));
    pin_momentum_.resize(curvature_.size());
    pin_gradient_.resize(curvature_.size());
  }
  ModelMemory& memory() { return memory_; }
  const std::vector<float>& optimum() const { return optimum_; }
  const std::vector<float>& curvature() const { return curvature_; }
  const std::vector<float>& decode() {
    memory_.decode(0, 0, x_);
    return x_;
  }

  // Takes a step from the values that decode() gave last.
  void step(std::uint32_t t, bool measure) {
    if (run_.motion == GridMotion::kShaken) aim_pins(t);
    const auto sigma = static_cast<float>(run_.gradient_noise * std::sqrt(run_.microbatches));
    std::vector<float> xi(x_.size()), gradient(x_.size());
    Step step = memory_.begin_step({.step = t, .learning_rate = run_.learning_rate, .want_stats = measure});
    for (int k = 0; k < run_.microbatches; ++k) {
      fill_normal({run_.seed, 2, t, kStream | static_cast<std::uint32_t>(k) << 4}, xi);
      for (std::size_t i = 0; i < x_.size(); ++i) {
        gradient[i] = is_pin(run_, i) ? pin_gradient_[i / kBlock]
                                      : curvature_[i / kBlock] * (x_[i] - optimum_[i]) + sigma * xi[i];
      }
      step.fold(0, 0, gradient, k);
    }
    std::move(step).commit();
  }

 private:
  void aim_pins(std::uint32_t t) {
    for (std::size_t b = 0; b < pin_gradient_.size(); ++b) {
      const float target =
          1 + 0.4F * uniforms({run_.seed, 3, t, kStream}, static_cast<std::uint32_t>(b)).u[0];
      // The momentum that moves it there.
      const float wanted = (x_[b * kBlock] - target) / static_cast<float>(run_.learning_rate);
      pin_gradient_[b] = wanted - static_cast<float>(run_.momentum) * pin_momentum_[b];
      pin_momentum_[b] = wanted;
    }
  }

  const QuadraticRun& run_;
  ModelMemory memory_;
  std::vector<float> optimum_, x_, curvature_, pin_momentum_, pin_gradient_;
};

// Sums over the steps that are measured: of distances to the optima, and of the steps of blocks.
struct MeasuredSums {
  double distance = 0, square = 0, loss = 0, step_square = 0;
  std::int64_t free = 0, moved = 0, writes = 0;

  void add_values(const QuadraticRun& run, const Training& training, const std::vector<float>& x) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (is_pin(run, i)) continue;
      const float d = x[i] - training.optimum()[i];
      distance += d;
      square += static_cast<double>(d) * d;
      loss += 0.5 * training.curvature()[i / kBlock] * d * d;
      ++free;
    }
  }
  void add_steps(const std::vector<std::uint16_t>& before, const std::uint16_t* after) {
    for (std::size_t b = 0; b < before.size(); ++b) {
      const double step = bf16_to_float(after[b]);
      step_square += step * step;
      moved += after[b] != before[b] ? 1 : 0;
      ++writes;
    }
  }
};

QuadraticResult result_of(const MeasuredSums& sums, const kernels::ChangeStats& stats, double settling) {
  QuadraticResult result;
  const auto n = static_cast<double>(sums.free), writes = static_cast<double>(sums.writes);
  result.variance = sums.square / n;
  result.loss = sums.loss / n;
  result.bias = sums.distance / n;
  result.step = sums.writes > 0 ? std::sqrt(sums.step_square / writes) : 0;
  result.moves = sums.writes > 0 ? static_cast<double>(sums.moved) / writes : 0;
  result.underflow = stats.increments > 0
                         ? static_cast<double>(stats.underflows) / static_cast<double>(stats.increments)
                         : 0;
  const double independent = n / std::max(1.0, 2 * settling);
  result.error = result.variance * std::sqrt(2 / independent);
  return result;
}

}  // namespace

double settling_steps(const QuadraticRun& run) {
  const double pull = run.learning_rate * run.curvature / run.condition;
  const double beta = run.momentum;
  // The slowest pole of (x, m); its square is the variance's.
  const double trace = 1 - pull + beta;
  const double discriminant = trace * trace - 4 * beta;
  const double radius = discriminant >= 0 ? (std::abs(trace) + std::sqrt(discriminant)) / 2 : std::sqrt(beta);
  return -1 / (2 * std::log(radius));
}

QuadraticResult run_quadratic(const QuadraticRun& run, Device& device) {
  Training training(run, device);
  const double settling = settling_steps(run);
  const auto warm_up = static_cast<std::uint32_t>(std::ceil(6 * settling));
  const auto measured =
      run.steps > 0 ? static_cast<std::uint32_t>(run.steps) : static_cast<std::uint32_t>(8 * settling + 50);
  const kernels::RoleView view = training.memory().view(0, Role::kParameter);
  const auto blocks = static_cast<std::size_t>(blocks_of(view.elements, view.codec.block));
  std::vector<std::uint16_t> before(view.steps, view.steps + blocks);
  MeasuredSums sums;
  for (std::uint32_t t = 1; t <= warm_up + measured; ++t) {
    const bool measure = t > warm_up;
    const std::vector<float>& x = training.decode();
    if (measure) sums.add_values(run, training, x);
    training.step(t, measure);
    if (measure) sums.add_steps(before, view.steps);
    before.assign(view.steps, view.steps + blocks);
  }
  return result_of(sums, training.memory().take_stats().at(0).role[Role::kParameter], settling);
}

Floor predict(const QuadraticRun& run, const QuadraticResult& result) {
  if (run.condition == 1) return predict(run, result, run.curvature);
  constexpr double Floor::*kFields[] = {
      &Floor::variance,  &Floor::loss,          &Floor::rounding_noise,  &Floor::noise_kept,
      &Floor::underflow, &Floor::update_spread, &Floor::momentum_spread,
  };
  Floor mean;
  for (const auto field : kFields) mean.*field = 0;
  for (int b = 0; b < run.blocks; ++b) {
    const Floor floor = predict(run, result, curvature_of(run, b));
    for (const auto field : kFields) mean.*field += floor.*field / run.blocks;
  }
  return mean;
}

}  // namespace lpmm::theory
