// Shortcuts of residual networks without weights of their own.
#pragma once

#include "lpmm/program/builder.h"

namespace lpmm {

// Every stride-th pixel, new channels zero: He et al. 2016, option A.
Value shortcut(ProgramBuilder& b, Value x, int channels, int stride);

}  // namespace lpmm
