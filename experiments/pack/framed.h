// Pictures in files, decoded and cut to the squares that a model reads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/threads/pool.h"
#include "lpmm/base/progress.h"
#include "lpmm/data/image_file.h"

namespace lpmm {

inline constexpr std::int64_t kPicturesAtOnce = 64;

struct FramedPicture {
  std::vector<std::uint8_t> pixels;  // (side, side, 3)
  bool is_oriented = false;          // its Exif data say that it is stored turned or mirrored
  std::string error;                 // why there are no pixels, beginning with its path; empty: there are
};

// The pictures of these files, in order, some at once.
std::vector<FramedPicture> framed_pictures(std::span<const std::string> paths, const PictureFrame& frame,
                                           Pool& pool);

// The values of --orient.
inline constexpr const char *kOrientExif = "exif", *kOrientStored = "as-stored";

// Shows "WORK: N %, X pictures/s, 12s left" where that is due.
ProgressCall pictures_per_second(Progress& progress, const std::string& work);

}  // namespace lpmm
