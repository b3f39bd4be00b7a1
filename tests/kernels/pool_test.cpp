#include "kernels/threads/pool.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <thread>
#include <vector>

#include "kernels/threads/processors.h"
#include "tests/sanitized.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace lpmm {
namespace {

TEST(ThreadPool, RunsEveryItemOnce) {
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

// Workers that come late find the next call, or the end, in place of the one that they were woken for.
TEST(ThreadPool, ShortCallsFollowEachOther) {
  for (int round = 0; round < 50; ++round) {
    Pool pool(4);
    for (std::int64_t items = 2; items < 10; ++items) {
      std::vector<int> seen(static_cast<std::size_t>(items));
      pool.for_each(items, [&](std::int64_t i, int) { ++seen[static_cast<std::size_t>(i)]; });
      EXPECT_EQ(seen, std::vector<int>(static_cast<std::size_t>(items), 1));
    }
  }
}

// What OpenMP does, or with one thread fewer than it is asked for.
int calls_of_teams = 0;
template <unsigned kFewer>
void team_of_threads(void (*work)(void*), void* data, unsigned threads, unsigned) {
  ++calls_of_teams;
  std::vector<std::thread> others;
  for (unsigned t = 1; t + kFewer < threads; ++t) others.emplace_back(work, data);
  work(data);
  for (std::thread& other : others) other.join();
}

TEST(ThreadPool, TakesTheThreadsOfATeam) {
  for (const Team team : {team_of_threads<0>, team_of_threads<1>}) {
    Pool pool(3, team);
    EXPECT_EQ(pool.threads(), 3);
    calls_of_teams = 0;
    std::vector<std::atomic<int>> seen(1000);
    std::array<std::atomic<int>, 3> entered{};
    pool.for_each(1000, [&](std::int64_t i, int thread) {
      ++seen[static_cast<std::size_t>(i)];
      ++entered.at(static_cast<std::size_t>(thread));
    });
    for (const auto& count : seen) EXPECT_EQ(count, 1);
    EXPECT_EQ(entered[0] + entered[1] + entered[2], 1000);
    EXPECT_EQ(calls_of_teams, 1);
    if (team == team_of_threads<1>) {
      EXPECT_EQ(entered[2], 0);
    }
    EXPECT_THROW(pool.for_each(100,
                               [](std::int64_t i, int) {
                                 if (i == 7) throw std::runtime_error("seven");
                               }),
                 std::runtime_error);
  }
}

// Each item waits for the other one, which only another thread can take.
TEST(ThreadPool, ATeamWorksAtOnce) {
  Pool pool(2, team_of_threads<0>);
  std::atomic<int> come{0};
  std::array<int, 2> threads{};
  pool.for_each(2, [&](std::int64_t i, int thread) {
    threads.at(static_cast<std::size_t>(i)) = thread;
    for (++come; come < 2;) std::this_thread::yield();
  });
  EXPECT_EQ(come, 2);
  EXPECT_EQ(threads[0] + threads[1], 1) << "each has a number of its own";
}

std::array<int, 2> pipe_of_held;
std::atomic<int> held{0};

// Keeps a thread from running, as other programs do: until something is written, or for 10 seconds.
void hold(int) {
  ++held;
  pollfd released{.fd = pipe_of_held[0], .events = POLLIN, .revents = 0};
  poll(&released, 1, 10'000);
  --held;
}

TEST(ThreadPool, WaitsForNoThreadThatHasNotCome) {
  if (kSanitized) GTEST_SKIP() << "ThreadSanitizer delivers signals late";
  ASSERT_EQ(pipe(pipe_of_held.data()), 0);
  struct sigaction action = {}, before = {};
  action.sa_handler = hold;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  Pool pool(3);
  std::array<pthread_t, 3> threads;
  std::atomic<int> come{0};
  pool.for_each(3, [&](std::int64_t, int thread) {
    threads[static_cast<std::size_t>(thread)] = pthread_self();
    for (++come; come < 3;) sched_yield();
  });
  for (const std::size_t worker : {1, 2}) ASSERT_EQ(pthread_kill(threads[worker], SIGUSR1), 0);
  while (held < 2) sched_yield();
  std::atomic<int> done{0};
  pool.for_each(10, [&](std::int64_t, int) { ++done; });
  EXPECT_EQ(done, 10);
  EXPECT_EQ(held, 2) << "the call waited until its workers could run";
  ASSERT_EQ(write(pipe_of_held[1], "x", 1), 1);
  while (held > 0) sched_yield();
  sigaction(SIGUSR1, &before, nullptr);
  for (const int end : pipe_of_held) close(end);
}

TEST(ThreadPool, RethrowsTheFirstErrorAndGoesOn) {
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
TEST(ThreadPool, SeveralThreadsTakeTurns) {
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
    for (int spin = 0; spin < 500 && !second_began; ++spin) std::this_thread::yield();
    if (second_began) both = true;
    ++first[static_cast<std::size_t>(i)];
  });
  other.join();
  EXPECT_FALSE(both);
  for (const auto& count : first) EXPECT_EQ(count, 1);
  for (const auto& count : second) EXPECT_EQ(count, 1);
}

TEST(ThreadPool, TakesAllProcessorsByDefault) {
  EXPECT_GE(Pool().threads(), 1);
}

TEST(Processors, AreThoseThatTheSmallestQuotaPaysFor) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / "lpmm_processors_test";
  fs::create_directories(folder / "a/b");
  const auto write = [&](const char* file, const char* text) { std::ofstream(folder / file) << text; };
  const auto processors = [&](const char* group) { return processors_of_quota(folder.string(), group); };
  constexpr int kNoLimit = std::numeric_limits<int>::max();
  EXPECT_EQ(processors("/a/b"), kNoLimit);
  write("a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(processors("/a/b"), kNoLimit);
  write("a/cpu.max", "250000 100000\n");
  EXPECT_EQ(processors("/a/b"), 3);
  write("a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(processors("/a/b"), 1);
  EXPECT_EQ(processors("/a"), 3);
  EXPECT_EQ(processors("/"), kNoLimit);
  write("cpu.max", "200000 100000\n");
  for (const char* group : {"", "/", "/a", "/not/there"}) EXPECT_EQ(processors(group), 2) << group;
  for (const char* bad : {"", "many", "1", "0 0", "-5 100000", "5 -1", "99999999999999999999 1"}) {
    write("cpu.max", bad);
    EXPECT_EQ(processors("/"), kNoLimit) << bad;
  }
  write("groups", "4:memory:/elsewhere\n0::/a/b\n");
  EXPECT_EQ(control_group((folder / "groups").string()), "/a/b");
  EXPECT_EQ(control_group((folder / "none").string()), "");
  fs::remove_all(folder);
}

#if defined(__SSE2__)
TEST(ThreadPool, KeepsDenormalsInEveryThread) {
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
