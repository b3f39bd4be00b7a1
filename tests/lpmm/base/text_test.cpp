#include "lpmm/base/text.h"

#include <gtest/gtest.h>

#include <array>

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
  EXPECT_EQ(closest_name("quite another", kNames), "states8");
  EXPECT_EQ(nearest_name("quite another", kNames), "");
  EXPECT_EQ(nearest_name("", kNames), "");
  EXPECT_EQ(nearest_name("x", {}), "");
  constexpr std::string_view kRules[] = {"sgd", "rn"};
  EXPECT_EQ(nearest_name("sdg", kRules), "sgd");
  EXPECT_EQ(nearest_name("lin", std::array<std::string_view, 2>{"cosine", "linear"}), "linear");
  EXPECT_EQ(nearest_name("x", kRules), "");
  // A pattern is near to what it would match but for a slip.
  constexpr std::string_view kTensors[] = {"hidden.weight", "layer1.0.weight"};
  EXPECT_EQ(nearest_name("hiden*", kTensors), "hidden.weight");
  EXPECT_EQ(nearest_name("layer1.*.wight", kTensors), "layer1.0.weight");
  EXPECT_EQ(nearest_name("attention*", kTensors), "");
  EXPECT_EQ(nearest_name("nothing*", kTensors), "");
  EXPECT_EQ(did_you_mean("a"), "; did you mean a?");
  EXPECT_EQ(did_you_mean(""), "");
  EXPECT_EQ(did_you_mean_or_some("hiden*", kTensors), "; did you mean hidden.weight?");
  EXPECT_EQ(did_you_mean_or_some("attention*", kTensors), "; there are hidden.weight, layer1.0.weight");
  constexpr std::string_view kMany[] = {"a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9"};
  EXPECT_EQ(did_you_mean_or_some("nothing", kMany), "; there are a1, a2, a3, a4, a5, a6, a7, a8...");
}

}  // namespace
}  // namespace lpmm
