// The images or vectors of a batch.
#pragma once

#include "lpmm/program/builder.h"

namespace lpmm {

// The images or vectors of one microbatch, in the type of compute.
Value input(ProgramBuilder& b, int height, int width, int channels);

}  // namespace lpmm
