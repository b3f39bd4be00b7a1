// Half precision, as files hold it.
#include "lpmm/files/half.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lpmm {
namespace {

TEST(Half, EveryOneComesBackAndWhatLiesBetweenIsRounded) {
  for (std::uint32_t h = 0; h < 0x7C00; ++h) {
    const auto half = static_cast<std::uint16_t>(h);
    const float x = half_to_float(half);
    ASSERT_EQ(float_to_half(x), half);
    ASSERT_EQ(float_to_half(-x), half | 0x8000U);
    if (h == 0x7BFF) break;  // the largest
    const float next = half_to_float(static_cast<std::uint16_t>(h + 1)), middle = x + (next - x) / 2;
    const auto even = static_cast<std::uint16_t>(h % 2 == 0 ? h : h + 1);
    ASSERT_EQ(float_to_half(middle), even) << h;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 0.0F)), half) << h;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 1e6F)), half + 1) << h;
  }
  EXPECT_EQ(float_to_half(65519), 0x7BFF);
  EXPECT_EQ(float_to_half(65520), 0x7C00);
  EXPECT_EQ(float_to_half(INFINITY), 0x7C00);
  EXPECT_TRUE(std::isnan(half_to_float(float_to_half(NAN))));
}

}  // namespace
}  // namespace lpmm
