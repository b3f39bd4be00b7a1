// Real packed training of a logistic regression, to hold the predictions of floors.h against where neither
// the Hessian is diagonal nor the noise made: minibatches of drawn samples, one block of 64 weights in a
// ModelMemory.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <span>

#include "kernels/device.h"
#include "lpmm/memory/spec.h"

namespace lpmm::theory {

// Mean over samples of log(1 + exp(-y w'x)) + ridge |w|^2 / 2. Inputs are normal with deviations from 1 down
// to `narrowest`, labels those of a noisy teacher.
class LogisticProblem {
 public:
  static constexpr int kSize = 64, kSamples = 2048;
  LogisticProblem(double ridge, double narrowest, std::uint64_t seed);

  double loss(const Eigen::VectorXd& w) const;
  // The gradient over the samples chosen by `rows`, ridge included.
  Eigen::VectorXd gradient(const Eigen::VectorXd& w, std::span<const int> rows) const;

  const Eigen::VectorXd& optimum() const { return optimum_; }
  const Eigen::MatrixXd& hessian() const { return hessian_; }  // at the optimum
  // Covariance over samples of one sample's gradient there; a batch of B has a B-th of it.
  const Eigen::MatrixXd& gradient_covariance() const { return covariance_; }

 private:
  Eigen::MatrixXd margins_;  // (samples, size): label times input
  double ridge_;
  Eigen::VectorXd optimum_;
  Eigen::MatrixXd hessian_, covariance_;
};

struct LogisticRun {
  double learning_rate = 0.05;
  double momentum = 0;
  int batch = 8;
  Spec parameter;     // linear, block 64
  int steps = 20000;  // measured, after as many as the floor takes to settle
  std::uint64_t seed = 1;
};

struct LogisticResult {
  double excess = 0;     // loss above the optimum's, mean over the measured steps
  double step = 0;       // root mean square of the block's steps
  double moves = 0;      // share of writes at which it changed
  double underflow = 0;  // share of non-zero updates that left code and step unchanged
};
LogisticResult run_logistic(const LogisticProblem& problem, const LogisticRun& run, Device& device);

// The same by equation (12) with the problem's Hessian and gradient covariance, each weight with the rounding
// noise of its own updates; `step` and `moves` as the run had them.
struct LogisticFloor {
  double excess = 0, underflow = 0;
};
LogisticFloor predict(const LogisticProblem& problem, const LogisticRun& run, double step, double moves);

}  // namespace lpmm::theory
