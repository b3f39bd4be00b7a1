#include "theory/quadratic.h"
#include "kernels/cpu.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace lpmm::theory {
namespace {

Spec int_spec(int bits, StepMode mode) {
  return {{Map::kLinear, static_cast<std::uint8_t>(bits)}, 128, Rounding::kStochastic, mode};
}

// A short run at a rate that is `lr` without momentum and acts like it with one of 0.9.
QuadraticRun short_run(int bits, StepMode mode, double lr, double momentum) {
  QuadraticRun run;
  run.parameter = int_spec(bits, mode);
  run.blocks = 8;
  run.learning_rate = momentum == 0 ? lr : lr / 10;
  run.momentum = momentum;
  return run;
}

std::string cell(const QuadraticRun& run, const QuadraticResult& r, const Floor& f) {
  return to_string(run.parameter) + ", " + to_string(run.momentum_state) + " lr " +
         std::to_string(run.learning_rate) + " momentum " + std::to_string(run.momentum) + ": measured " +
         std::to_string(r.variance) + " +- " + std::to_string(r.error) + ", predicted " +
         std::to_string(f.variance) + ", underflow " + std::to_string(r.underflow) + " and " +
         std::to_string(f.underflow) + ", moves " + std::to_string(r.moves);
}

// `underflow`: how near its share is.
void expect_predicted(const QuadraticRun& run, double tolerance = 0.1, double underflow = 0.02) {
  CpuDevice device(2);
  const QuadraticResult r = run_quadratic(run, device);
  const Floor f = predict(run, r);
  EXPECT_NEAR(r.variance / f.variance, 1, tolerance) << cell(run, r, f);
  EXPECT_NEAR(r.underflow, f.underflow, underflow) << cell(run, r, f);
}

// Mean of |grad f|^2 over a run that starts where it ends, and the theorems' bound of it.
struct Gradients {
  double measured, bound;
};
Gradients gradients_of(const QuadraticRun& run, Device& device) {
  const QuadraticResult r = run_quadratic(run, device);
  const double elements = run.blocks * 127;
  return {run.curvature * run.curvature * r.variance * elements,
          gradient_bound({.smoothness = run.curvature,
                          .excess = run.curvature * r.variance * elements / 2,
                          .gradient_noise = run.gradient_noise * run.gradient_noise * elements,
                          .learning_rate = run.learning_rate,
                          .momentum = run.momentum,
                          .step = r.step,
                          .elements = run.blocks * 127,
                          .steps = static_cast<std::int64_t>(8 * settling_steps(run) + 50),
                          .moving = run.parameter.step_mode == StepMode::kMoving})};
}

TEST(QuadraticTest, StickyStepIsPredicted) {
  for (const int bits : {4, 6, 8, 12}) {
    for (const double lr : {0.1, 0.01}) {
      for (const double momentum : {0.0, 0.9}) {
        const QuadraticRun run = short_run(bits, StepMode::kSticky, lr, momentum);
        // The two codes around the optimum are all there is here, so updates are not Gaussian.
        const bool lattice = bits == 4 && momentum != 0 && lr < 0.1;
        expect_predicted(run, lattice ? 0.2 : 0.1);
      }
    }
  }
}

// Curvatures from 4 to a quarter: flat directions make most of the variance, the loss is of all.
TEST(QuadraticTest, ASpectrumOfCurvaturesIsPredicted) {
  CpuDevice device(2);
  for (const Rounding rounding : {Rounding::kStochastic, Rounding::kQuasiStochastic}) {
    for (const int bits : {6, 8}) {
      for (const double momentum : {0.0, 0.9}) {
        QuadraticRun run = short_run(bits, StepMode::kSticky, 0.05, momentum);
        run.parameter.rounding = rounding;
        run.curvature = 4;
        run.condition = 16;
        run.gradient_noise = 0.2;
        const QuadraticResult r = run_quadratic(run, device);
        const Floor f = predict(run, r);
        EXPECT_NEAR(r.variance / f.variance, 1, 0.1) << cell(run, r, f);
        EXPECT_NEAR(r.loss / f.loss, 1, 0.1) << cell(run, r, f);
        EXPECT_NEAR(r.underflow, f.underflow, 0.02) << cell(run, r, f);
      }
    }
  }
}

TEST(QuadraticTest, QuasiStochasticRoundingIsPredicted) {
  for (const int bits : {4, 6, 8, 12}) {
    for (const double lr : {0.1, 0.01}) {
      for (const double momentum : {0.0, 0.9}) {
        if (bits == 4 && momentum != 0) continue;  // up to a third above: theory/README.md 5
        QuadraticRun run = short_run(bits, StepMode::kSticky, lr, momentum);
        run.parameter.rounding = Rounding::kQuasiStochastic;
        expect_predicted(run, bits == 4 ? 0.15 : 0.1);  // twelve seeds: 7 % above, with a spread of 2 %
      }
    }
  }
}

TEST(QuadraticTest, MovingStepIsPredicted) {
  for (const int bits : {6, 8, 12}) {
    for (const double lr : {0.1, 0.01}) {
      for (const double momentum : {0.0, 0.9}) {
        QuadraticRun run = short_run(bits, StepMode::kMoving, lr, momentum);
        run.motion = GridMotion::kShaken;
        expect_predicted(run);
      }
    }
  }
}

TEST(QuadraticTest, PackedMomentumAndAccumulatorArePredicted) {
  for (const char* state : {"int4:block128:sr", "int8:block128:sr", "soft4:block128:sr", "de8:block128:rn"}) {
    QuadraticRun run;
    run.parameter = int_spec(8, StepMode::kSticky);
    run.blocks = 8;
    run.learning_rate = 0.02;
    run.momentum = 0.9;
    run.accumulator = parse_spec("int4:block128:sr");
    run.momentum_state = parse_spec(state);
    expect_predicted(run);
  }
}

// The update that moves x is as it is stored: with few codes many updates are exactly 0, which counts as
// none.
TEST(QuadraticTest, GradientsInTheMomentumArePredicted) {
  for (const char* state : {"int4:block128:sr", "int8:block128:sr", "soft4:block128:sr", "fp32"}) {
    for (const int microbatches : {1, 2}) {
      QuadraticRun run;
      run.parameter = int_spec(8, StepMode::kSticky);
      run.blocks = 8;
      run.learning_rate = 0.02;
      run.momentum = 0.9;
      run.momentum_state = parse_spec(state);
      run.accumulate_in_momentum = true;
      run.microbatches = microbatches;
      expect_predicted(run, 0.05, run.momentum_state.format.bits == 4 ? 0.1 : 0.02);
    }
  }
}

TEST(QuadraticTest, ErrorFeedbackIsPredicted) {
  for (const int bits : {4, 6, 8}) {
    for (const char* state : {"fp32", "int8:block128:sr", "soft4:block128:sr"}) {
      QuadraticRun run;
      run.parameter = int_spec(bits, StepMode::kSticky);
      run.blocks = 8;
      run.learning_rate = 0.005;
      run.momentum = 0.9;
      run.momentum_state = parse_spec(state);
      run.error_feedback = true;
      expect_predicted(run, bits == 4 ? 0.15 : 0.1);  // at 4 bits updates are lattice noise, not Gaussian
    }
  }
}

// The error fed back fills the momentum where the rate is small. In eight bits that is as predicted; in four,
// where it makes most of the floor, less: errors that are fed back are far from normal, many small and few
// large.
TEST(QuadraticTest, ErrorFeedbackGainsAtSmallRates) {
  CpuDevice device(2);
  const auto floor_with = [&](const char* momentum, bool error_feedback) {
    QuadraticRun run = short_run(8, StepMode::kSticky, 1e-3, 0.9);
    run.momentum_state = parse_spec(momentum);
    run.error_feedback = error_feedback;
    const QuadraticResult r = run_quadratic(run, device);
    return std::pair(r.variance, r.variance / predict(run, r).variance);
  };
  const auto plain = floor_with("soft4:block128:sr", false);
  const auto eight = floor_with("int8:block128:sr", true), four = floor_with("soft4:block128:sr", true);
  EXPECT_NEAR(plain.second, 1, 0.1);
  EXPECT_NEAR(eight.second, 1, 0.1);
  EXPECT_LT(eight.first, plain.first / 4);
  EXPECT_LT(four.second, 0.6);
  EXPECT_LT(four.first, 0.8 * plain.first);  // twelve seeds: 0.72, with a spread of 0.02
}

// The theorems bound what real runs do, and by no more than the worst case of the rounding in them.
TEST(QuadraticTest, GradientsStayBelowTheBound) {
  CpuDevice device(2);
  for (const bool moving : {false, true}) {
    for (const int bits : {4, 8}) {
      for (const double lr : {0.1, 0.01}) {
        QuadraticRun run;
        run.parameter = int_spec(bits, moving ? StepMode::kMoving : StepMode::kSticky);
        run.motion = moving ? GridMotion::kShaken : GridMotion::kFixed;
        run.blocks = 8;
        run.learning_rate = lr;
        const Gradients g = gradients_of(run, device);
        EXPECT_LT(g.measured, g.bound) << moving << " " << bits << " " << lr;
        EXPECT_GT(g.measured, g.bound / 20) << moving << " " << bits << " " << lr;
      }
    }
  }
}

TEST(QuadraticTest, GradientsStayBelowTheBoundOfErrorFeedback) {
  CpuDevice device(2);
  for (const int bits : {4, 8}) {
    for (const double lr : {0.002, 0.0005}) {
      QuadraticRun run;
      run.parameter = int_spec(bits, StepMode::kSticky);
      run.blocks = 8;
      run.learning_rate = lr;
      run.momentum = 0.9;
      run.error_feedback = true;
      const Gradients g = gradients_of(run, device);
      EXPECT_LT(g.measured, g.bound) << bits << " " << lr;
    }
  }
}

// The effect of nearest rounding instead: most updates are lost and the run stops on the way.
TEST(QuadraticTest, NearestRoundingStopsBeforeTheOptimum) {
  QuadraticRun run;
  run.parameter = int_spec(8, StepMode::kSticky);
  run.blocks = 8;
  run.learning_rate = 0.01;
  run.start = 0.5;
  CpuDevice device(1);
  const QuadraticResult sr = run_quadratic(run, device);
  run.parameter.rounding = Rounding::kNearest;
  const QuadraticResult rn = run_quadratic(run, device);
  EXPECT_GT(rn.variance, 10 * sr.variance);
  EXPECT_GT(rn.underflow, sr.underflow + 0.05);
}

}  // namespace
}  // namespace lpmm::theory
