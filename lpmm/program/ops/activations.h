// Activations: functions of one value each.
#pragma once

#include "lpmm/program/builder.h"

namespace lpmm {

Value relu(ProgramBuilder& b, Value x);
// The tanh form: Hendrycks & Gimpel 2016, as GPT-2 has it.
Value gelu(ProgramBuilder& b, Value x);

}  // namespace lpmm
