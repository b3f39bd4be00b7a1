// The averages that Adam and its kin keep of a gradient: averages of it and of its square, corrected for
// their start.
#pragma once

#include "kernels/rules/rule.h"

namespace lpmm {

// Scalars of one step.
struct AdamAverages {
  float beta1 = 0;
  float one_minus_beta1 = 1;
  float beta2 = 0;
  float one_minus_beta2 = 1;
  float variance_scale = 1;  // 1 / sqrt(1 - beta2^t)
  float epsilon = 1e-8F;
  float gradient_scale = 1;  // the clip factor

  // The divisor of the corrected momentum.
  template <class F>
  LPMM_HD F spread(const F& variance) const {
    return square_root(variance) * F(variance_scale) + F(epsilon);
  }
  LPMM_HD bool spreads_within(float least, float most, float variance) const {
    return root_within(epsilon, least, most, variance * variance_scale * variance_scale);
  }

 protected:
  // Returns 1 - beta1^t, which the momentum is to be divided by.
  template <class Settings>
  double set_averages(const Settings& s, const RuleStep& step) {
    const auto t = static_cast<double>(step.update);
    beta1 = static_cast<float>(s.beta1 * step.kept);
    one_minus_beta1 = static_cast<float>(1 - s.beta1);
    beta2 = static_cast<float>(s.beta2);
    one_minus_beta2 = static_cast<float>(1 - s.beta2);
    variance_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(s.beta2, t)));
    epsilon = static_cast<float>(s.epsilon);
    gradient_scale = static_cast<float>(step.clip);
    return 1 - std::pow(s.beta1, t);
  }
};

}  // namespace lpmm
