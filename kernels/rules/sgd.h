// SGD with momentum, dampening, Nesterov and either kind of decay (Sutskever et al. 2013; PyTorch's
// convention m <- mu*m + (1-dampening)*g, first step m = g).
#pragma once

#include "kernels/format.h"
#include "kernels/macros.h"

namespace lpmm {

struct Sgd {
  // Scalars of one step, computed on the host. With momentum 0 there is no state and m is not read.
  float learning_rate = 0;
  float momentum = 0;
  float gradient_weight = 1;  // 1 - dampening, 1 on the first step
  float coupled_decay = 0;    // g += coupled_decay * p
  float decay_factor = 1;     // p *= decay_factor (decoupled: 1 - lr * decay)
  float nesterov = 0;         // 0 or 1
  float gradient_scale = 1;   // the clip factor
  float feedback = 0;         // of the parameter's rounding error; 0: none

  // F is float or a vector of floats with +, -, * and construction from float. No fused operations: every
  // level and backend rounds alike.
  template <class F>
  LPMM_HD void operator()(F& p, F g, F& m, F& /*v*/) const {
    g = g * F(gradient_scale);
    if (coupled_decay != 0.0F) g = g + F(coupled_decay) * p;
    if (decay_factor != 1.0F) p = p * F(decay_factor);
    if (momentum != 0.0F) {
      m = F(momentum) * m + F(gradient_weight) * g;
      g = nesterov != 0.0F ? g + F(momentum) * m : m;
    }
    p = p - F(learning_rate) * g;
  }
  // ECO (2026): what rounding took from the parameter, `error` = wanted - stored, comes back through the
  // momentum.
  template <class F>
  LPMM_HD F feed_back(F error, F m, F /*v*/) const {
    return m - F(feedback) * error;
  }
};

}  // namespace lpmm
