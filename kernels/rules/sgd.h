// SGD with momentum, dampening, Nesterov and either kind of decay (Sutskever et al. 2013; PyTorch's
// convention m <- mu*m + (1-dampening)*g, first step m = g).
#pragma once

#include "kernels/rules/rule.h"

namespace lpmm {

struct Sgd {
  // Scalars of one step. With momentum 0 there is no state and m is not read.
  float learning_rate = 0;
  float momentum = 0;
  float gradient_weight = 1;  // 1 - dampening, 1 on the first step
  float coupled_decay = 0;    // g += coupled_decay * p
  float decay_factor = 1;     // p *= decay_factor (decoupled: 1 - lr * decay)
  float nesterov = 0;         // 0 or 1
  float gradient_scale = 1;   // the clip factor
  float feedback = 0;         // of the parameter's rounding error; 0: none
  template <class Self>
  static constexpr LPMM_HD auto& usually_zero(Self& rule) {
    return rule.nesterov;
  }

  template <class F>
  LPMM_HD void operator()(Elements<F>& x) const {
    F &p = x[Role::kParameter], &m = x[Role::kMomentum];
    F g = scaled(x[Role::kAccumulator], gradient_scale);
    if (!same(coupled_decay, 0.0F)) g = g + F(coupled_decay) * p;
    p = scaled(p, decay_factor);
    if (!same(momentum, 0.0F)) {
      m = F(momentum) * m + scaled(g, gradient_weight);
      g = same(nesterov, 0.0F) ? m : g + F(momentum) * m;
    }
    p = p - F(learning_rate) * g;
  }
  template <class F>
  LPMM_HD void feed_back(F error, Elements<F>& x) const {
    F& m = x[Role::kMomentum];
    m = m - F(feedback) * error;
  }

  static constexpr std::string_view kName = "sgd";
  static constexpr double kLearningRate = 1e-3;  // torch.optim.SGD
  static constexpr std::string_view kHelp =
      "SGD, with momentum, dampening and Nesterov's step; weight decay is added to the gradient, or with "
      "decoupled_decay pulls on the weights";
  static constexpr std::array kStates = {Role::kMomentum};
  static constexpr bool kHasFloatLoops = true;

  struct Settings {
    bool decoupled_decay = false;
    double momentum = 0, dampening = 0;
    bool nesterov = false;
  };
  static constexpr std::array kSettings = {
      Setting("decoupled_decay", &Settings::decoupled_decay, "decay the weights, not through the gradient"),
      Setting("momentum", &Settings::momentum, kBelowOne, "share of the momentum that stays; 0: none"),
      Setting("dampening", &Settings::dampening, kShare, "share of a gradient that the momentum leaves out"),
      Setting("nesterov", &Settings::nesterov, "step by where the momentum will be"),
  };
  static constexpr std::string_view kMomentumSetting = "momentum";
  static constexpr double kLeastMomentum = 1e-6;  // that gradients are divided by

  static bool uses(const Settings& s, const TensorTraits&, Role) { return s.momentum > 0; }
  // The problem with settings that are each in range; empty if there is none.
  static std::string_view problem(const Settings& s) {
    return s.nesterov && (s.momentum == 0 || s.dampening != 0)
               ? "nesterov is on, but must be off, or used with a momentum and no dampening"
               : "";
  }
  static double momentum_kept(const Settings& s) { return s.momentum; }
  // An estimate, made before there are gradients, of how far a step may move a weight of this size.
  static double typical_move(double learning_rate, double size) {
    return (learning_rate < 1e-3 ? learning_rate : 1e-3) * size;
  }
  static std::string_view no_accumulation(const Settings& s) {
    if (s.momentum < kLeastMomentum) return "it takes a momentum of 1e-06 or more (optimizer.momentum)";
    return s.nesterov ? "Nesterov's step needs the gradient by itself; it takes optimizer.nesterov = false"
                      : "";
  }
  // The factor of each of K gradients that is folded into the momentum, which the update then multiplies by
  // mu.
  static double accumulated_weight(const Settings& s, std::int64_t update, int microbatches) {
    return (update <= 1 ? 1 : 1 - s.dampening) / (microbatches * s.momentum);
  }

  static Sgd make(const Settings& s, const RuleStep& step) {
    Sgd sgd;
    sgd.learning_rate = static_cast<float>(step.learning_rate);
    sgd.momentum = static_cast<float>(s.momentum * step.kept);
    sgd.gradient_weight = step.update <= 1 ? 1.0F : static_cast<float>(1 - s.dampening);
    sgd.coupled_decay = s.decoupled_decay ? 0.0F : static_cast<float>(step.weight_decay);
    sgd.decay_factor = s.decoupled_decay ? static_cast<float>(step.decay_factor()) : 1.0F;
    sgd.nesterov = s.nesterov ? 1.0F : 0.0F;
    sgd.gradient_scale = static_cast<float>(step.clip);
    // A change of the momentum now moves the parameter by lr * mu / (1 - mu) of it later.
    sgd.feedback =
        step.feedback(step.learning_rate * s.momentum / (1 - s.momentum) * (s.nesterov ? s.momentum : 1));
    return sgd;
  }
};

}  // namespace lpmm
