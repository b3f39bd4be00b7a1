// Batch norm: Ioffe & Szegedy 2015.
#pragma once

#include <string>

#include "lpmm/program/builder.h"

namespace lpmm {

// Batch norm, then the residual is added, then ReLU. Tensors `name`.weight and .bias, buffers
// .running_mean and .running_var.
Value batch_norm(ProgramBuilder& b, const std::string& name, Value x, bool relu, Value residual = {});

}  // namespace lpmm
