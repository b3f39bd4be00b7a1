// Norms over channels.
#pragma once

#include <string>

#include "lpmm/program/builder.h"

namespace lpmm {

// Layer norm: Ba, Kiros & Hinton 2016. Tensors `name`.weight and .bias.
Value layer_norm(ProgramBuilder& b, const std::string& name, Value x, double epsilon = 1e-5);
// RMS norm: Zhang & Sennrich 2019. Tensor `name`.weight.
Value rms_norm(ProgramBuilder& b, const std::string& name, Value x, double epsilon = 1e-5);

}  // namespace lpmm
