#include "theory/quadratic.h"

#include <cmath>
#include <vector>

#include "kernels/maps.h"
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

QuadraticResult run_quadratic(const QuadraticRun& run, Pool& pool) {
  const auto count = static_cast<std::size_t>(run.blocks) * kBlock;
  const bool pinned = run.motion != GridMotion::kNatural;
  OptimizerConfig optimizer;
  optimizer.settings["momentum"] = run.momentum;
  Policy policy = make_policy("fp32");
  policy.specs[Role::kParameter] = run.parameter;
  policy.specs[Role::kAccumulator] = run.accumulator;
  policy.specs[Role::kMomentum] = run.momentum_state;
  policy.error_feedback = run.error_feedback;
  policy.accumulate_in_momentum = run.accumulate_in_momentum;
  ModelMemory memory({{"x", {run.blocks, kBlock}}}, policy, optimizer, run.seed, run.microbatches, pool);

  // Optima in +-[0.2, 0.6] with the range of a block at 1.
  const auto stream = static_cast<std::uint32_t>(Stream::kTest);
  std::vector<float> optimum(count), start(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Uniforms u = uniforms({run.seed, 1, 0, stream}, static_cast<std::uint32_t>(i));
    optimum[i] = (u.u[0] < 0.5F ? -1.0F : 1.0F) * (0.2F + 0.4F * u.u[1]);
    if (pinned && i % kBlock == 0) optimum[i] = 1;
    start[i] = pinned && i % kBlock == 0 ? 1 : static_cast<float>(run.start) * optimum[i];
  }
  memory.initialize(0, 0, start);

  const double settling = settling_steps(run);
  const auto warm_up = static_cast<std::uint32_t>(std::ceil(6 * settling));
  const auto measured =
      run.steps > 0 ? static_cast<std::uint32_t>(run.steps) : static_cast<std::uint32_t>(8 * settling + 50);
  const kernels::RoleView view = memory.view(0, Role::kParameter);
  const auto blocks = static_cast<std::size_t>(blocks_of(view.elements, view.codec.block));
  std::vector<std::uint16_t> old_steps(view.steps, view.steps + blocks);
  std::vector<float> x(count), xi(count), gradient(count), pin_momentum(count / kBlock),
      pin_gradient(count / kBlock);
  std::vector<float> curvature(count / kBlock);
  for (std::size_t b = 0; b < curvature.size(); ++b)
    curvature[b] = static_cast<float>(curvature_of(run, static_cast<int>(b)));
  const auto sigma = static_cast<float>(run.gradient_noise * std::sqrt(run.microbatches));
  const auto lr = static_cast<float>(run.learning_rate);
  QuadraticResult result;
  double sum = 0, square = 0, loss = 0, step_square = 0;
  std::int64_t free = 0, moved = 0, writes = 0;
  for (std::uint32_t t = 1; t <= warm_up + measured; ++t) {
    const bool measure = t > warm_up;
    memory.decode(0, 0, x);
    for (std::size_t i = 0; i < count; ++i) {
      const bool pin = pinned && i % kBlock == 0;
      const float distance = x[i] - optimum[i];
      if (measure && !pin) {
        sum += distance;
        square += static_cast<double>(distance) * distance;
        loss += 0.5 * curvature[i / kBlock] * distance * distance;
        ++free;
      }
    }
    if (run.motion == GridMotion::kShaken) {
      for (std::size_t b = 0; b < pin_gradient.size(); ++b) {
        const float target =
            1 + 0.4F * uniforms({run.seed, 3, t, stream}, static_cast<std::uint32_t>(b)).u[0];
        const float wanted = (x[b * kBlock] - target) / lr;  // the momentum that moves it there
        pin_gradient[b] = wanted - static_cast<float>(run.momentum) * pin_momentum[b];
        pin_momentum[b] = wanted;
      }
    }
    memory.begin_step(t, measure);
    for (int k = 0; k < run.microbatches; ++k) {
      fill_normal({run.seed, 2, t, stream | static_cast<std::uint32_t>(k) << 4}, xi);
      for (std::size_t i = 0; i < count; ++i) {
        const bool pin = pinned && i % kBlock == 0;
        gradient[i] =
            pin ? pin_gradient[i / kBlock] : curvature[i / kBlock] * (x[i] - optimum[i]) + sigma * xi[i];
      }
      memory.fold(0, 0, gradient, k);
    }
    memory.commit(run.learning_rate);
    for (std::size_t b = 0; b < blocks; ++b) {
      const double step = bf16_to_float(view.steps[b]);
      if (measure) {
        step_square += step * step;
        moved += view.steps[b] != old_steps[b] ? 1 : 0;
        ++writes;
      }
      old_steps[b] = view.steps[b];
    }
  }
  const kernels::ChangeStats stats = memory.take_stats().at(0).role[Role::kParameter];
  const auto n = static_cast<double>(free);
  result.variance = square / n;
  result.loss = loss / n;
  result.bias = sum / n;
  result.step = writes > 0 ? std::sqrt(step_square / static_cast<double>(writes)) : 0;
  result.moves = writes > 0 ? static_cast<double>(moved) / static_cast<double>(writes) : 0;
  result.underflow = stats.increments > 0
                         ? static_cast<double>(stats.underflows) / static_cast<double>(stats.increments)
                         : 0;
  const double independent = n / std::max(1.0, 2 * settling);
  result.error = result.variance * std::sqrt(2 / independent);
  return result;
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
