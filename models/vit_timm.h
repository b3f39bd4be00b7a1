// Vision transformers in timm's layout.
#pragma once

#include "lpmm/program/family.h"

namespace lpmm {

// A path is a safetensors file, or a folder with model.safetensors; config.json beside it is read. Sizes are
// told from the tensors, of square images; heads from config.json's model_args, else they are 64 wide, as in
// every published size. Tensors that are missing, of another shape or not known are errors.
const Published& vit_timm();

}  // namespace lpmm
