// Adam (Kingma & Ba 2015) with coupled decay, AdamW (Loshchilov & Hutter 2019) with decoupled decay.
#pragma once

#include "kernels/rules/rule.h"

namespace lpmm {

struct Adam {
  using Arithmetic = Adam;

  // Scalars of one step.
  float step_size = 0;  // learning rate / (1 - beta1^t)
  float beta1 = 0;
  float one_minus_beta1 = 1;
  float beta2 = 0;
  float one_minus_beta2 = 1;
  float variance_scale = 1;  // 1 / sqrt(1 - beta2^t)
  float epsilon = 1e-8F;
  float coupled_decay = 0;   // Adam: g += coupled_decay * p
  float decay_factor = 1;    // AdamW: p *= 1 - lr * decay
  float gradient_scale = 1;  // the clip factor
  float feedback = 0;        // of the parameter's rounding error; 0: none

  template <class F>
  LPMM_HD void operator()(Elements<F>& x) const {
    F &p = x[Role::kParameter], &m = x[Role::kMomentum], &v = x[Role::kVariance];
    F g = scaled(x[Role::kAccumulator], gradient_scale);
    if (!same(coupled_decay, 0.0F)) g = g + F(coupled_decay) * p;
    p = scaled(p, decay_factor);
    m = F(beta1) * m + F(one_minus_beta1) * g;
    v = F(beta2) * v + F(one_minus_beta2) * (g * g);
    p = p - F(step_size) * (m / (square_root(v) * F(variance_scale) + F(epsilon)));
  }
  template <class F>
  LPMM_HD void feed_back(F error, Elements<F>& x) const {
    F &m = x[Role::kMomentum], &v = x[Role::kVariance];
    m = m - F(feedback) * (square_root(v) * F(variance_scale) + F(epsilon)) * error;
  }

  static constexpr std::string_view kName = "adam";
  static constexpr std::string_view kHelp = "Adam; the decay is a part of the gradient";
  static constexpr std::array kStates = {Role::kMomentum, Role::kVariance};

  struct Settings {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  };
  static constexpr std::array kSettings = {
      Setting("beta1", &Settings::beta1, kBelowOne, "share of the momentum that stays"),
      Setting("beta2", &Settings::beta2, kBelowOne, "share of the variance that stays"),
      Setting("epsilon", &Settings::epsilon, kAboveZero, "added to the root of the variance"),
  };
  static constexpr std::string_view kMomentumSetting = "beta1";
  static constexpr std::string_view kNoAccumulation =
      "the variance needs the gradient by itself; it takes optimizer.rule = \"sgd\"";

  static bool uses(const Settings&, const TensorTraits&, Role) { return true; }
  static std::string_view problem(const Settings&) { return ""; }
  static double momentum_kept(const Settings& s) { return s.beta1; }
  static double typical_move(double learning_rate, double /*size*/) { return learning_rate; }

  static Adam make(const Settings& s, const RuleStep& step) {
    Adam adam;
    adam.set(s, step);
    adam.coupled_decay = static_cast<float>(step.weight_decay);
    return adam;
  }

 protected:
  void set(const Settings& s, const RuleStep& step) {
    const auto t = static_cast<double>(step.update);
    const double corrected = step.learning_rate / (1 - std::pow(s.beta1, t));
    step_size = static_cast<float>(corrected);
    beta1 = static_cast<float>(s.beta1 * step.kept);
    one_minus_beta1 = static_cast<float>(1 - s.beta1);
    beta2 = static_cast<float>(s.beta2);
    one_minus_beta2 = static_cast<float>(1 - s.beta2);
    variance_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(s.beta2, t)));
    epsilon = static_cast<float>(s.epsilon);
    gradient_scale = static_cast<float>(step.clip);
    feedback = step.feedback(corrected * s.beta1 / (1 - s.beta1));
  }
};

struct AdamW : Adam {
  static constexpr std::string_view kName = "adamw";
  static constexpr std::string_view kHelp = "Adam; the decay acts on the weights themselves";

  static AdamW make(const Settings& s, const RuleStep& step) {
    AdamW adam;
    adam.set(s, step);
    adam.decay_factor = static_cast<float>(step.decay_factor());
    return adam;
  }
};

}  // namespace lpmm
