// The sum of two values of one shape, and a multiple of one.
#pragma once

#include "lpmm/program/builder.h"

namespace lpmm {

Value add(ProgramBuilder& b, Value x, Value y);
Value scale(ProgramBuilder& b, Value x, double factor);

}  // namespace lpmm
