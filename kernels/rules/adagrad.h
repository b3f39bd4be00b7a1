// Adagrad (Duchi et al. 2011) with PyTorch's conventions: the decay is a part of the gradient, epsilon is
// added to the root. The variance is the sum of all squares, so that it only grows. A packed one keeps its
// mean under stochastic rounding, but for elements below the smallest value of their block, which are stored
// as that; nearest rounding would lose what is added, or, where steps move, blow it up.
#pragma once

#include "kernels/rules/rule.h"

namespace lpmm {

struct Adagrad {
  // Scalars of one step.
  float learning_rate = 0;  // learning rate / (1 + (t - 1) * learning_rate_decay)
  float epsilon = 1e-10F;
  float coupled_decay = 0;   // g += coupled_decay * p
  float gradient_scale = 1;  // the clip factor

  template <class F>
  LPMM_HD void operator()(Elements<F>& x) const {
    F &p = x[Role::kParameter], &v = x[Role::kVariance];
    F g = scaled(x[Role::kAccumulator], gradient_scale);
    if (!same(coupled_decay, 0.0F)) g = g + F(coupled_decay) * p;
    v = v + g * g;
    p = p - F(learning_rate) * (g / (square_root(v) + F(epsilon)));
  }
  LPMM_HD bool spreads_within(float least, float most, float variance) const {
    return root_within(epsilon, least, most, variance);
  }

  static constexpr std::string_view kName = "adagrad";
  static constexpr double kLearningRate = 0.01;  // torch.optim.Adagrad
  static constexpr std::string_view kHelp =
      "Adagrad: gradients over the root of the sum of their squares; weight decay is added to the gradient";
  static constexpr std::array kStates = {Role::kVariance};
  static constexpr bool kVarianceGrows = true;

  struct Settings {
    double learning_rate_decay = 0, epsilon = 1e-10;
  };
  static constexpr std::array kSettings = {
      Setting("learning_rate_decay", &Settings::learning_rate_decay, kFromZero,
              "update t divides the rate by 1 + (t - 1) * this"),
      Setting("epsilon", &Settings::epsilon, kAboveZero, "added to the root of the variance"),
  };
  static constexpr std::string_view kNoFeedback = "it has no momentum that could bring rounding errors back";
  static constexpr std::string_view kNoAccumulation =
      "there is none, and the variance needs the gradient by itself";

  static bool uses(const Settings&, const TensorTraits&, Role) { return true; }
  static std::string_view problem(const Settings&) { return ""; }
  static double momentum_kept(const Settings&) { return 0; }
  static double typical_move(double learning_rate, double /*size*/) { return learning_rate; }

  static Adagrad make(const Settings& s, const RuleStep& step) {
    Adagrad rule;
    const auto before = static_cast<double>(step.update - 1);
    rule.learning_rate = static_cast<float>(step.learning_rate / (1 + before * s.learning_rate_decay));
    rule.epsilon = static_cast<float>(s.epsilon);
    rule.coupled_decay = static_cast<float>(step.weight_decay);
    rule.gradient_scale = static_cast<float>(step.clip);
    return rule;
  }
};

}  // namespace lpmm
