// Adafactor (Shazeer & Stern 2018, arXiv 1804.04235): steps are a share of the tensor, the variance of a
// matrix is that of its rows times that of its columns (kernels/rules/adamw_factored.h), its decay tends to
// 1, and an update whose root mean square is above a threshold is shortened to it. Vectors keep a variance
// per element. The optional momentum is one of updates, learning rate included. Decay is decoupled, by the
// learning rate itself.
#pragma once

#include "kernels/rules/rule.h"

namespace lpmm {

struct Adafactor {
  // Scalars of one step. With momentum 0 there is no such state and m is not read.
  float rate = 0;  // of a tensor whose root mean square is 1
  float momentum = 0;
  float one_minus_momentum = 1;
  float variance_kept = 0;
  float variance_taken = 1;
  float square_epsilon = 1e-30F;  // added to squares
  float least_size = 1e-3F;       // of the tensor, where steps are a share of it
  float clip_threshold = 1;
  float decay_factor = 1;    // p *= 1 - lr * decay
  float gradient_scale = 1;  // the clip factor
  float feedback = 0;        // of the parameter's rounding error; 0: none
  bool is_factored = true;   // false: a vector
  bool scales = true;        // false: steps are not a share of the tensor
  double elements = 1;       // of the tensor
  float row_mean = 1;        // from the first pass
  float step_size = 0;       // from the second one

  template <class F>
  LPMM_HD void operator()(Elements<F>& x) const {
    F &p = x[Role::kParameter], &m = x[Role::kMomentum];
    F u = F(step_size) * update(x);
    if (!same(momentum, 0.0F)) {
      m = F(momentum) * m + F(one_minus_momentum) * u;
      u = m;
    }
    p = scaled(p, decay_factor) - u;
  }
  template <class F>
  LPMM_HD void feed_back(F error, Elements<F>& x) const {
    F& m = x[Role::kMomentum];
    m = m - F(feedback) * error;
  }
  LPMM_HD float next(float variance, double mean_square) const {
    return static_cast<float>(double{variance_kept} * double{variance} +
                              double{variance_taken} * (mean_square + double{square_epsilon}));
  }
  LPMM_HD void take_row_mean(double mean) { row_mean = row_divisor(mean); }

  static constexpr int kNorms = 2;
  bool needs_norms() const { return true; }
  template <class F>
  LPMM_HD void terms(Elements<F>& x, F (&out)[kNorms]) const {
    out[0] = x[Role::kParameter];
    out[1] = update(x);
  }
  LPMM_HD void take_norms(const double (&square_sums)[kNorms]) {
    const double size = sqrt(square_sums[0] / elements), length = sqrt(square_sums[1] / elements);
    double step = double{rate};
    if (scales) step *= size > double{least_size} ? size : double{least_size};
    if (length > double{clip_threshold}) step *= double{clip_threshold} / length;
    step_size = static_cast<float>(step);
  }

  static constexpr std::string_view kName = "adafactor";
  static constexpr double kLearningRate = 0.01;  // torch.optim.Adafactor
  static constexpr std::string_view kHelp =
      "Adafactor: steps are a share of the tensor, with a variance per row and column and by default no "
      "momentum; weight decay pulls on the weights by the learning rate, not by its share of the tensor";
  static constexpr std::array kStates = {Role::kMomentum, Role::kVariance, Role::kRowVariance,
                                         Role::kColumnVariance};

  struct Settings {
    double beta1 = 0, decay_rate = 0.8, epsilon1 = 1e-30, epsilon2 = 1e-3, clip_threshold = 1;
    bool relative_step = true, scale_parameter = true;
  };
  static constexpr std::array kSettings = {
      Setting("beta1", &Settings::beta1, kBelowOne, "share of the momentum that stays"),
      Setting("decay_rate", &Settings::decay_rate, kShare,
              "the variance keeps 1 - t^-this of itself in step t"),
      Setting("epsilon1", &Settings::epsilon1, kFromZero, "added to squares of gradients"),
      Setting("epsilon2", &Settings::epsilon2, kAboveZero,
              "least size of a tensor that steps are a share of"),
      Setting("clip_threshold", &Settings::clip_threshold, kAboveZero,
              "root mean square that updates are shortened to"),
      Setting("relative_step", &Settings::relative_step,
              "the learning rate of step t is at most 1 / sqrt(t)"),
      Setting("scale_parameter", &Settings::scale_parameter,
              "steps are a share of the tensor's root mean square"),
  };
  static constexpr std::string_view kMomentumSetting = "beta1";
  static constexpr std::string_view kNoAccumulation = kVarianceNeedsGradient;

  static bool uses(const Settings& s, const TensorTraits& tensor, Role role) {
    if (role == Role::kMomentum) return s.beta1 > 0;
    return (role == Role::kVariance) == tensor.is_vector;
  }
  static std::string_view problem(const Settings&) { return ""; }
  static double momentum_kept(const Settings& s) { return s.beta1; }
  static double typical_move(double learning_rate, double size) { return learning_rate * size; }

  static Adafactor make(const Settings& s, const RuleStep& step) {
    const auto t = static_cast<double>(step.update);
    const double most = s.relative_step ? 1 / std::sqrt(t) : kMostScalar;
    Adafactor rule;
    rule.rate = static_cast<float>(step.learning_rate < most ? step.learning_rate : most);
    rule.momentum = static_cast<float>(s.beta1);
    rule.one_minus_momentum = static_cast<float>(1 - s.beta1);
    rule.variance_kept = static_cast<float>(1 - std::pow(t, -s.decay_rate));
    rule.variance_taken = static_cast<float>(std::pow(t, -s.decay_rate));
    rule.square_epsilon = static_cast<float>(s.epsilon1);
    rule.least_size = static_cast<float>(s.epsilon2);
    rule.clip_threshold = static_cast<float>(s.clip_threshold);
    rule.decay_factor = static_cast<float>(step.decay_factor());
    rule.gradient_scale = static_cast<float>(step.clip);
    // The momentum is in units of the parameter: a change of it by 1 moves that by beta1 / (1 - beta1) later.
    rule.feedback = step.feedback(s.beta1 / (1 - s.beta1));
    rule.is_factored = !step.tensor.is_vector;
    rule.scales = s.scale_parameter;
    rule.elements = static_cast<double>(step.tensor.elements());
    return rule;
  }

 private:
  // The gradient over the root of its variance, which for a vector moves on here.
  template <class F>
  LPMM_HD F update(Elements<F>& x) const {
    // A product of two small means may be 0 where gradients are.
    constexpr float kLeastRoot = 1e-30F;
    const F g = scaled(x[Role::kAccumulator], gradient_scale);
    F& v = x[Role::kVariance];
    v = is_factored ? factored_variance(x, row_mean)
                    : F(variance_kept) * v + F(variance_taken) * (g * g + F(square_epsilon));
    return g / (square_root(v) + F(kLeastRoot));
  }
};

}  // namespace lpmm
