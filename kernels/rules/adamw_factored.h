// AdamW with a factored variance (Li et al. 2023, arXiv 2309.01507, "4-bit Factor"): of a matrix only the
// means of the rows, R, and of the columns, C, are kept, and the variance of an element is R / mean(R) * C,
// the closest of rank one in Adafactor's sense. Vectors keep a variance per element. Nothing is added to the
// squares, and no step is clipped.
#pragma once

#include "kernels/rules/adam_mini.h"

namespace lpmm {

struct AdamWFactored : AdamMini {
  bool is_factored = true;  // false: a vector
  float row_mean = 1;       // of R, from the first pass

  template <class F>
  LPMM_HD void operator()(Elements<F>& x) const {
    const F g = scaled(x[Role::kAccumulator], gradient_scale);
    if (!is_factored) {
      F& v = x[Role::kVariance];
      v = F(beta2) * v + F(one_minus_beta2) * (g * g);
    }
    move(x, g, variance(x));
  }
  template <class F>
  LPMM_HD void feed_back(F error, Elements<F>& x) const {
    AdamMini::feed_back(error, x, variance(x));
  }
  LPMM_HD void take_row_mean(double mean) { row_mean = row_divisor(mean); }

  static constexpr std::string_view kName = "adamw_factored";
  static constexpr double kLearningRate = 1e-3;  // that of adamw
  static constexpr std::string_view kHelp =
      "AdamW with a variance per row and column of a matrix, multiplied, in nearly no memory; weight decay "
      "pulls on the weights";
  static constexpr std::array kStates = {Role::kMomentum, Role::kVariance, Role::kRowVariance,
                                         Role::kColumnVariance};

  // The settings of AdamMini but for per_head: the mean of R is one of rows, each of which has its own.
  struct Settings {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  };
  static constexpr std::array kSettings = {
      Setting("beta1", &Settings::beta1, kBelowOne, "share of the momentum that stays"),
      Setting("beta2", &Settings::beta2, kBelowOne, "share of the variance that stays"),
      Setting("epsilon", &Settings::epsilon, kAboveZero, "added to the root of the variance"),
  };

  static bool uses(const Settings&, const TensorTraits& tensor, Role role) {
    return role == Role::kMomentum || (role == Role::kVariance) == tensor.is_vector;
  }
  static std::string_view problem(const Settings&) { return ""; }
  static double momentum_kept(const Settings& s) { return s.beta1; }

  static AdamWFactored make(const Settings& s, const RuleStep& step) {
    AdamWFactored adam;
    adam.set(s, step);
    adam.is_factored = !step.tensor.is_vector;
    return adam;
  }

 private:
  template <class F>
  LPMM_HD F variance(const Elements<F>& x) const {
    return is_factored ? factored_variance(x, row_mean) : x[Role::kVariance];
  }
};

}  // namespace lpmm
