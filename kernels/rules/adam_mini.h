// Adam-mini (Zhang et al. 2024, arXiv 2406.16793): AdamW with one variance for each row of a matrix, an
// output or a token, and one for a whole vector. With per_head all rows of a head of queries or keys share
// one, as in the paper; one per row is nearer to Adam. The paper has plain Adam for biases.
#pragma once

#include "kernels/rules/adam_averages.h"

namespace lpmm {

struct AdamMini : AdamAverages {
  // Scalars of one step.
  float step_size = 0;     // learning rate / (1 - beta1^t)
  float decay_factor = 1;  // p *= 1 - lr * decay
  float feedback = 0;      // of the parameter's rounding error; 0: none

  template <class F>
  LPMM_HD void operator()(Elements<F>& x) const {
    move(x, scaled(x[Role::kAccumulator], gradient_scale), x[Role::kRowVariance]);
  }
  template <class F>
  LPMM_HD void feed_back(F error, Elements<F>& x) const {
    feed_back(error, x, x[Role::kRowVariance]);
  }
  LPMM_HD float next(float variance, double mean_square) const {
    return static_cast<float>(double{beta2} * double{variance} + double{one_minus_beta2} * mean_square);
  }

  static constexpr std::string_view kName = "adam_mini";
  static constexpr double kLearningRate = 1e-3;  // the authors'
  static constexpr std::string_view kHelp =
      "AdamW with one variance per row of a matrix, and per vector, in nearly no memory; weight decay pulls "
      "on the weights, of norms and biases too";
  static constexpr std::array kStates = {Role::kMomentum, Role::kRowVariance};

  struct Settings {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
    bool per_head = false;
  };
  static constexpr std::array kSettings = {
      Setting("beta1", &Settings::beta1, kBelowOne, "share of the momentum that stays"),
      Setting("beta2", &Settings::beta2, kBelowOne, "share of the variance that stays"),
      Setting("epsilon", &Settings::epsilon, kAboveZero, "added to the root of the variance"),
      Setting("per_head", &Settings::per_head,
              "queries and keys share a variance per head, as in the paper; else one per row"),
  };
  static constexpr std::string_view kMomentumSetting = "beta1";
  static constexpr std::string_view kNoAccumulation = kVarianceNeedsGradient;

  static bool uses(const Settings&, const TensorTraits&, Role) { return true; }
  // Queries and keys are the first parts, values the last one.
  static RowShares shares(const Settings& s, const TensorTraits& tensor) {
    if (!s.per_head || tensor.heads == 0) return {};
    const std::int64_t rows = tensor.rows / tensor.parts;
    return {rows * (tensor.parts - 1), rows / tensor.heads};
  }
  static std::string_view problem(const Settings&) { return ""; }
  static double momentum_kept(const Settings& s) { return s.beta1; }
  static double typical_move(double learning_rate, double /*size*/) { return learning_rate; }

  static AdamMini make(const Settings& s, const RuleStep& step) {
    AdamMini adam;
    adam.set(s, step);
    return adam;
  }

 protected:
  // Adam's step by this variance.
  template <class F>
  LPMM_HD void move(Elements<F>& x, const F& g, const F& v) const {
    F &p = x[Role::kParameter], &m = x[Role::kMomentum];
    p = scaled(p, decay_factor);
    m = F(beta1) * m + F(one_minus_beta1) * g;
    p = p - F(step_size) * (m / spread(v));
  }
  template <class F>
  LPMM_HD void feed_back(const F& error, Elements<F>& x, const F& v) const {
    F& m = x[Role::kMomentum];
    m = m - F(feedback) * spread(v) * error;
  }
  template <class S>
  void set(const S& s, const RuleStep& step) {
    const double corrected = step.learning_rate / set_averages(s, step);
    step_size = static_cast<float>(corrected);
    decay_factor = static_cast<float>(step.decay_factor());
    feedback = step.feedback(corrected * s.beta1 / (1 - s.beta1));
  }
};

}  // namespace lpmm
