// Embeddings of the sentence that a token belongs to: Devlin et al. 2019.
#pragma once

#include <string>

#include "lpmm/program/builder.h"

namespace lpmm {

// Adds to each position the row of its type (Batch::types; none: type 0). Tensor `name`.weight (types,
// channels), normal of deviation 0.02.
Value add_types(ProgramBuilder& b, const std::string& name, Value x, int types);

}  // namespace lpmm
