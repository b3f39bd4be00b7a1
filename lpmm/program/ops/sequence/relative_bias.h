// A bias of attention by the distance from a position to what it sees: Raffel et al. 2020.
#pragma once

#include <cstdint>
#include <string>

#include "lpmm/program/builder.h"

namespace lpmm {

// Distances share rows of the table: 16 of what comes before a position, itself first, and 16 of what comes
// behind it. In each, the first eight are of one distance, the others of distances that grow by a factor
// of the root of 2, and the last is of all from 91 on.
inline constexpr int kBiasRows = 32;
int bias_row(std::int64_t distance);  // of the seen position less that which sees it

// For AttentionConfig::bias of layers of sequences of `length`, which all share it. Tensor `name`.weight
// (kBiasRows, heads), normal of deviation 0.02.
Value relative_bias(ProgramBuilder& b, const std::string& name, int heads, int length);

}  // namespace lpmm
