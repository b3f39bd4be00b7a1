// The cut of pictures to the squares that a model reads, as the files beside it describe it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lpmm/data/image_file.h"

namespace lpmm {

// The usual frame of published models, where no file says it: ImageNet's squares, as torchvision cuts them.
inline constexpr PictureFrame kUsualFrame = {.side = 224, .scale_to = 256, .edges = Edges::kTorchvision};

// Reads it from a folder's preprocessor_config.json, else from timm's config.json; of side 0 if neither has
// it. Throws RunError naming file and key.
PictureFrame read_frame(const std::string& folder);
// Returns how the pictures of a checkpoint's run were cut: as their image file says where it is there, else
// as the files beside the run say.
PictureFrame frame_of_run(const std::string& checkpoint);
// Returns a sentence for each setting of a folder's pictures that has no place in a frame.
std::vector<std::string> unread_of_frame(const std::string& folder);

std::string_view interpolation_name(const PictureFrame& frame);
std::string text_of(const PictureFrame& frame);  // "shorter side scaled to 256, 224 x 224 cut out"

// Writes how the pictures of `data` were cut into the preprocessor_config.json of that folder, where its
// files do not say the same.
void keep_frame(const std::string& folder, const ImageData& data);

}  // namespace lpmm
