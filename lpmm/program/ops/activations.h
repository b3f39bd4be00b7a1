// Activations: functions of one value each, or of two halves of the channels.
#pragma once

#include "kernels/compute.h"
#include "lpmm/program/builder.h"

namespace lpmm {

using kernels::Activation;

// f(x); or gated (Shazeer 2020), of the two halves a and b of the channels, f(a) * b: SwiGLU, GeGLU and so
// on.
Value activation(ProgramBuilder& b, Activation f, Value x, bool is_gated = false);
inline Value relu(ProgramBuilder& b, Value x) {
  return activation(b, Activation::kRelu, x);
}

}  // namespace lpmm
