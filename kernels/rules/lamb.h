// LAMB (You et al. 2020, arXiv 1904.00962): AdamW's update u, its decay
// included, taken as long as the tensor: p -= lr * phi(|p|) / |u| * u, where
// phi(x) = min(max(x, min_weight_norm), max_weight_norm); usually neither bound
// is there. The ratio is 1 where phi(|p|) or |u| is 0, and for vectors (biases,
// norms) unless they are asked for; their decay is a matter of
// [[optimizer.group]]. With trust_clip it is at most 1 (LAMBC).
#pragma once

#include "kernels/rules/adam_averages.h"

namespace lpmm {

struct Lamb : AdamAverages {
  // Scalars of one step.
  float learning_rate = 0;
  float momentum_scale = 1;  // 1 / (1 - beta1^t)
  float decay = 0;           // u += decay * p
  float least_norm = 0;      // |p| counts as no less
  float most_norm = 0;       // and as no more; 0: any
  bool clips = false;        // the ratio is at most 1
  bool adapts = true;        // false: it is 1
  float trust_ratio = 1;     // from the first pass

  // Makes the new states; returns u.
  template <class F>
  LPMM_HD F direction(Elements<F>& x) const {
    F &m = x[Role::kMomentum], &v = x[Role::kVariance];
    const F g = scaled(x[Role::kAccumulator], gradient_scale);
    m = F(beta1) * m + F(one_minus_beta1) * g;
    v = F(beta2) * v + F(one_minus_beta2) * (g * g);
    return F(momentum_scale) * m / spread(v) + F(decay) * x[Role::kParameter];
  }
  template <class F>
  LPMM_HD void operator()(Elements<F>& x) const {
    const F u = direction(x);
    F& p = x[Role::kParameter];
    p = p - F(learning_rate * trust_ratio) * u;
  }

  static constexpr int kNorms = 2;
  bool needs_norms() const { return adapts; }
  template <class F>
  LPMM_HD void terms(Elements<F>& x, F (&out)[kNorms]) const {
    out[0] = x[Role::kParameter];
    out[1] = direction(x);
  }
  LPMM_HD void take_norms(const double (&square_sums)[kNorms]) {
    constexpr double kMost = 1e30;  // updates below a 1e30th of the tensor are as good as 0
    double p = sqrt(square_sums[0]);
    if (p < double{least_norm}) p = double{least_norm};
    if (most_norm > 0 && p > double{most_norm}) p = double{most_norm};
    const double u = sqrt(square_sums[1]), ratio = p > 0 && u > 0 ? p / u : 1;
    const double most = clips ? 1 : kMost;
    trust_ratio = static_cast<float>(ratio < most ? ratio : most);
  }

  static constexpr std::string_view kName = "lamb";
  static constexpr double kLearningRate = 1e-3;  // apex
  static constexpr std::string_view kHelp =
      "LAMB: Adam with steps as long as the tensor, for large batches; weight decay is added to Adam's step "
      "before its length is set";
  static constexpr std::array kStates = {Role::kMomentum, Role::kVariance};

  struct Settings {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6;
    double min_weight_norm = 0, max_weight_norm = 0;
    bool trust_clip = false, adapt_vectors = false;
  };
  static constexpr std::array kSettings = {
      Setting("beta1", &Settings::beta1, kBelowOne, "share of the momentum that stays"),
      Setting("beta2", &Settings::beta2, kBelowOne, "share of the variance that stays"),
      Setting("epsilon", &Settings::epsilon, kAboveZero, "added to the root of the variance"),
      Setting("min_weight_norm", &Settings::min_weight_norm, kFromZero,
              "a tensor counts as no shorter than this"),
      Setting("max_weight_norm", &Settings::max_weight_norm, kFromZero,
              "a tensor counts as no longer than this; 0: any length"),
      Setting("trust_clip", &Settings::trust_clip, "no step longer than Adam's (LAMBC)"),
      Setting("adapt_vectors", &Settings::adapt_vectors,
              "biases and norms take steps as long as they are, too; apex and timm adapt whatever decays"),
  };
  static constexpr std::string_view kNoFeedback =
      "a step is as long as its tensor times the rate, however long the "
      "momentum, so that at small rates it cannot bring the errors back, and "
      "the momentum would grow without bound";
  static constexpr std::string_view kNoAccumulation = kVarianceNeedsGradient;

  static bool uses(const Settings&, const TensorTraits&, Role) { return true; }
  static std::string_view problem(const Settings& s) {
    return s.max_weight_norm > 0 && s.min_weight_norm > s.max_weight_norm
               ? "min_weight_norm is above max_weight_norm, but must be at most that"
               : "";
  }
  static double momentum_kept(const Settings& s) { return s.beta1; }
  static double typical_move(double learning_rate, double size) { return learning_rate * size; }

  static Lamb make(const Settings& s, const RuleStep& step) {
    Lamb lamb;
    lamb.learning_rate = static_cast<float>(step.learning_rate);
    lamb.momentum_scale = static_cast<float>(1 / lamb.set_averages(s, step));
    lamb.decay = static_cast<float>(step.weight_decay);
    lamb.least_norm = static_cast<float>(s.min_weight_norm);
    lamb.most_norm = static_cast<float>(s.max_weight_norm);
    lamb.clips = s.trust_clip;
    lamb.adapts = s.adapt_vectors || !step.tensor.is_vector;
    return lamb;
  }
};

}  // namespace lpmm
