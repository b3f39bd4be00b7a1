#include "kernels/pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <stdexcept>
#include <thread>
#include <vector>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace lpmm {
namespace {

TEST(Pool, RunsEveryItemOnce) {
  for (int threads = 1; threads <= 4; ++threads) {
    Pool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const std::int64_t items : {0, 1, 2, 1000}) {
      std::vector<std::atomic<int>> seen(static_cast<std::size_t>(items));
      std::atomic<int> bad_thread{0};
      pool.for_each(items, [&](std::int64_t i, int thread) {
        ++seen[static_cast<std::size_t>(i)];
        if (thread < 0 || thread >= threads) ++bad_thread;
      });
      for (const auto& count : seen) EXPECT_EQ(count, 1);
      EXPECT_EQ(bad_thread, 0);
    }
  }
}

TEST(Pool, RethrowsTheFirstErrorAndGoesOn) {
  for (const int threads : {1, 3}) {
    Pool pool(threads);
    EXPECT_THROW(pool.for_each(100,
                               [](std::int64_t i, int) {
                                 if (i == 7) throw std::runtime_error("seven");
                               }),
                 std::runtime_error);
    std::atomic<int> done{0};
    pool.for_each(10, [&](std::int64_t, int) { ++done; });
    EXPECT_EQ(done, 10);
  }
}

// While one is in its round the other one gets all the time that it needs to come in between.
TEST(Pool, SeveralThreadsTakeTurns) {
  Pool pool(2);
  std::atomic<bool> first_began{false}, second_began{false}, both{false};
  std::vector<std::atomic<int>> first(20), second(20);
  std::thread other([&] {
    while (!first_began) std::this_thread::yield();
    pool.for_each(20, [&](std::int64_t i, int) {
      second_began = true;
      ++second[static_cast<std::size_t>(i)];
    });
  });
  pool.for_each(20, [&](std::int64_t i, int) {
    first_began = true;
    for (int look = 0; look < 500 && !second_began; ++look) std::this_thread::yield();
    if (second_began) both = true;
    ++first[static_cast<std::size_t>(i)];
  });
  other.join();
  EXPECT_FALSE(both);
  for (const auto& count : first) EXPECT_EQ(count, 1);
  for (const auto& count : second) EXPECT_EQ(count, 1);
}

TEST(Pool, TakesAllProcessorsByDefault) {
  EXPECT_GE(Pool().threads(), 1);
}

#if defined(__SSE2__)
TEST(Pool, KeepsDenormalsInEveryThread) {
  const unsigned old = _mm_getcsr();
  _mm_setcsr(old | 0x8040U);
  for (const int threads : {1, 3}) {
    Pool pool(threads);
    std::atomic<int> flushed{0};
    pool.for_each(64, [&](std::int64_t, int) {
      volatile float x = std::numeric_limits<float>::min();
      const volatile float y = x / 4.0F;
      if (y == 0.0F) ++flushed;
    });
    EXPECT_EQ(flushed, 0);
  }
  EXPECT_EQ(_mm_getcsr() & 0x8040U, 0x8040U);
  _mm_setcsr(old);
}
#endif

}  // namespace
}  // namespace lpmm
