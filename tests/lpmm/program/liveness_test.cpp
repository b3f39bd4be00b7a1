#include "lpmm/program/liveness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
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

// Each against all that were placed before it.
std::int64_t place_plainly(std::vector<Lifetime>& lives) {
  std::vector<Lifetime*> order;
  for (Lifetime& life : lives) order.push_back(&life);
  std::ranges::stable_sort(order, std::greater{}, &Lifetime::bytes);
  std::int64_t total = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    Lifetime& life = *order[i];
    const std::int64_t bytes = kernels::aligned(life.bytes);
    life.offset = 0;
    for (bool moved = bytes > 0; moved;) {
      moved = false;
      for (std::size_t j = 0; j < i; ++j) {
        const Lifetime& b = *order[j];
        const std::int64_t end = b.offset + kernels::aligned(b.bytes);
        if (b.end < life.begin || life.end < b.begin || end <= life.offset || life.offset + bytes <= b.offset)
          continue;
        life.offset = end;
        moved = true;
      }
    }
    total = std::max(total, life.offset + bytes);
  }
  return total;
}

TEST(Liveness, EachTakesTheLowestOffsetThatIsFree) {
  std::mt19937 generator(2);
  const auto below = [&](unsigned most) { return static_cast<int>(generator() % most); };
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<Lifetime> lives;
    const unsigned times = 1U + static_cast<unsigned>(below(60)),
                   sizes = 1U + static_cast<unsigned>(below(8));
    for (int i = below(60); i >= 0; --i) {
      const int begin = below(times) - 1;  // -1: of what nothing uses
      lives.push_back({trial % 3 == 0 ? below(3000) : 100 * below(sizes), begin, begin + below(times), 0});
    }
    std::vector<Lifetime> expected = lives;
    ASSERT_EQ(place(lives), place_plainly(expected)) << trial;
    for (std::size_t i = 0; i < lives.size(); ++i) ASSERT_EQ(lives[i].offset, expected[i].offset) << trial;
  }
}

// The lives are those of a network: values of forward live until their backward, gradients only for a while.
TEST(Liveness, TwiceTheLayersTakeTwiceTheWork) {
  const auto comparisons = [](int layers) {
    std::vector<Lifetime> lives;
    for (int i = 0; i < layers; ++i) {
      for (const std::int64_t bytes : {4096, 1024, 16384, 64}) {
        lives.push_back({bytes, i, 2 * layers - i, 0});
        lives.push_back({bytes, 2 * layers - i - 1, 2 * layers - i, 0});
      }
    }
    std::int64_t count = 0;
    place(lives, &count);
    return count;
  };
  const std::int64_t few = comparisons(500), many = comparisons(2000);
  EXPECT_LT(many, 6 * few) << few;  // 4 times and a little for the depth of the tree; squared it is 16 times
}

}  // namespace
}  // namespace lpmm
