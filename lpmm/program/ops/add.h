// The sum of two values of one shape.
#pragma once

#include "lpmm/program/builder.h"

namespace lpmm {

Value add(ProgramBuilder& b, Value x, Value y);

}  // namespace lpmm
