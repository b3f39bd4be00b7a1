// Reads from Exif data how the camera was held.
#pragma once

#include <cstdint>
#include <span>

namespace lpmm {

// The orientation of a JPEG (in its first Exif segment) or a PNG (eXIf): 1 as stored, 2 to 8 mirrored or
// turned (Exif 2.3, tag 0x0112). 1 where a file says none, or none that there is.
int exif_orientation(std::span<const std::uint8_t> file);

}  // namespace lpmm
