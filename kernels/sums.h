// The order of a sum of squares, the same for any threads, instruction set and backend: fp64; of a packing
// group, 16 lanes (lane i adds elements i, i + 16, ...), then the lanes as a tree; then the groups of the
// range as a binary tree over their places.
//
// The sums of each row and column of a matrix: a row has 128 lanes (lane i adds columns i, i + 128, ...),
// then the lanes as a tree; a column at most 16 chunks of neighbouring rows, of 64 rows at least, each row
// after row, then the chunks in order. The sum of one number per row is that of a row.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/formats/format.h"
#include "kernels/macros.h"

namespace lpmm {

inline constexpr int kSumLanes = 16;
inline constexpr int kUnitGroups = 8;
inline constexpr std::int64_t kUnit =
    kUnitGroups * kGroup;  // elements whose squares are summed as one, a subtree

LPMM_HD constexpr std::int64_t units_of(std::int64_t elements) {
  return (elements + kUnit - 1) / kUnit;
}

// Halves the number of lanes until one is left.
template <int kLanes = kSumLanes>
LPMM_HD double sum_of_lanes(double* lanes) {
  for (int width = kLanes / 2; width > 0; width /= 2) {
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
// The same order for terms that are made when their turn comes, one or `leaf` at once: load(i, n, room) puts
// the sum of n terms, from term i on, into a room, load_more(i, n, room, free) adds it to what is in a room
// and may use a free one, add(to, from) adds a room to another. The sum comes to room `to`; those from `next`
// on are used, one for each level.
template <class Load, class LoadMore, class Add>
void add_as_tree(int first, int count, int leaf, int to, int next, const Load& load,
                 const LoadMore& load_more, const Add& add) {
  if (count == 1 || count == leaf) return load(first, count, to);
  const int left = static_cast<int>(std::bit_floor(static_cast<unsigned>(count - 1))), right = count - left;
  add_as_tree(first, left, leaf, to, next, load, load_more, add);
  if (right == 1 || right == leaf) return load_more(first + left, right, to, next);
  add_as_tree(first + left, right, leaf, next, next + 1, load, load_more, add);
  add(to, next);
}

inline constexpr int kRowLanes = 128;
inline constexpr int kMostRowChunks = 16;
inline constexpr int kLeastRowsOfChunk = 64;  // so that the sums of columns are small beside the tensor

LPMM_HD constexpr std::int64_t rows_of_chunk(std::int64_t rows) {
  const std::int64_t even = (rows + kMostRowChunks - 1) / kMostRowChunks;
  return even > kLeastRowsOfChunk ? even : kLeastRowsOfChunk;
}
LPMM_HD constexpr std::int64_t row_chunks(std::int64_t rows) {
  return (rows + rows_of_chunk(rows) - 1) / rows_of_chunk(rows);
}
// The workspace that the sums of all columns take while they are computed.
constexpr std::int64_t column_sum_bytes(std::int64_t rows, std::int64_t columns) {
  return static_cast<std::int64_t>(sizeof(double)) * row_chunks(rows) * columns;
}

}  // namespace lpmm
