// Pictures from JPEG and PNG files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lpmm {

// Red, green and blue of every pixel, line after line.
struct DecodedPicture {
  int height = 0, width = 0;
  std::vector<std::uint8_t> pixels;
};

// Decodes a JPEG or PNG, told apart by their first bytes. Grey becomes colour; transparency is drawn over
// black. Throws RunError that begins with `name`: neither of them, damaged or cut off, without colours
// (CMYK), a side above 32,767 or more than 2^28 pixels.
DecodedPicture decode_picture(std::span<const std::uint8_t> file, const std::string& name);

// The middle side x side pixels of the picture whose shorter side was scaled to `scale_to`, at least `side`.
// Every pixel is the mean of what it covers, weighted by a triangle (bilinear, antialiased).
std::vector<std::uint8_t> scaled_square(const DecodedPicture& picture, int scale_to, int side);

}  // namespace lpmm
