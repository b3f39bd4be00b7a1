// Means of sequences.
#pragma once

#include "lpmm/program/builder.h"

namespace lpmm {

// A vector per sequence: the mean of the positions that are there (Batch::lengths).
Value mean(ProgramBuilder& b, Value x);

}  // namespace lpmm
