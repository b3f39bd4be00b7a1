// Batch norm: Ioffe & Szegedy 2015.
#pragma once

#include <string>

#include "lpmm/program/builder.h"

namespace lpmm {

struct BatchNormOptions {
  double initial_weight = 1;  // with 0, a block begins as its residual alone
  bool frozen = false;        // norm by the running statistics in training too, and leave them as they are
};

// Batch norm, then the residual is added, then ReLU. Tensors `name`.weight and .bias, buffers
// .running_mean and .running_var.
Value batch_norm(ProgramBuilder& b, const std::string& name, Value x, bool relu, Value residual = {},
                 const BatchNormOptions& options = {});

}  // namespace lpmm
