// Positions that are not learned: Vaswani et al. 2017.
#pragma once

#include "lpmm/program/builder.h"

namespace lpmm {

// factor * x plus the sines and cosines of each position: channel i of d has the sine of position * 10000^(-2
// i / d) in the first half (of an odd d the larger), and channel half + i its cosine, as Marian lays them
// out. `is_whole`: inference has the whole of x in its first call, and counts from 0.
Value add_sinusoids(ProgramBuilder& b, Value x, double factor, bool is_whole = false);

}  // namespace lpmm
