// Floors of logistic regression: the problem itself, and packed runs against the prediction.
#include "theory/logistic.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "kernels/cpu.h"
#include "tests/sanitized.h"
#include "theory/floors.h"

namespace lpmm::theory {
namespace {

TEST(Logistic, DerivativesAtTheOptimum) {
  const LogisticProblem problem(0.05, 0.3, 1);
  std::vector<int> all(LogisticProblem::kSamples);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_LT(problem.gradient(problem.optimum(), all).norm(), 1e-10);
  Eigen::VectorXd direction = Eigen::VectorXd::Zero(LogisticProblem::kSize);
  direction(0) = 0.6, direction(40) = 0.8;
  constexpr double kSmall = 1e-4;
  const Eigen::VectorXd forward = problem.optimum() + kSmall * direction,
                        back = problem.optimum() - kSmall * direction;
  const double curvature =
      (problem.loss(forward) + problem.loss(back) - 2 * problem.loss(problem.optimum())) / (kSmall * kSmall);
  EXPECT_NEAR(direction.dot(problem.hessian() * direction), curvature, 1e-4 * curvature);
  const Eigen::VectorXd slope = (problem.gradient(forward, all) - problem.gradient(back, all)) / (2 * kSmall);
  EXPECT_LT((slope - problem.hessian() * direction).norm(), 1e-4 * slope.norm());
}

TEST(Logistic, PackedRunsMeetThePrediction) {
  const LogisticProblem problem(0.05, 0.3, 1);
  CpuDevice device(1);
  for (const double momentum : {0.0, 0.9}) {
    for (const double rate : {0.02, 0.1}) {
      if (kSanitized && (momentum == 0 || rate < 0.1)) continue;  // the same code with other numbers
      for (const char* spec :
           {"int5:block64:sr:sticky", "int8:block64:sr:sticky", "int12:block64:sr:sticky"}) {
        const LogisticRun run{
            .learning_rate = rate * (1 - momentum), .momentum = momentum, .parameter = parse_spec(spec)};
        const LogisticResult measured = run_logistic(problem, run, device);
        const LogisticFloor predicted = predict(problem, run, measured.step, measured.moves);
        const std::string at = fmt::format("{} rate {} momentum {}: step {:.3g}, moves {:.3g}", spec, rate,
                                           momentum, measured.step, measured.moves);
        EXPECT_NEAR(measured.excess / predicted.excess, 1, 0.1) << at;
        EXPECT_NEAR(measured.underflow, predicted.underflow, 0.02) << at;
      }
    }
  }
}

}  // namespace
}  // namespace lpmm::theory
