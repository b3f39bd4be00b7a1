// The end of sequences.
#pragma once

#include "lpmm/program/builder.h"

namespace lpmm {

// A vector per sequence: its last position that is there (Batch::lengths). With `pad` 0 or more, the last one
// whose token is not that, or the first where all are.
Value last(ProgramBuilder& b, Value x, int pad = -1);

}  // namespace lpmm
