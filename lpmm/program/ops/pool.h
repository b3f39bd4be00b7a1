// Pooling over squares of an image, without padding.
#pragma once

#include "lpmm/program/builder.h"

namespace lpmm {

Value average_pool(ProgramBuilder& b, Value x, int kernel, int stride);
Value max_pool(ProgramBuilder& b, Value x, int kernel, int stride);

}  // namespace lpmm
