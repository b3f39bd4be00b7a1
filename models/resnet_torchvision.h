// ResNets in torchvision's layout, which timm shares: safetensors with their tensor names and the running
// statistics of batch norms.
#pragma once

#include "lpmm/program/family.h"

namespace lpmm {

// A path is a safetensors file, or a folder with model.safetensors. Sizes are told from the tensors. A stem
// of 3x3 has no pooling behind it. Tensors that are missing, of another shape (ResNeXt, wide ones) or not
// known are errors. Counts of batches are left out, and 0 in what is saved; config.json is timm's.
const Published& resnet_torchvision();

}  // namespace lpmm
