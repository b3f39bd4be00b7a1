// Folders of pictures into one image file.
#pragma once

#include <cstdint>
#include <string>

#include "lpmm/base/progress.h"

namespace lpmm {

struct PackOptions {
  std::string folder, output;
  int side = 224, scale_to = 0;  // of the shorter side before the middle is cut out; 0: side
  int threads = 0;
  bool as_stored = false;  // pictures are not turned as their Exif data say
};

struct Packed {
  std::int64_t train = 0, test = 0, bytes = 0;
  int classes = 0;
  std::int64_t oriented = 0;  // pictures that are stored turned or mirrored
};

// From FOLDER/train/CLASS and FOLDER/test/CLASS, or val for test: a picture a file, classes in the order of
// their names. Files whose names begin with a dot are left out. Throws UsageError for sizes, and RunError
// naming what does not decode, an empty class, a class that only one of the two has; then nothing is written.
Packed pack_images(const PackOptions& options, const ProgressCall& progress);

}  // namespace lpmm
