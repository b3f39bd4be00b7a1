// Learned positions of the patches of square pictures, for pictures of another size.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace lpmm {

// A table of positions (1, first + side * side, channels): those of tokens before the patches, then the
// patches'.
struct PositionGrid {
  std::int64_t first = 0, from = 0, to = 0;  // sides of the square of patches, before and after
  std::int64_t channels = 0;
};
// Describes the change of a table from one shape to another; nothing if they are not two squares of patches
// behind as many tokens, at most 2.
std::optional<PositionGrid> resampled_grid(const std::vector<std::int64_t>& from,
                                           const std::vector<std::int64_t>& to);
// The table resampled as timm does: cubic (a = -0.5), and wider where the square becomes smaller.
std::vector<float> resample_positions(const PositionGrid& grid, const std::vector<float>& table);

}  // namespace lpmm
