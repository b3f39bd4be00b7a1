// AdEMAMix (Pagliardini et al. 2024, arXiv 2409.03137): AdamW whose step adds slow_weight times a second
// average of the gradients, over thousands of steps, which is not corrected for its start. slow_weight (alpha
// in the paper) may rise from 0, and beta3 from beta1, over a first part of the run: beta3 so that the number
// of steps in which a gradient's share halves grows evenly. With beta1 = 0 there is no fast momentum.
#pragma once

#include <algorithm>

#include "kernels/rules/adam_averages.h"

namespace lpmm {

struct AdEmaMix : AdamAverages {
  // Scalars of one step. With beta1 = 0 there is no momentum and m is not read.
  float learning_rate = 0;
  float momentum_scale = 1;  // 1 / (1 - beta1^t)
  float beta3 = 0;           // of this step
  float one_minus_beta3 = 1;
  float slow_weight = 0;   // of this step
  float decay_factor = 1;  // p *= 1 - lr * decay
  float feedback = 0;      // of the parameter's rounding error; 0: none

  template <class F>
  LPMM_HD void operator()(Elements<F>& x) const {
    F &p = x[Role::kParameter], &m = x[Role::kMomentum], &v = x[Role::kVariance];
    F& slow = x[Role::kSlowMomentum];
    const F g = scaled(x[Role::kAccumulator], gradient_scale);
    p = scaled(p, decay_factor);
    F fast = g;
    if (!same(beta1, 0.0F)) {
      m = F(beta1) * m + F(one_minus_beta1) * g;
      fast = F(momentum_scale) * m;
    }
    v = F(beta2) * v + F(one_minus_beta2) * (g * g);
    slow = F(beta3) * slow + F(one_minus_beta3) * g;
    p = p - F(learning_rate) * ((fast + F(slow_weight) * slow) / spread(v));
  }
  // Into the fast momentum: the slow one would keep an error for thousands of steps.
  template <class F>
  LPMM_HD void feed_back(F error, Elements<F>& x) const {
    F &m = x[Role::kMomentum], &v = x[Role::kVariance];
    m = m - F(feedback) * spread(v) * error;
  }

  static constexpr std::string_view kName = "ademamix";
  static constexpr double kLearningRate = 1e-3;  // the authors'
  static constexpr std::string_view kHelp =
      "AdEMAMix: AdamW and a second, slow momentum, for long runs, with warm-ups as long as the run; weight "
      "decay pulls on the weights";
  static constexpr std::array kStates = {Role::kMomentum, Role::kVariance, Role::kSlowMomentum};

  struct Settings {
    double beta1 = 0.9, beta2 = 0.999, beta3 = 0.9999, slow_weight = 5, epsilon = 1e-8;
    double slow_weight_warmup = 0, beta3_warmup = 0;
  };
  static constexpr std::array kSettings = {
      Setting("beta1", &Settings::beta1, kBelowOne, "share of the momentum that stays"),
      Setting("beta2", &Settings::beta2, kBelowOne, "share of the variance that stays"),
      Setting("beta3", &Settings::beta3, kBelowOne, "share of the slow momentum that stays"),
      Setting("slow_weight", &Settings::slow_weight, kFromZero,
              "of the slow momentum in a step, the paper's alpha; 2 to 10"),
      Setting("epsilon", &Settings::epsilon, kAboveZero, "added to the root of the variance"),
      Setting("slow_weight_warmup", &Settings::slow_weight_warmup, kFromZero,
              "updates in which slow_weight rises from 0; 0: none"),
      Setting("beta3_warmup", &Settings::beta3_warmup, kFromZero,
              "updates in which beta3 rises from beta1; 0: none"),
  };
  static constexpr std::string_view kMomentumSetting = "beta1";
  static constexpr std::string_view kNoAccumulation = kVarianceNeedsGradient;

  static bool uses(const Settings& s, const TensorTraits&, Role role) {
    return role != Role::kMomentum || s.beta1 > 0;
  }
  static std::string_view problem(const Settings& s) {
    return s.beta3 < s.beta1 ? "beta3 is below beta1, but the slow momentum must not be the faster one" : "";
  }
  static double momentum_kept(const Settings& s) { return s.beta1; }
  static double slow_momentum_kept(const Settings& s) { return s.beta3; }
  static double typical_move(double learning_rate, double /*size*/) { return learning_rate; }

  static double slow_weight_at(const Settings& s, double update) {
    return update < s.slow_weight_warmup ? s.slow_weight * (update / s.slow_weight_warmup) : s.slow_weight;
  }
  // The inverse logarithms, which the half-lives are in proportion to, mix; that of 0 is 0.
  static double beta3_at(const Settings& s, double update) {
    if (!(update < s.beta3_warmup)) return s.beta3;
    const double share = update / s.beta3_warmup;
    const double mixed = (1 - share) / std::log(s.beta1) + share / std::log(s.beta3);
    return std::min(s.beta3, std::exp(1 / mixed));
  }

  static AdEmaMix make(const Settings& s, const RuleStep& step) {
    const auto t = static_cast<double>(step.update);
    AdEmaMix rule;
    const double correction = 1 / rule.set_averages(s, step), beta3_now = beta3_at(s, t);
    rule.learning_rate = static_cast<float>(step.learning_rate);
    rule.momentum_scale = static_cast<float>(correction);
    rule.beta3 = static_cast<float>(beta3_now);
    rule.one_minus_beta3 = static_cast<float>(1 - beta3_now);
    rule.slow_weight = static_cast<float>(slow_weight_at(s, t));
    rule.decay_factor = static_cast<float>(step.decay_factor());
    rule.feedback = step.feedback(step.learning_rate * correction * s.beta1 / (1 - s.beta1));
    return rule;
  }
};

}  // namespace lpmm
