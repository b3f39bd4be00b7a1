// Pictures of classes into one image file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/pack/picture_list.h"
#include "lpmm/base/progress.h"
#include "lpmm/data/image_file.h"

namespace lpmm {

struct PackOptions {
  PictureSource source;  // its skips_others holds for pictures that do not decode too
  std::string output;
  PictureFrame frame{.side = 224, .edges = Edges::kTorchvision};  // scale_to 0: as the side
  int threads = 0;
};

struct Packed {
  std::int64_t train = 0, test = 0, bytes = 0;
  int classes = 0;
  std::int64_t oriented = 0;  // pictures that are stored turned or mirrored
  LeftOut broken;             // pictures, with why the first is
  PictureList list;
};

// Packs the pictures of `list`, which is of the options' source. Throws UsageError for sizes, and RunError
// naming the first picture that does not decode; then nothing is written.
Packed pack_images(const PackOptions& options, PictureList list, Progress& progress);

// Returns notes for the user: what was left out, turned, drawn for tests, not used.
std::vector<std::string> remarks(const Packed& packed, const PackOptions& options);

}  // namespace lpmm
