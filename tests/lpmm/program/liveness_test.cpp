#include "lpmm/program/liveness.h"

#include <gtest/gtest.h>

#include <random>

#include "kernels/compute.h"

namespace lpmm {
namespace {

TEST(Liveness, NothingThatMeetsOverlaps) {
  std::mt19937 generator(1);
  std::vector<Lifetime> lives;
  std::int64_t sum = 0;
  for (int i = 0; i < 200; ++i) {
    const int begin = static_cast<int>(generator() % 100);
    lives.push_back({static_cast<std::int64_t>(generator() % 5000), begin,
                     begin + static_cast<int>(generator() % 20), 0});
    sum += kernels::aligned(lives.back().bytes);
  }
  const std::int64_t total = place(lives);
  for (const Lifetime& a : lives) {
    EXPECT_EQ(a.offset % 64, 0);
    EXPECT_LE(a.offset + a.bytes, total);
    for (const Lifetime& b : lives) {
      if (&a == &b || a.end < b.begin || b.end < a.begin) continue;
      EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset);
    }
  }
  EXPECT_LT(total, sum / 3);
}

}  // namespace
}  // namespace lpmm
