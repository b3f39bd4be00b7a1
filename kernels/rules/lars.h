// LARS (You et al. 2017, arXiv 1708.03888): SGD with momentum, where the gradient of a tensor, decay
// included, is multiplied by eta * |p| / (|g| + decay * |p| + epsilon) before it enters the momentum. The
// learning rate stays outside of it, so that a schedule does not rescale what is there. The factor is 1 where
// either norm is 0, and for vectors (biases, norms) unless they are asked for: they take SGD's steps.
#pragma once

#include "kernels/rules/rule.h"

namespace lpmm {

struct Lars {
  // Scalars of one step. With momentum 0 there is no state and m is not read.
  float learning_rate = 0;
  float momentum = 0;
  float decay = 0;           // g += decay * p
  float nesterov = 0;        // 0 or 1
  float gradient_scale = 1;  // the clip factor
  float feedback = 0;        // of the parameter's rounding error; 0: none
  float trust_coefficient = 1e-3F;
  float epsilon = 1e-8F;
  bool clips = false;    // LARC: the factor times the learning rate is at most that rate
  bool adapts = true;    // false: the factor is 1
  float layer_rate = 1;  // the factor, from the first pass

  template <class F>
  LPMM_HD void operator()(Elements<F>& x) const {
    F &p = x[Role::kParameter], &m = x[Role::kMomentum];
    F g = scaled(x[Role::kAccumulator], gradient_scale);
    if (!same(decay, 0.0F)) g = g + F(decay) * p;
    g = F(layer_rate) * g;
    if (!same(momentum, 0.0F)) {
      m = F(momentum) * m + g;
      g = same(nesterov, 0.0F) ? m : g + F(momentum) * m;
    }
    p = p - F(learning_rate) * g;
  }
  template <class F>
  LPMM_HD void feed_back(F error, Elements<F>& x) const {
    F& m = x[Role::kMomentum];
    m = m - F(feedback) * error;
  }

  static constexpr int kNorms = 2;
  bool needs_norms() const { return adapts; }
  template <class F>
  LPMM_HD void terms(Elements<F>& x, F (&out)[kNorms]) const {
    out[0] = x[Role::kParameter];
    out[1] = scaled(x[Role::kAccumulator], gradient_scale);
  }
  LPMM_HD void take_norms(const double (&square_sums)[kNorms]) {
    constexpr double kMost = 1e30;  // gradients below a 1e30th of the tensor are as good as 0
    const double p = sqrt(square_sums[0]), g = sqrt(square_sums[1]);
    if (!(p > 0 && g > 0)) return;
    double rate = double{trust_coefficient} * p / (g + double{decay} * p + double{epsilon});
    if (clips) rate = rate < double{learning_rate} ? rate / double{learning_rate} : 1;
    layer_rate = static_cast<float>(rate < kMost ? rate : kMost);
  }

  static constexpr std::string_view kName = "lars";
  static constexpr double kLearningRate = 1.0;  // timm
  static constexpr std::string_view kHelp =
      "LARS: SGD whose steps are a share of the tensor, for large batches, at rates of 1 and more, which are "
      "no part of the momentum; weight decay is added to the gradient";
  static constexpr std::array kStates = {Role::kMomentum};

  struct Settings {
    double momentum = 0.9;
    bool nesterov = false;
    double trust_coefficient = 1e-3, norm_epsilon = 1e-8;
    bool trust_clip = false, adapt_vectors = false;
  };
  static constexpr std::array kSettings = {
      Setting("momentum", &Settings::momentum, kBelowOne, "share of the momentum that stays; 0: none"),
      Setting("nesterov", &Settings::nesterov, "step by where the momentum will be"),
      Setting("trust_coefficient", &Settings::trust_coefficient, kAboveZero,
              "share of the tensor that a gradient becomes"),
      Setting("norm_epsilon", &Settings::norm_epsilon, kAboveZero, "added to the norm of the gradient"),
      Setting("trust_clip", &Settings::trust_clip, "no step longer than SGD's (LARC)"),
      Setting("adapt_vectors", &Settings::adapt_vectors,
              "biases and norms take steps as long as they are, too"),
  };
  static constexpr std::string_view kMomentumSetting = "momentum";
  static constexpr std::string_view kNoAccumulation =
      "the rate of a tensor needs the norm of the gradient by itself";

  static bool uses(const Settings& s, const TensorTraits&, Role) { return s.momentum > 0; }
  static std::string_view problem(const Settings& s) {
    return s.nesterov && s.momentum == 0 ? "nesterov is on, but must be off, or used with a momentum" : "";
  }
  static double momentum_kept(const Settings& s) { return s.momentum; }
  static double typical_move(double learning_rate, double size) {
    return learning_rate * Settings().trust_coefficient * size;
  }

  static Lars make(const Settings& s, const RuleStep& step) {
    Lars lars;
    lars.learning_rate = static_cast<float>(step.learning_rate);
    lars.momentum = static_cast<float>(s.momentum * step.kept);
    lars.decay = static_cast<float>(step.weight_decay);
    lars.nesterov = s.nesterov ? 1.0F : 0.0F;
    lars.gradient_scale = static_cast<float>(step.clip);
    // As in SGD, the values in the momentum have been multiplied by their tensor's rate before.
    lars.feedback =
        step.feedback(step.learning_rate * s.momentum / (1 - s.momentum) * (s.nesterov ? s.momentum : 1));
    lars.trust_coefficient = static_cast<float>(s.trust_coefficient);
    lars.epsilon = static_cast<float>(s.norm_epsilon);
    lars.clips = s.trust_clip;
    lars.adapts = s.adapt_vectors || !step.tensor.is_vector;
    return lars;
  }
};

}  // namespace lpmm
