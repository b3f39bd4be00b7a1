// Learned factors on what a part of a layer adds: LayerScale, Touvron et al. 2021, "Going deeper with image
// transformers", section 2.
#pragma once

#include <string>

#include "lpmm/program/builder.h"

namespace lpmm {

// y = factor of the channel * x. Tensor `name` (channels), `initial` at first.
Value layer_scale(ProgramBuilder& b, const std::string& name, Value x, double initial);

}  // namespace lpmm
