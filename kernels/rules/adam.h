// Adam (Kingma & Ba 2015) with coupled decay, AdamW (Loshchilov & Hutter 2019) with decoupled decay. With
// update_clip a tensor's rate, that of its decoupled decay too, is divided by the root mean square over its
// elements of g / max(sqrt(v^), epsilon), v^ the variance corrected for its start, and multiplied by
// update_clip, where that makes it smaller (StableAdamW, Wortsman et al. 2023, arXiv 2304.13013).
#pragma once

#include "kernels/rules/adam_averages.h"

namespace lpmm {

struct Adam : AdamAverages {
  using Arithmetic = Adam;

  // Scalars of one step.
  float step_size = 0;        // learning rate / (1 - beta1^t)
  float coupled_decay = 0;    // Adam: g += coupled_decay * p
  float decay_factor = 1;     // AdamW: p *= 1 - lr * decay
  float feedback = 0;         // of the parameter's rounding error; 0: none
  float decoupled_decay = 0;  // lr * decay
  double most_squares = 0;    // sum of the squared ratios above which the rate is divided; 0: it never is

  template <class Self>
  static constexpr LPMM_HD auto& usually_zero(Self& rule) {
    return rule.coupled_decay;
  }

  template <class F>
  LPMM_HD F gradient(const Elements<F>& x) const {
    F g = scaled(x[Role::kAccumulator], gradient_scale);
    if (!same(coupled_decay, 0.0F)) g = g + F(coupled_decay) * x[Role::kParameter];
    return g;
  }
  template <class F>
  LPMM_HD void operator()(Elements<F>& x) const {
    F &p = x[Role::kParameter], &m = x[Role::kMomentum], &v = x[Role::kVariance];
    const F g = gradient(x);
    p = scaled(p, decay_factor);
    m = F(beta1) * m + F(one_minus_beta1) * g;
    v = F(beta2) * v + F(one_minus_beta2) * (g * g);
    p = p - F(step_size) * (m / spread(v));
  }
  template <class F>
  LPMM_HD void feed_back(F error, Elements<F>& x) const {
    F &m = x[Role::kMomentum], &v = x[Role::kVariance];
    m = m - F(feedback) * spread(v) * error;
  }

  static constexpr int kNorms = 1;
  bool needs_norms() const { return most_squares > 0; }
  template <class F>
  LPMM_HD void terms(Elements<F>& x, F (&out)[kNorms]) const {
    const F g = gradient(x);
    const F v = F(beta2) * x[Role::kVariance] + F(one_minus_beta2) * (g * g);
    out[0] = g / larger_of(square_root(v) * F(variance_scale), F(epsilon));
  }
  LPMM_HD void take_norms(const double (&square_sums)[kNorms]) {
    if (!(square_sums[0] > most_squares)) return;
    const double divisor = sqrt(square_sums[0] / most_squares);
    step_size = static_cast<float>(double{step_size} / divisor);
    decay_factor = static_cast<float>(1 - double{decoupled_decay} / divisor);
  }

  static constexpr std::string_view kName = "adam";
  static constexpr double kLearningRate = 1e-3;  // torch.optim.Adam
  static constexpr std::string_view kHelp = "Adam; weight decay is added to the gradient";
  static constexpr std::array kStates = {Role::kMomentum, Role::kVariance};
  static constexpr bool kHasFloatLoops = true;

  struct Settings {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, update_clip = 0;
  };
  static constexpr std::array kSettings = {
      Setting("beta1", &Settings::beta1, kBelowOne, "share of the momentum that stays"),
      Setting("beta2", &Settings::beta2, kBelowOne, "share of the variance that stays"),
      Setting("epsilon", &Settings::epsilon, kAboveZero, "added to the root of the variance"),
      Setting("update_clip", &Settings::update_clip, kFromZero,
              "RMS of gradients over root variances above which a tensor's step is shortened; 0: none. "
              "StableAdamW: 1, with beta2 0.99, epsilon 1e-6"),
  };
  static constexpr std::string_view kMomentumSetting = "beta1";
  static constexpr std::string_view kNoAccumulation = kVarianceNeedsGradient;

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
    const double corrected = step.learning_rate / set_averages(s, step);
    step_size = static_cast<float>(corrected);
    most_squares = s.update_clip * s.update_clip * static_cast<double>(step.tensor.elements());
    // Feedback takes the whole rate: it is not known which steps will be shortened.
    feedback = step.feedback(corrected * s.beta1 / (1 - s.beta1));
  }
};

struct AdamW : Adam {
  static constexpr std::string_view kName = "adamw";
  static constexpr double kLearningRate = 1e-3;  // torch.optim.AdamW
  static constexpr std::string_view kHelp = "Adam whose weight decay pulls on the weights themselves";

  static AdamW make(const Settings& s, const RuleStep& step) {
    AdamW adam;
    adam.set(s, step);
    adam.decay_factor = static_cast<float>(step.decay_factor());
    adam.decoupled_decay = static_cast<float>(step.learning_rate * step.weight_decay);
    return adam;
  }
};

}  // namespace lpmm
