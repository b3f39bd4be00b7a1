#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace lpmm {

// Normal values of a seed; squared where they must be positive.
inline std::vector<float> normal_values(std::int64_t count, std::uint64_t seed, float scale = 1.0F,
                                        bool positive = false) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& x : values) {
    x = normal(generator);
    if (positive) x = x * x;
  }
  return values;
}

}  // namespace lpmm
