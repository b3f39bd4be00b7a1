// Learned positions by themselves, where something stands between them and the tokens' embedding, which else
// adds them itself.
#pragma once

#include <string>

#include "lpmm/program/builder.h"

namespace lpmm {

// y = x + the row of each one's position. Tensor `name`.weight (context, channels), normal of deviation 0.02.
Value add_positions(ProgramBuilder& b, const std::string& name, Value x, int context);

}  // namespace lpmm
