// Checks of the values in files of packed memory.
#pragma once

#include <optional>

#include "kernels/formats/format.h"
#include "lpmm/files/safetensors.h"

namespace lpmm {

// Throws RunError, naming the byte, where a tensor of a file holds a value that is not finite or, where
// `steps` says the format that they are of, a step that no block has. `width`: the bytes of one, 4 for fp32
// or 2 for bf16. Codes need no such check: each is valid.
void check_values(const SafetensorsFile& file, const SafetensorsEntry& entry, int width,
                  std::optional<Format> steps);

}  // namespace lpmm
