// Adam (Kingma & Ba 2015) with coupled decay, AdamW (Loshchilov & Hutter 2019) with decoupled decay.
#pragma once

#include "kernels/format.h"
#include "kernels/macros.h"

namespace lpmm {

struct Adam {
  // Scalars of one step, computed on the host.
  float step_size = 0;  // learning rate / (1 - beta1^t)
  float beta1 = 0;
  float one_minus_beta1 = 1;
  float beta2 = 0;
  float one_minus_beta2 = 1;
  float variance_scale = 1;  // 1 / sqrt(1 - beta2^t)
  float epsilon = 1e-8F;
  float coupled_decay = 0;   // Adam: g += coupled_decay * p
  float decay_factor = 1;    // AdamW: p *= 1 - lr * decay
  float gradient_scale = 1;  // the clip factor
  float feedback = 0;        // as in Sgd

  // F as in Sgd, with / and square_root(F) besides.
  template <class F>
  LPMM_HD void operator()(F& p, F g, F& m, F& v) const {
    g = g * F(gradient_scale);
    if (coupled_decay != 0.0F) g = g + F(coupled_decay) * p;
    if (decay_factor != 1.0F) p = p * F(decay_factor);
    m = F(beta1) * m + F(one_minus_beta1) * g;
    v = F(beta2) * v + F(one_minus_beta2) * (g * g);
    p = p - F(step_size) * (m / (square_root(v) * F(variance_scale) + F(epsilon)));
  }
  template <class F>
  LPMM_HD F feed_back(F error, F m, F v) const {
    return m - F(feedback) * (square_root(v) * F(variance_scale) + F(epsilon)) * error;
  }
};

}  // namespace lpmm
