// Convolutions over images.
#pragma once

#include <string>

#include "lpmm/program/builder.h"

namespace lpmm {

// Square kernel, padding kernel / 2, no bias. Tensor `name`.weight, OIHW, He normal over fan-out. In `groups`
// (Xie et al. 2017, section 3), which divide both numbers of channels, each group of outputs reads the group
// of inputs at its place, and the tensor has channels of the input for one group; one after the other is
// computed.
Value convolution(ProgramBuilder& b, const std::string& name, Value x, int channels, int kernel, int stride,
                  int groups = 1);

}  // namespace lpmm
