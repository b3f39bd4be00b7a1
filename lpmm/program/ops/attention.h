// Attention: Vaswani et al. 2017.
#pragma once

#include "lpmm/program/builder.h"

namespace lpmm {

// Causal self-attention of the three parts of the channels: queries, keys, values. No call sees more than
// `context` positions. Dropout is of the probabilities.
Value attention(ProgramBuilder& b, Value qkv, int heads, int context, double dropout = 0);

}  // namespace lpmm
