// Batch norm: Ioffe & Szegedy 2015.
#pragma once

#include <string>

#include "lpmm/program/builder.h"

namespace lpmm {

// Batch norm, then the residual is added, then ReLU. Tensors `name`.weight and .bias, buffers
// .running_mean and .running_var. `initial_weight` is what the weight starts with: with 0, a block begins as
// its residual alone.
Value batch_norm(ProgramBuilder& b, const std::string& name, Value x, bool relu, Value residual = {},
                 double initial_weight = 1);

}  // namespace lpmm
