// Learned positions by themselves, where something stands between them and the tokens' embedding, which else
// adds them itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lpmm/program/builder.h"

namespace lpmm {

// y = x + the row of each one's position, counted from `first`. Tensor `name` of that shape, rows of
// channels, normal of deviation 0.02. Positions are those in `documents` (document_table()) where there are
// some.
Value add_positions(ProgramBuilder& b, const std::string& name, Value x, std::vector<std::int64_t> shape,
                    std::int64_t first = 0, Value documents = {});

}  // namespace lpmm
