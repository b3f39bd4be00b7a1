#include "lpmm/program/ops/sequence/grid_positions.h"

#include <algorithm>
#include <cmath>

namespace lpmm {
namespace {

std::int64_t side_of(std::int64_t count) {  // 0: no square
  const auto side = static_cast<std::int64_t>(
      std::lround(std::sqrt(static_cast<double>(std::max<std::int64_t>(count, 0)))));
  return side * side == count ? side : 0;
}

// Keys 1981, with the parameter that Pillow takes.
double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

// The weights by which a place of a new row is made from places of the old one.
struct Taps {
  std::int64_t first = 0;
  std::vector<double> weights;
};
std::vector<Taps> taps(std::int64_t from, std::int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), wide = std::max(scale, 1.0),
               reach = 2 * wide;
  std::vector<Taps> all;
  for (std::int64_t i = 0; i < to; ++i) {
    const double center = scale * (static_cast<double>(i) + 0.5);
    Taps one{std::max<std::int64_t>(0, static_cast<std::int64_t>(center - reach + 0.5)), {}};
    const std::int64_t end = std::min(from, static_cast<std::int64_t>(center + reach + 0.5));
    double sum = 0;
    for (std::int64_t k = one.first; k < end; ++k) {
      one.weights.push_back(cubic((static_cast<double>(k) - center + 0.5) / wide));
      sum += one.weights.back();
    }
    for (double& weight : one.weights) weight /= sum;
    all.push_back(std::move(one));
  }
  return all;
}

// Resamples the middle of three dimensions.
std::vector<double> along(const std::vector<double>& in, std::int64_t outer, std::int64_t from,
                          std::int64_t inner, const std::vector<Taps>& taps) {
  const std::int64_t to = std::ssize(taps);
  std::vector<double> out(static_cast<std::size_t>(outer * to * inner));
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < to; ++i) {
      const Taps& tap = taps[static_cast<std::size_t>(i)];
      for (std::size_t k = 0; k < tap.weights.size(); ++k) {
        const double* row = in.data() + (o * from + tap.first + static_cast<std::int64_t>(k)) * inner;
        double* sum = out.data() + (o * to + i) * inner;
        for (std::int64_t c = 0; c < inner; ++c) sum[c] += tap.weights[k] * row[c];
      }
    }
  }
  return out;
}

}  // namespace

std::optional<PositionGrid> resampled_grid(const std::vector<std::int64_t>& from,
                                           const std::vector<std::int64_t>& to) {
  constexpr std::int64_t kMostBefore = 2;
  if (from.size() != 3 || to.size() != 3 || from[0] != 1 || to[0] != 1 || from[2] != to[2]) return {};
  for (std::int64_t first = 0; first <= kMostBefore; ++first) {
    const std::int64_t a = side_of(from[1] - first), b = side_of(to[1] - first);
    if (a > 1 && b > 1) return PositionGrid{first, a, b, from[2]};
  }
  return {};
}

std::vector<float> resample_positions(const PositionGrid& grid, const std::vector<float>& table) {
  const std::vector<Taps> weights = taps(grid.from, grid.to);
  const auto before = table.begin() + static_cast<std::ptrdiff_t>(grid.first * grid.channels);
  const std::vector<double> patches(before, table.end());
  const std::vector<double> rows = along(patches, 1, grid.from, grid.from * grid.channels, weights),
                            all = along(rows, grid.to, grid.from, grid.channels, weights);
  std::vector<float> out(table.begin(), before);
  for (const double value : all) out.push_back(static_cast<float>(value));
  return out;
}

}  // namespace lpmm
