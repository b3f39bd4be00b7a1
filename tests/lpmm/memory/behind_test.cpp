// Rounds that are sent behind the passes of a model, with exchanges that only write down which one it was.
#include "lpmm/memory/slots/behind.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "lpmm/memory/policy.h"
#include "lpmm/ranks/ranks.h"
#include "tests/lpmm/memory/slot_case.h"

namespace lpmm {
namespace {

// What one of two ranks has sent, and by which thread. No tensor is without gradient, but for the test of
// that.
class BehindThread : public ::testing::Test {
 protected:
  struct Sent {
    char what;
    std::size_t round;
    bool operator==(const Sent&) const = default;
  };

  Behind make() {
    return {shares_, static_cast<int>(kLargeTensors.size()), *ranks_[0],
            Behind::Rounds{[this](std::size_t round) { send('p', round); },
                           [this](std::size_t round) { send('a', round); },
                           [this](std::size_t first, std::size_t end) {
                             EXPECT_EQ(std::this_thread::get_id(), here_);
                             for (std::size_t j = end; j-- > first;) complete_.push_back(j);
                           }}};
  }
  void send(char what, std::size_t round) {
    const std::scoped_lock lock(mutex_);
    if (what == fails_) throw RankLost("rank 1 has ended");
    sent_.push_back({what, round});
    is_here_ = is_here_ && std::this_thread::get_id() == here_;
    changed_.notify_all();
  }
  // Waits until so many are sent, without a word to what sends them.
  std::vector<Sent> first(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return sent_.size() >= count; }));
    return sent_;
  }
  std::vector<Sent> all(char what) const {
    std::vector<Sent> all;
    for (std::size_t j = 0; j < rounds_; ++j) all.push_back({what, what == 'p' ? j : rounds_ - 1 - j});
    return all;
  }
  static void begin(Behind& behind) {
    behind.begin_step(1, [](int /*tensor*/) { return false; });
  }
  void swap_nothing() {
    const std::vector<std::span<const std::byte>> send(2);
    const std::vector<std::span<std::byte>> receive(2);
    ranks_[0]->swap(send, receive);
  }

  const SlotCase case_ = {.is_large = true};
  const Shares shares_{kLargeTensors, case_.policy(), case_.optimizer(), Sharding{2, 2, 0}};
  const std::size_t rounds_ = shares_.most_rounds();
  const int last_ = static_cast<int>(kLargeTensors.size()) - 1;
  std::vector<std::unique_ptr<Ranks>> ranks_ = linked_ranks(2, 60);
  const std::thread::id here_ = std::this_thread::get_id();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Sent> sent_;
  std::vector<std::size_t> complete_;  // rounds of accumulators
  bool is_here_ = true;                // this thread has sent all
  char fails_ = ' ';
};

TEST_F(BehindThread, AccumulatorsGoFromTheLastRoundOnAsTheyAreComplete) {
  ASSERT_GE(rounds_, 3U);
  Behind behind = make();
  begin(behind);
  behind.complete(last_);
  const std::vector<Sent> first_ones = first(rounds_ - 1);
  EXPECT_FALSE(is_here_);
  EXPECT_EQ(first_ones.size(), rounds_ - 1) << "the first round has other tensors too";
  for (int tensor = 0; tensor < last_; ++tensor) behind.complete(tensor);
  behind.wait_for_accumulators();
  EXPECT_EQ(sent_, all('a'));
}

TEST_F(BehindThread, EachRoundIsSaidToBeCompleteOnceBeforeItGoes) {
  Behind behind = make();
  std::vector<std::size_t> said;
  for (int step = 0; step < 2; ++step) {
    behind.updated();
    begin(behind);
    EXPECT_EQ(complete_, said) << "parameters are not";
    behind.complete(last_);
    for (std::size_t j = rounds_; j-- > 1;) said.push_back(j);
    EXPECT_EQ(complete_, said);
    behind.wait_for_accumulators();
    said.push_back(0);
    EXPECT_EQ(complete_, said);
  }
}

TEST_F(BehindThread, ATensorWithoutGradientHoldsNothingUp) {
  Behind behind = make();
  behind.begin_step(1, [&](int tensor) { return tensor < last_; });
  behind.complete(last_);
  EXPECT_EQ(first(rounds_), all('a'));
}

TEST_F(BehindThread, AccumulatorsWaitForTheFirstGradient) {
  Behind behind = make();
  behind.begin_step(1, [&](int tensor) { return tensor == last_; });
  swap_nothing();
  EXPECT_TRUE(sent_.empty());
}

TEST_F(BehindThread, ParametersGoAsTheNextStepBegins) {
  Behind behind = make();
  begin(behind);
  behind.wait_for_accumulators();
  sent_.clear();
  behind.updated();
  EXPECT_TRUE(sent_.empty());
  begin(behind);
  EXPECT_EQ(first(rounds_), all('p'));
}

TEST_F(BehindThread, WhoReadsAParameterWaitsForItsRounds) {
  Behind behind = make();
  behind.updated();
  behind.wait_for_parameter(0);
  EXPECT_EQ(sent_, (std::vector<Sent>{{'p', 0}}));
  behind.wait_for_parameter(last_);
  EXPECT_EQ(sent_, all('p'));
}

TEST_F(BehindThread, AnotherExchangeWaitsForParametersAndMayNotMeetAccumulators) {
  Behind behind = make();
  behind.updated();
  swap_nothing();
  EXPECT_EQ(sent_, all('p'));
  begin(behind);
  swap_nothing();
  for (int tensor = 1; tensor <= last_; ++tensor) behind.complete(tensor);
  EXPECT_THROW(swap_nothing(), std::logic_error);
  behind.complete(0);
  behind.wait_for_accumulators();
  swap_nothing();
}

TEST_F(BehindThread, WhoLeavesAStepSendsAllAndByAnExceptionNothingWhereNothingWasSent) {
  Behind behind = make();
  struct Leaves {
    Behind& behind;
    ~Leaves() { behind.leave_step(); }
  };
  begin(behind);
  behind.complete(0);
  try {
    const Leaves leaves{behind};
    throw std::bad_alloc();
  } catch (const std::bad_alloc&) {
  }
  EXPECT_TRUE(sent_.empty());
  for (const int tensor : {0, last_}) {
    begin(behind);
    behind.complete(tensor);
    behind.leave_step();
    EXPECT_EQ(sent_, all('a'));
    if (tensor == 0) sent_.clear();
  }
  begin(behind);
  behind.wait_for_parameter(last_);
  EXPECT_EQ(sent_, all('a')) << "no update, no parameters";
}

TEST_F(BehindThread, OthersHaveTheirParametersBeforeItEnds) {
  make().updated();
  EXPECT_EQ(sent_, all('p'));
}

TEST_F(BehindThread, ALostRankIsHeardOfAtEachWait) {
  Behind behind = make();
  begin(behind);
  fails_ = 'a';
  behind.complete(last_);
  for (int again = 0; again < 2; ++again) {
    EXPECT_THROW(behind.wait_for_accumulators(), RankLost);
    EXPECT_THROW(behind.wait_for_parameter(0), RankLost);
    EXPECT_THROW(swap_nothing(), RankLost);
  }
}

}  // namespace
}  // namespace lpmm
