#include "lpmm/base/progress.h"

#include <gtest/gtest.h>

namespace lpmm {
namespace {

TEST(Progress, Figures) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1500), "1.5 kB");
  EXPECT_EQ(format_bytes(123456789), "123 MB");
  EXPECT_EQ(format_time(12.4), "12s");
  EXPECT_EQ(format_time(185), "3m05s");
  EXPECT_EQ(format_time(3720), "1h02m");
  EXPECT_EQ(format_time(-1), "0s");
}

TEST(Progress, OfWhatNobodyKnowsTheSizeOfIsACount) {
  testing::internal::CaptureStderr();
  Progress progress(false);
  progress.share_of("reading")(7, 0);
  EXPECT_EQ(testing::internal::GetCapturedStderr().find("reading: 7 so far"), 0U);
}

}  // namespace
}  // namespace lpmm
