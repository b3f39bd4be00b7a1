// Layer norm: Ba, Kiros & Hinton 2016.
#pragma once

#include <string>

#include "lpmm/program/builder.h"

namespace lpmm {

// Over channels. Tensors `name`.weight and .bias.
Value layer_norm(ProgramBuilder& b, const std::string& name, Value x);

}  // namespace lpmm
