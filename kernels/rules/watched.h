// The values of one element that the watch measures, for any rule: the update it is about to take and what
// drives it.
#pragma once

#include "kernels/rules/rule.h"

namespace lpmm {

enum class Watched : std::uint8_t {
  kParameter,  // before the update
  kUpdate,     // its change before rounding, decay included
  kGradient,   // as the rule takes it: clipped, without decay
  kRatio,      // g / max(sqrt(v), epsilon), v as the rule reads it (Wortsman et al. 2023, arXiv 2304.13013);
               // 0 without a variance of each element
};
inline constexpr int kWatched = static_cast<int>(Watched::kRatio) + 1;

template <class R>
inline constexpr bool kHasVariance = [] {
  for (const Role state : R::kStates) {
    if (state == Role::kVariance) return true;
  }
  return false;
}();

// Computes the watched values of an element that had this parameter and gradient; `x` is what the rule made
// of it.
template <class R, class F>
LPMM_HD void measure_change(const R& rule, const F& before, F gradient, const Elements<F>& x,
                            F (&out)[kWatched]) {
  if constexpr (requires { rule.gradient_scale; }) gradient = scaled(gradient, rule.gradient_scale);
  out[static_cast<int>(Watched::kParameter)] = before;
  out[static_cast<int>(Watched::kUpdate)] = x[Role::kParameter] - before;
  out[static_cast<int>(Watched::kGradient)] = gradient;
  F ratio = F(0.0F);
  if constexpr (kHasVariance<R>) {
    F root = square_root(x[Role::kVariance]);
    if constexpr (requires { rule.variance_scale; }) root = root * F(rule.variance_scale);
    F least = F(1e-30F);
    if constexpr (requires { rule.epsilon; }) least = F(rule.epsilon);
    ratio = gradient / larger_of(root, least);
  }
  out[static_cast<int>(Watched::kRatio)] = ratio;
}

template <class R, class F>
LPMM_HD void measure_element(const R& rule, Elements<F> x, F (&out)[kWatched]) {
  const F before = x[Role::kParameter], gradient = x[Role::kAccumulator];
  rule(x);
  measure_change(rule, before, gradient, x, out);
}

}  // namespace lpmm
