#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <tuple>
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

// The same, kept: for tests that train on one set of gradients again and again.
inline const std::vector<float>& kept_normal_values(std::int64_t count, std::uint64_t seed, float scale) {
  static std::map<std::tuple<std::int64_t, std::uint64_t, float>, std::vector<float>> kept;
  std::vector<float>& values = kept[{count, seed, scale}];
  if (values.empty()) values = normal_values(count, seed, scale);
  return values;
}

}  // namespace lpmm
