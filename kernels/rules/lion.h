// Lion (Chen et al. 2023, arXiv 2302.06675): the step is the sign of a momentum
// that is mixed with the gradient, with decoupled decay. Nothing moves where
// that mixture is 0.
#pragma once

#include "kernels/rules/rule.h"

namespace lpmm {

struct Lion {
  // Scalars of one step.
  float learning_rate = 0;
  float beta1 = 0;  // of the mixture
  float one_minus_beta1 = 1;
  float beta2 = 0;  // of the momentum
  float one_minus_beta2 = 1;
  float decay_factor = 1;    // p *= 1 - lr * decay
  float gradient_scale = 1;  // the clip factor

  template <class F>
  LPMM_HD void operator()(Elements<F>& x) const {
    F &p = x[Role::kParameter], &m = x[Role::kMomentum];
    const F g = scaled(x[Role::kAccumulator], gradient_scale);
    p = scaled(p, decay_factor);
    p = p - F(learning_rate) * sign(F(beta1) * m + F(one_minus_beta1) * g);
    m = F(beta2) * m + F(one_minus_beta2) * g;
  }

  static constexpr std::string_view kName = "lion";
  static constexpr double kLearningRate = 1e-4;  // the paper
  static constexpr std::string_view kHelp =
      "Lion: steps of one size, at rates 3 to 10 times below adamw's and more decay; weight decay pulls on "
      "the weights";
  static constexpr std::array kStates = {Role::kMomentum};

  struct Settings {
    double beta1 = 0.9, beta2 = 0.99;
  };
  static constexpr std::array kSettings = {
      Setting("beta1", &Settings::beta1, kBelowOne, "share of the momentum in what is stepped by"),
      Setting("beta2", &Settings::beta2, kBelowOne, "share of the momentum that stays"),
  };
  static constexpr std::string_view kNoFeedback =
      "a step is a sign, and no change of the momentum gives back a rounding "
      "error";
  static constexpr std::string_view kNoAccumulation =
      "the step and the momentum weigh the gradient differently";

  static bool uses(const Settings&, const TensorTraits&, Role) { return true; }
  static std::string_view problem(const Settings&) { return ""; }
  static double momentum_kept(const Settings& s) { return s.beta2; }
  static double typical_move(double learning_rate, double /*size*/) { return learning_rate; }

  static Lion make(const Settings& s, const RuleStep& step) {
    Lion lion;
    lion.learning_rate = static_cast<float>(step.learning_rate);
    lion.beta1 = static_cast<float>(s.beta1);
    lion.one_minus_beta1 = static_cast<float>(1 - s.beta1);
    lion.beta2 = static_cast<float>(s.beta2);
    lion.one_minus_beta2 = static_cast<float>(1 - s.beta2);
    lion.decay_factor = static_cast<float>(step.decay_factor());
    lion.gradient_scale = static_cast<float>(step.clip);
    return lion;
  }
};

}  // namespace lpmm
