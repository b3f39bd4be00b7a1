#include "experiments/quantiles/expanded.h"

#include <algorithm>
#include <cmath>

#include "experiments/quantiles/code_book.h"

namespace lpmm {
namespace {

constexpr double kParts = 16;  // powers are multiples of 1 / 16
// The octaves from E4M3's smallest value that is not 0 after rounding down by half to its largest, as COAT
// takes it.
const double kOctaves = std::log2(448.0 * 448.0 / 2);

}  // namespace

double expansion_power(double smallest, double largest) {
  if (largest == smallest) return 1;
  return std::max(1.0, std::floor(kParts * kOctaves / std::log2(largest / smallest))) / kParts;
}

std::vector<float> stored_expanded(std::span<const float> values, int block) {
  static const Levels kLevels = levels_of({Map::kE4m3, 8});
  std::vector<float> read(values.size());
  for (std::size_t first = 0; first < values.size(); first += static_cast<std::size_t>(block)) {
    const auto x = values.subspan(first, std::min(static_cast<std::size_t>(block), values.size() - first));
    double largest = 0, smallest = HUGE_VAL;
    for (const float value : x) {
      const double size = std::abs(static_cast<double>(value));
      largest = std::max(largest, size);
      if (size > 0) smallest = std::min(smallest, size);
    }
    if (largest == 0) continue;
    const double power = expansion_power(smallest, largest);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double share = std::pow(std::abs(static_cast<double>(x[i])) / largest, power);
      const double level = kLevels[nearest_level(kLevels, static_cast<float>(share))];
      read[first + i] = static_cast<float>(std::copysign(largest * std::pow(level, 1 / power), x[i]));
    }
  }
  return read;
}

}  // namespace lpmm
