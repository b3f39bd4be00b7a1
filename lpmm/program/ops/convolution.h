// Convolutions over images.
#pragma once

#include <string>

#include "lpmm/program/builder.h"

namespace lpmm {

// Square kernel, padding kernel / 2, no bias. Tensor `name`.weight, OIHW, He normal over fan-out.
Value convolution(ProgramBuilder& b, const std::string& name, Value x, int channels, int kernel, int stride);

}  // namespace lpmm
