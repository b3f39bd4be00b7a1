// The order of a sum of squares, the same for any threads, instruction set and backend: fp64; of a packing
// group, 16 lanes (lane i adds elements i, i + 16, ...), then the lanes as a tree; then the groups of the
// range as a binary tree over their places.
#pragma once

#include <cstdint>

#include "kernels/format.h"
#include "kernels/macros.h"

namespace lpmm {

inline constexpr int kSumLanes = 16;
inline constexpr int kPieceGroups = 8;
inline constexpr std::int64_t kPiece = kPieceGroups * kGroup;  // elements summed as one, a subtree

LPMM_HD constexpr std::int64_t pieces_of(std::int64_t elements) {
  return (elements + kPiece - 1) / kPiece;
}

// Halves the number of lanes until one is left.
LPMM_HD double sum_of_lanes(double* lanes) {
  for (int width = kSumLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}
// Adds neighbours, then neighbours of those, in place; a last one without a neighbour waits.
LPMM_HD double sum_as_tree(double* sums, std::int64_t count) {
  for (std::int64_t width = 1; width < count; width *= 2) {
    for (std::int64_t i = 0; i + width < count; i += 2 * width) sums[i] += sums[i + width];
  }
  return count > 0 ? sums[0] : 0;
}

}  // namespace lpmm
