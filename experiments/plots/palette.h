// PNG files with a palette, by libpng.
#pragma once

#include <string>

namespace lpmm {

// The picture `png`, opaque, with at most 256 colours: a third of the bytes. Colours that fill areas stay as
// they are; where there are more, the others go to the nearest of those kept. Throws RunError for what is no
// PNG.
std::string palette_png(const std::string& png);

}  // namespace lpmm
