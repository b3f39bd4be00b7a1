#include "theory/logistic.h"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <cmath>
#include <vector>

#include "lpmm/memory/model_memory.h"
#include "theory/draws.h"
#include "theory/floors.h"

namespace lpmm::theory {
namespace {

double log1p_exp(double z) {
  return z > 0 ? z + std::log1p(std::exp(-z)) : std::log1p(std::exp(z));
}
// The derivative of log(1 + exp(-z)) with respect to z.
double slope(double z) {
  return -1 / (1 + std::exp(z));
}

}  // namespace

LogisticProblem::LogisticProblem(double ridge, double narrowest, std::uint64_t seed)
    : margins_(kSamples, kSize), ridge_(ridge), optimum_(Eigen::VectorXd::Zero(kSize)) {
  const auto stream = static_cast<std::uint32_t>(Stream::kTest);
  std::vector<float> inputs(kSamples * kSize), teacher(kSize), noise(kSamples);
  fill_normal({seed, 1, 0, stream}, inputs);
  fill_normal({seed, 2, 0, stream}, teacher);
  fill_normal({seed, 3, 0, stream}, noise);
  for (int s = 0; s < kSamples; ++s) {
    double z = static_cast<double>(noise[static_cast<std::size_t>(s)]);
    const float* row = inputs.data() + std::ptrdiff_t{kSize} * s;
    for (int i = 0; i < kSize; ++i) {
      const double deviation = std::pow(narrowest, i / (kSize - 1.0));
      const double x = deviation * static_cast<double>(row[i]);
      margins_(s, i) = x;
      z += x * static_cast<double>(teacher[static_cast<std::size_t>(i)]) * 2 / std::sqrt(double{kSize});
    }
    if (z < 0) margins_.row(s) *= -1;
  }
  // Newton's method; the loss is convex.
  for (int i = 0; i < 50; ++i) {
    const Eigen::VectorXd z = margins_ * optimum_;
    const Eigen::VectorXd first = z.unaryExpr(&slope);
    const Eigen::VectorXd second = first.unaryExpr([](double d) { return -d * (1 + d); });
    const Eigen::VectorXd gradient = margins_.transpose() * first / kSamples + ridge_ * optimum_;
    hessian_ = margins_.transpose() * second.asDiagonal() * margins_ / kSamples;
    hessian_.diagonal().array() += ridge_;
    optimum_ -= hessian_.ldlt().solve(gradient);
    if (gradient.norm() < 1e-12) break;
  }
  const Eigen::MatrixXd each = (margins_ * optimum_).unaryExpr(&slope).asDiagonal() * margins_;
  const Eigen::MatrixXd centered = each.rowwise() - each.colwise().mean();
  covariance_ = centered.transpose() * centered / kSamples;
}

double LogisticProblem::loss(const Eigen::VectorXd& w) const {
  return (margins_ * w).unaryExpr([](double z) { return log1p_exp(-z); }).mean() +
         ridge_ * w.squaredNorm() / 2;
}

Eigen::VectorXd LogisticProblem::gradient(const Eigen::VectorXd& w, std::span<const int> rows) const {
  Eigen::VectorXd out = ridge_ * w;
  for (const int row : rows) {
    out += slope(margins_.row(row).dot(w)) / static_cast<double>(rows.size()) * margins_.row(row).transpose();
  }
  return out;
}

LogisticResult run_logistic(const LogisticProblem& problem, const LogisticRun& run, Device& device) {
  constexpr int kSize = LogisticProblem::kSize;
  OptimizerConfig optimizer;
  optimizer.settings["momentum"] = run.momentum;
  Policy policy = make_policy(kPlainPreset);
  policy.specs[Role::kParameter] = run.parameter;
  ModelMemory memory({{"w", {1, kSize}}}, policy, optimizer, run.seed, 1, device);
  std::vector<float> values(kSize), gradient(kSize);
  for (int i = 0; i < kSize; ++i)
    values[static_cast<std::size_t>(i)] = static_cast<float>(problem.optimum()(i));
  memory.initialize(0, 0, values);

  const double slowest = problem.hessian().selfadjointView<Eigen::Lower>().eigenvalues().minCoeff();
  const auto warm_up =
      static_cast<std::uint32_t>(3 * (1 - run.momentum) / (run.learning_rate * slowest)) + 10;
  const auto last = warm_up + static_cast<std::uint32_t>(run.steps);
  const kernels::RoleView view = memory.view(0, Role::kParameter);
  std::uint16_t old_step = view.steps[0];
  std::vector<int> rows(static_cast<std::size_t>(run.batch));
  const double optimal = problem.loss(problem.optimum());
  const auto stream = static_cast<std::uint32_t>(Stream::kTest);
  LogisticResult result;
  double excess = 0, evaluations = 0, step_square = 0, moved = 0;
  for (std::uint32_t t = 1; t <= last; ++t) {
    const bool measured = t > warm_up;
    memory.decode(0, 0, values);
    const Eigen::VectorXd w = Eigen::Map<const Eigen::VectorXf>(values.data(), kSize).cast<double>();
    constexpr std::uint32_t kEvery = 20;  // neighbouring steps say the same
    if (measured && t % kEvery == 0) {
      excess += problem.loss(w) - optimal;
      evaluations += 1;
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Uniforms u = uniforms({run.seed, 4, t, stream}, static_cast<std::uint32_t>(i));
      rows[i] = std::min(LogisticProblem::kSamples - 1, static_cast<int>(u.u[0] * LogisticProblem::kSamples));
    }
    const Eigen::VectorXd g = problem.gradient(w, rows);
    for (int i = 0; i < kSize; ++i) gradient[static_cast<std::size_t>(i)] = static_cast<float>(g(i));
    Step update = memory.begin_step({.step = t, .learning_rate = run.learning_rate, .want_stats = measured});
    update.fold(0, 0, gradient, 0);
    std::move(update).commit();
    if (measured) {
      const double step = bf16_to_float(view.steps[0]);
      step_square += step * step;
      moved += view.steps[0] != old_step ? 1 : 0;
    }
    old_step = view.steps[0];
  }
  const kernels::ChangeStats stats = memory.take_stats().at(0).role[Role::kParameter];
  result.excess = excess / evaluations;
  result.step = std::sqrt(step_square / run.steps);
  result.moves = moved / run.steps;
  result.underflow = static_cast<double>(stats.underflows) / static_cast<double>(stats.increments);
  return result;
}

LogisticFloor predict(const LogisticProblem& problem, const LogisticRun& run, double step, double moves) {
  constexpr Eigen::Index kSize = LogisticProblem::kSize;
  const double lr = run.learning_rate;
  const Eigen::MatrixXd unit = Eigen::MatrixXd::Identity(kSize, kSize);
  const Eigen::MatrixXd& h = problem.hessian();
  const Eigen::MatrixXd noise = problem.gradient_covariance() / run.batch;
  Eigen::MatrixXd a(2 * kSize, 2 * kSize), q(2 * kSize, 2 * kSize);
  a << unit - lr * h, -lr * run.momentum * unit, h, run.momentum * unit;
  Eigen::VectorXd rounding = Eigen::VectorXd::Constant(kSize, step * step / 6), spread(kSize);
  LogisticFloor out;
  for (int i = 0; i < 100; ++i) {
    q << lr * lr * noise, -lr * noise, -lr * noise, noise;
    q.topLeftCorner(kSize, kSize).diagonal() += rounding;
    const Eigen::MatrixXd p = stationary_covariance(a, q);
    const double before = out.excess;
    out.excess = (h * p.topLeftCorner(kSize, kSize)).trace() / 2;
    spread = lr * p.bottomRightCorner(kSize, kSize).diagonal().cwiseSqrt();
    rounding = spread.unaryExpr([&](double s) {
      return moves * step * step / 6 + (1 - moves) * grid_error(Rounding::kStochastic, step, s);
    });
    if (std::abs(out.excess - before) <= 1e-6 * out.excess) break;
  }
  for (const double s : spread) {
    out.underflow += (1 - moves) * underflow_share(Rounding::kStochastic, step, s) / double{kSize};
  }
  return out;
}

}  // namespace lpmm::theory
