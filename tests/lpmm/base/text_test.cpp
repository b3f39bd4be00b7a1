#include "lpmm/base/text.h"

#include <gtest/gtest.h>

namespace lpmm {
namespace {

TEST(Text, PatternsAndNearestNames) {
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_TRUE(matches_pattern("layer?.*.weight", "layer1.0.conv1.weight"));
  EXPECT_TRUE(matches_pattern("*a*b", "aab.ab"));
  EXPECT_FALSE(matches_pattern("layer?.*.weight", "layer12.0.weight"));
  EXPECT_FALSE(matches_pattern("conv", "conv1"));
  EXPECT_FALSE(matches_pattern("a?", "a"));
  EXPECT_FALSE(matches_pattern("", "a"));
  EXPECT_TRUE(matches_pattern("*", "a/b.c/.d"));
  EXPECT_TRUE(matches_pattern("a?b", "a/b"));
  EXPECT_TRUE(matches_pattern("?hidden", ".hidden"));
  EXPECT_TRUE(matches_pattern("a[12]*", "a[12]3"));
  EXPECT_FALSE(matches_pattern("a[12]", "a1"));
  EXPECT_TRUE(matches_pattern("a\\*", "a\\b"));
  EXPECT_FALSE(matches_pattern("a\\b", "ab"));
  constexpr std::string_view kNames[] = {"lpmm", "lpmm-compact", "states8"};
  EXPECT_EQ(nearest_name("lpmm-compct", kNames), "lpmm-compact");
  EXPECT_EQ(nearest_name("state", kNames), "states8");
}

}  // namespace
}  // namespace lpmm
