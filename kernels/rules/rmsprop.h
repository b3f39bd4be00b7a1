// RMSProp (Tieleman & Hinton 2012) with PyTorch's conventions: epsilon is added to the root, nothing is
// corrected for the start, the momentum adds up steps without the learning rate, and the decay is a part of
// the gradient. Centred (Graves 2013, arXiv 1308.0850), v - mean^2 takes the place of the variance v, where
// mean is the average of the gradients. Packed, the two are rounded apart, and their difference meets 0, and
// steps g / epsilon. So it counts as v / 16 at least, ours: no step is above 4 times the uncentred one.
// Unpacked that is PyTorch's step, but for gradients that hardly change for 1 / (1 - alpha) steps.
#pragma once

#include "kernels/rules/rule.h"

namespace lpmm {

struct RmsProp {
  // Scalars of one step. With momentum 0 there is none and m is not read; nor is the mean where not centred.
  float learning_rate = 0;
  float alpha = 0;
  float one_minus_alpha = 1;
  float epsilon = 1e-8F;
  float momentum = 0;
  bool centered = false;
  float coupled_decay = 0;   // g += coupled_decay * p
  float gradient_scale = 1;  // the clip factor
  float feedback = 0;        // of the parameter's rounding error; 0: none

  template <class F>
  LPMM_HD void operator()(Elements<F>& x) const {
    F &p = x[Role::kParameter], &m = x[Role::kMomentum], &v = x[Role::kVariance];
    F g = scaled(x[Role::kAccumulator], gradient_scale);
    if (!same(coupled_decay, 0.0F)) g = g + F(coupled_decay) * p;
    v = F(alpha) * v + F(one_minus_alpha) * (g * g);
    F spread = v;
    if (centered) {
      F& mean = x[Role::kSlowMomentum];
      mean = F(alpha) * mean + F(one_minus_alpha) * g;
      spread = larger_of(v - mean * mean, F(kLeastSpread) * v);
    }
    F u = g / (square_root(spread) + F(epsilon));
    if (!same(momentum, 0.0F)) {
      m = F(momentum) * m + u;
      u = m;
    }
    p = p - F(learning_rate) * u;
  }
  LPMM_HD bool spreads_within(float least, float most, float variance) const {
    return root_within(epsilon, least, most, variance);
  }
  template <class F>
  LPMM_HD void feed_back(F error, Elements<F>& x) const {
    F& m = x[Role::kMomentum];
    m = m - F(feedback) * error;
  }

  static constexpr std::string_view kName = "rmsprop";
  static constexpr double kLearningRate = 0.01;  // torch.optim.RMSprop
  static constexpr std::string_view kHelp =
      "RMSProp: gradients over the root of their mean square, the longest steps first; weight decay is added "
      "to the gradient";
  static constexpr std::array kStates = {Role::kMomentum, Role::kVariance, Role::kSlowMomentum};
  static constexpr std::array kFusedStates = {Role::kMomentum, Role::kVariance};
  static constexpr float kLeastSpread = 1.0F / 16;  // of the variance

  struct Settings {
    double alpha = 0.99, epsilon = 1e-8, momentum = 0;
    bool centered = false;
  };
  static constexpr std::array kSettings = {
      Setting("alpha", &Settings::alpha, kBelowOne, "share of the variance that stays"),
      Setting("epsilon", &Settings::epsilon, kAboveZero, "added to the root of the variance"),
      Setting("momentum", &Settings::momentum, kBelowOne, "share of the momentum that stays; 0: none"),
      Setting("centered", &Settings::centered,
              "divide by the spread of gradients around their average, at least a quarter of their root mean "
              "square"),
  };
  static constexpr std::string_view kMomentumSetting = "momentum";
  static constexpr std::string_view kNoAccumulation = kVarianceNeedsGradient;

  static bool uses(const Settings& s, const TensorTraits&, Role role) {
    return role == Role::kMomentum ? s.momentum > 0 : role == Role::kVariance || s.centered;
  }
  static std::string_view problem(const Settings&) { return ""; }
  static double momentum_kept(const Settings& s) { return s.momentum; }
  static double slow_momentum_kept(const Settings& s) { return s.centered ? s.alpha : 0; }
  static double typical_move(double learning_rate, double /*size*/) { return learning_rate; }

  static RmsProp make(const Settings& s, const RuleStep& step) {
    RmsProp rule;
    rule.learning_rate = static_cast<float>(step.learning_rate);
    rule.alpha = static_cast<float>(s.alpha);
    rule.one_minus_alpha = static_cast<float>(1 - s.alpha);
    rule.epsilon = static_cast<float>(s.epsilon);
    rule.momentum = static_cast<float>(s.momentum * step.kept);
    rule.centered = s.centered;
    rule.coupled_decay = static_cast<float>(step.weight_decay);
    rule.gradient_scale = static_cast<float>(step.clip);
    // A change of the momentum now moves the parameter by lr * mu / (1 - mu) of it later.
    rule.feedback = step.feedback(step.learning_rate * s.momentum / (1 - s.momentum));
    return rule;
  }
};

}  // namespace lpmm
