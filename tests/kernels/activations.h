// Helpers of the compute layer's tests: seeded values, comparisons, finite differences.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "tests/kernels/device_array.h"

namespace lpmm::kernels {

inline Floats random_floats(std::int64_t count, unsigned seed, float scale = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Floats v(static_cast<std::size_t>(count));
  for (float& x : v) x = scale * normal(generator);
  return v;
}
inline void expect_near(const Floats& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  double largest = 0;
  for (const double w : want) largest = std::max(largest, std::abs(w));
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], tolerance * largest + 1e-12) << "element " << i;
  }
}

// d(sum r * f(x)) / dx by central differences, at some elements, against `gradient`.
inline void expect_gradient(Floats x, const Floats& gradient, float h, double tolerance,
                            const std::function<double(const Floats&)>& weighted, std::size_t probes = 97) {
  double largest = 0;
  for (const float g : gradient) largest = std::max<double>(largest, std::abs(g));
  const std::size_t stride = std::max<std::size_t>(1, x.size() / probes);
  for (std::size_t i = 0; i < x.size(); i += stride) {
    const float keep = x[i];
    x[i] = keep + h;
    const double up = weighted(x);
    x[i] = keep - h;
    const double down = weighted(x);
    x[i] = keep;
    ASSERT_NEAR(gradient[i], (up - down) / (2 * h), tolerance * (largest + 0.1)) << "element " << i;
  }
}
inline double dot(const Floats& a, const Floats& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

}  // namespace lpmm::kernels
