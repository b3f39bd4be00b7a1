// Pictures from JPEG and PNG files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lpmm/data/image_file.h"

namespace lpmm {

// Red, green and blue of every pixel, line after line.
struct DecodedPicture {
  int height = 0, width = 0;
  std::vector<std::uint8_t> pixels;
};

// Decodes a JPEG or PNG, told apart by their first bytes (formats.h), to the colours that convert("RGB") of
// Pillow gives: grey becomes colour, of 16 bits the upper 8 stay (but plain grey is cut at 255), transparency
// is left out, gamma and profiles are not looked at. Throws RunError that begins with `name`: neither of
// them, damaged or cut off, without colours (CMYK), a side above 32,767 or more than 2^28 pixels, a JPEG of
// over 100 scans.
DecodedPicture decode_picture(std::span<const std::uint8_t> file, const std::string& name);

// The picture as its Exif orientation (1 to 8, see exif.h) says that it is to be seen.
DecodedPicture turned(DecodedPicture picture, int orientation);

// The middle side x side pixels of the picture whose shorter side, or both, was scaled to `scale_to`, at
// least `side`. Every pixel is the mean of what it covers, weighted by the filter of the interpolation (for
// bicubic Keys' of a = -1/2), first along lines, then across them, in 8 bits in between: as Pillow's.
std::vector<std::uint8_t> scaled_square(const DecodedPicture& picture, const PictureFrame& frame);

}  // namespace lpmm
