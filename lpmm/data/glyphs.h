// One image of the drawn set: a glyph of one of ten classes (ring, open ring, triangle, square, plus, T, Y,
// Z, H, E) under a random affine warp, coloured by gradients, among clutter strokes, with soft edges and
// noise. No class is another's mirror image, so that flipping keeps the label.
#pragma once

#include <cstdint>

namespace lpmm {

// Writes 32 x 32 x 3 bytes. A pure function of its arguments, in IEEE fp32 without library functions but the
// square root, so that every machine draws the same bytes. `split` keeps training and test images apart.
void draw_glyph(std::uint64_t seed, std::uint32_t split, std::uint32_t index, int label, std::uint8_t* out);

}  // namespace lpmm
