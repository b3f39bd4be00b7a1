// Means of sequences.
#pragma once

#include "lpmm/program/builder.h"

namespace lpmm {

// A vector per sequence: the mean of the positions that are there (Batch::lengths); weighted, the first
// counts once, the second twice, and so on.
Value mean(ProgramBuilder& b, Value x, bool is_weighted = false);

}  // namespace lpmm
