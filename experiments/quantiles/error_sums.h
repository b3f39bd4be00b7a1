// Errors of what is stored against what came in, summed in the order of the elements.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

namespace lpmm {

// Mean and deviation of values, by their sums.
struct Moments {
  std::int64_t count = 0;
  double sum = 0, squares = 0;

  void add(std::span<const float> values) {
    count += std::ssize(values);
    for (const float v : values) {
      sum += v;
      squares += static_cast<double>(v) * v;
    }
  }
  double deviation() const {
    const double mean = sum / static_cast<double>(count);
    return std::sqrt(std::max(0.0, squares / static_cast<double>(count) - mean * mean));
  }
};

struct ErrorSums {
  double tail = 0;  // magnitudes above it are of the tail
  std::int64_t count = 0, nonzero = 0, zeroed = 0, in_tail = 0;
  double absolute = 0, relative = 0, largest = 0, difference = 0, tail_absolute = 0;

  void add(float before, float after) {
    const double error = static_cast<double>(after) - before;
    ++count;
    difference += error;
    absolute += std::abs(error);
    largest = std::max(largest, std::abs(error));
    if (std::abs(before) > tail) {
      ++in_tail;
      tail_absolute += std::abs(error);
    }
    if (before == 0.0F) return;
    ++nonzero;
    relative += std::abs(error / before);
    zeroed += after == 0.0F ? 1 : 0;
  }
  double mean() const { return absolute / static_cast<double>(std::max<std::int64_t>(1, count)); }
  double tail_mean() const { return tail_absolute / static_cast<double>(std::max<std::int64_t>(1, in_tail)); }
};
inline constexpr double kTailDeviations = 3;

}  // namespace lpmm
