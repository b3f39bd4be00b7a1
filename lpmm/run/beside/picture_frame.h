// The cut of pictures to the squares that a model reads, as the files beside it describe it.
#pragma once

#include <string>

#include "lpmm/data/image_file.h"

namespace lpmm {

// The usual frame of published models, where no file says it: ImageNet's squares, as torchvision cuts them.
inline constexpr PictureFrame kUsualFrame = {224, 256};

// Reads it from a folder's preprocessor_config.json, else from timm's config.json; of side 0 if neither has
// it. Throws RunError naming file and key.
PictureFrame read_frame(const std::string& folder);

// Writes how the pictures of `data` were cut into the preprocessor_config.json of that folder, where its
// files do not say the same.
void keep_frame(const std::string& folder, const ImageData& data);

}  // namespace lpmm
