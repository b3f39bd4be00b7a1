#include "lpmm/ranks/ranks.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

namespace lpmm {
namespace {

// body(ranks) on a thread for each.
template <class Body>
void on_ranks(int count, double timeout, const Body& body) {
  auto ranks = linked_ranks(count, timeout);
  std::vector<std::thread> threads;
  for (auto& of_thread : ranks) {
    threads.emplace_back([&] {
      body(*of_thread);
      of_thread.reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Ranks, ThreadsGatherInOrderWhateverTheLengths) {
  EXPECT_EQ(alone().all(7), std::vector{7});
  for (const int count : {2, 3, 5}) {
    on_ranks(count, 60, [&](Ranks& ranks) {
      EXPECT_EQ(ranks.size(), count);
      // More than a socket holds, so that all send and receive at once.
      std::vector<int> mine(static_cast<std::size_t>(300'000 * ranks.rank()));
      std::iota(mine.begin(), mine.end(), ranks.rank());
      const std::vector<int> all = ranks.all_of<int>(mine);
      ASSERT_EQ(all.size(), 300'000U * static_cast<unsigned>(count * (count - 1) / 2));
      EXPECT_EQ(all[300'000 - 1], 300'000);
      EXPECT_TRUE(ranks.any(ranks.rank() == count - 1));
      EXPECT_FALSE(ranks.any(false));
    });
  }
}

TEST(Ranks, OneThatEndsIsLostToTheOthers) {
  on_ranks(3, 60, [](Ranks& ranks) {
    ranks.now_in(12, "update");
    if (ranks.rank() == 1) return;
    try {
      ranks.all(1);
      ADD_FAILURE() << "nobody was missed";
    } catch (const RankLost& e) {
      // Rank 2 may see first that rank 0 has given up.
      const std::string what = e.what();
      EXPECT_NE(what.find("has ended, in step 12 (update)"), std::string::npos) << what;
    }
  });
}

TEST(Ranks, OneThatIsSilentIsLostAfterTheTimeout) {
  auto ranks = linked_ranks(2, 0.05);
  try {
    ranks[0]->all(1);
    ADD_FAILURE() << "nobody was missed";
  } catch (const RankLost& e) {
    EXPECT_STREQ(e.what(), "rank 1 has not been heard of for 0.05 s, in step 0 (start)");
  }
  // What comes later is not taken for something else.
  std::thread late([&] { EXPECT_THROW(ranks[1]->all(2), RankLost); });
  late.join();
  EXPECT_THROW(ranks[0]->all(3), RankLost);
}

}  // namespace
}  // namespace lpmm
