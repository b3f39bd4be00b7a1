// The form of LARS that bitsandbytes has: SGD with momentum, where a step is cut to a share of its tensor,
// p -= lr * min(1, share * |p| / |m|) * m, and no layer has a rate of its own. Nothing is cut where |p| is 0:
// else a tensor that begins at 0 would never leave it. Decay is a part of the gradient and of |m|.
#pragma once

#include "kernels/rules/rule.h"

namespace lpmm {

struct LarsClip {
  // Scalars of one step. With momentum 0 there is no state and m is not read.
  float learning_rate = 0;
  float momentum = 0;
  float decay = 0;           // g += decay * p
  float gradient_scale = 1;  // the clip factor
  float share = 0.02F;
  bool adapts = true;  // false: nothing is cut
  float cut = 1;       // from the first pass

  // Makes the new state; returns what is stepped by.
  template <class F>
  LPMM_HD F direction(Elements<F>& x) const {
    F& m = x[Role::kMomentum];
    F g = scaled(x[Role::kAccumulator], gradient_scale);
    if (!same(decay, 0.0F)) g = g + F(decay) * x[Role::kParameter];
    if (!same(momentum, 0.0F)) {
      m = F(momentum) * m + g;
      g = m;
    }
    return g;
  }
  template <class F>
  LPMM_HD void operator()(Elements<F>& x) const {
    const F u = direction(x);
    F& p = x[Role::kParameter];
    p = p - F(learning_rate * cut) * u;
  }

  static constexpr int kNorms = 2;
  bool needs_norms() const { return adapts; }
  template <class F>
  LPMM_HD void terms(Elements<F>& x, F (&out)[kNorms]) const {
    out[0] = x[Role::kParameter];
    out[1] = direction(x);
  }
  LPMM_HD void take_norms(const double (&square_sums)[kNorms]) {
    const double most = double{share} * sqrt(square_sums[0]), u = sqrt(square_sums[1]);
    cut = most > 0 && u > most ? static_cast<float>(most / u) : 1.0F;
  }

  static constexpr std::string_view kName = "lars_clip";
  static constexpr double kLearningRate = 0.01;  // bitsandbytes
  static constexpr std::string_view kHelp =
      "SGD whose steps are cut to a share of the tensor, which bitsandbytes calls LARS; weight decay is "
      "added to the gradient";
  static constexpr std::array kStates = {Role::kMomentum};

  struct Settings {
    double momentum = 0.9, max_share = 0.02;
    bool adapt_vectors = false;
  };
  static constexpr std::array kSettings = {
      Setting("momentum", &Settings::momentum, kBelowOne, "share of the momentum that stays; 0: none"),
      Setting("max_share", &Settings::max_share, kAboveZero,
              "steps are cut to this share of the tensor, times the learning rate"),
      Setting("adapt_vectors", &Settings::adapt_vectors,
              "biases and norms are cut, too, as bitsandbytes does"),
  };
  static constexpr std::string_view kNoFeedback =
      "steps are cut anew each time, so how far a change of the momentum moves a weight is not known";
  static constexpr std::string_view kNoAccumulation =
      "the first pass over a tensor needs the gradient by itself";

  static bool uses(const Settings& s, const TensorTraits&, Role) { return s.momentum > 0; }
  static std::string_view problem(const Settings&) { return ""; }
  static double momentum_kept(const Settings& s) { return s.momentum; }
  static double typical_move(double learning_rate, double size) {
    return learning_rate * Settings().max_share * size;
  }

  static LarsClip make(const Settings& s, const RuleStep& step) {
    LarsClip rule;
    rule.learning_rate = static_cast<float>(step.learning_rate);
    rule.momentum = static_cast<float>(s.momentum);
    rule.decay = static_cast<float>(step.weight_decay);
    rule.gradient_scale = static_cast<float>(step.clip);
    rule.share = static_cast<float>(s.max_share);
    rule.adapts = s.adapt_vectors || !step.tensor.is_vector;
    return rule;
  }
};

}  // namespace lpmm
