// Pooling over squares of an image.
#pragma once

#include "lpmm/program/builder.h"

namespace lpmm {

Value average_pool(ProgramBuilder& b, Value x, int kernel, int stride);
// Padding, below `kernel`, is never the maximum.
Value max_pool(ProgramBuilder& b, Value x, int kernel, int stride, int pad = 0);

}  // namespace lpmm
