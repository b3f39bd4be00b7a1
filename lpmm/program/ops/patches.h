// Images as sequences: Dosovitskiy et al. 2021.
#pragma once

#include <string>

#include "lpmm/program/builder.h"

namespace lpmm {

// The squares of side * side pixels of the program's input, which they must divide: 1 x patches x values, of
// each patch channel after channel, so that a projection of them has the weights of a convolution, OIHW.
Value patches(ProgramBuilder& b, Value x, int side);
// Learned positions in front of each sequence. Tensor `name` (1, count, channels), normal of deviation 0.02,
// which Muon leaves to AdamW.
Value prepend(ProgramBuilder& b, const std::string& name, Value x, int count = 1);
// `count` positions of each sequence, from `first` on; one is a vector.
Value select(ProgramBuilder& b, Value x, int first, int count = 1);

}  // namespace lpmm
