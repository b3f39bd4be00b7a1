// RMSProp (Tieleman & Hinton 2012) with PyTorch's conventions: epsilon is added to the root, nothing is
// corrected for the start, the momentum adds up steps without the learning rate, and the decay is a part of
// the gradient. There is no centred form: a packed mean and a packed variance are rounded apart, so that
// v - mean^2 meets 0, and steps g / epsilon.
#pragma once

#include "kernels/rules/rule.h"

namespace lpmm {

struct RmsProp {
  // Scalars of one step. With momentum 0 there is none and m is not read.
  float learning_rate = 0;
  float alpha = 0;
  float one_minus_alpha = 1;
  float epsilon = 1e-8F;
  float momentum = 0;
  float coupled_decay = 0;   // g += coupled_decay * p
  float gradient_scale = 1;  // the clip factor
  float feedback = 0;        // of the parameter's rounding error; 0: none

  template <class F>
  LPMM_HD void operator()(Elements<F>& x) const {
    F &p = x[Role::kParameter], &m = x[Role::kMomentum], &v = x[Role::kVariance];
    F g = scaled(x[Role::kAccumulator], gradient_scale);
    if (!same(coupled_decay, 0.0F)) g = g + F(coupled_decay) * p;
    v = F(alpha) * v + F(one_minus_alpha) * (g * g);
    F u = g / (square_root(v) + F(epsilon));
    if (!same(momentum, 0.0F)) {
      m = F(momentum) * m + u;
      u = m;
    }
    p = p - F(learning_rate) * u;
  }
  template <class F>
  LPMM_HD void feed_back(F error, Elements<F>& x) const {
    F& m = x[Role::kMomentum];
    m = m - F(feedback) * error;
  }

  static constexpr std::string_view kName = "rmsprop";
  static constexpr std::string_view kHelp =
      "RMSProp, not centred: gradients over the root of their mean square; the first steps are the longest";
  static constexpr std::array kStates = {Role::kMomentum, Role::kVariance};

  struct Settings {
    double alpha = 0.99, epsilon = 1e-8, momentum = 0;
  };
  static constexpr std::array kSettings = {
      Setting("alpha", &Settings::alpha, kBelowOne, "share of the variance that stays"),
      Setting("epsilon", &Settings::epsilon, kAboveZero, "added to the root of the variance"),
      Setting("momentum", &Settings::momentum, kBelowOne, "share of the momentum that stays; 0: none"),
  };
  static constexpr std::string_view kMomentumSetting = "momentum";
  static constexpr std::string_view kNoAccumulation =
      "the variance needs the gradient by itself; it takes optimizer.rule = \"sgd\"";

  static bool uses(const Settings& s, const TensorTraits&, Role role) {
    return role == Role::kVariance || s.momentum > 0;
  }
  static std::string_view problem(const Settings&) { return ""; }
  static double momentum_kept(const Settings& s) { return s.momentum; }
  static double typical_move(double learning_rate, double /*size*/) { return learning_rate; }

  static RmsProp make(const Settings& s, const RuleStep& step) {
    RmsProp rule;
    rule.learning_rate = static_cast<float>(step.learning_rate);
    rule.alpha = static_cast<float>(s.alpha);
    rule.one_minus_alpha = static_cast<float>(1 - s.alpha);
    rule.epsilon = static_cast<float>(s.epsilon);
    rule.momentum = static_cast<float>(s.momentum * step.kept);
    rule.coupled_decay = static_cast<float>(step.weight_decay);
    rule.gradient_scale = static_cast<float>(step.clip);
    // A change of the momentum now moves the parameter by lr * mu / (1 - mu) of it later.
    rule.feedback = step.feedback(step.learning_rate * s.momentum / (1 - s.momentum));
    return rule;
  }
};

}  // namespace lpmm
