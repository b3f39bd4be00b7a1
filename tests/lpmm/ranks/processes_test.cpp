#include "lpmm/ranks/processes.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "lpmm/base/exit_code.h"
#include "lpmm/base/text.h"
#include "tests/lpmm/said.h"

namespace lpmm {
namespace {

TEST(RankProcesses, GiveTheResultOfTheFirst) {
  const int result = run_on_ranks(3, 60, [](Ranks& ranks) {
    int sum = 0;
    for (const int rank : ranks.all(10 * ranks.rank())) sum += rank;
    return sum + ranks.rank();
  });
  EXPECT_EQ(result, 30);
}

TEST(RankProcesses, OneThatIsKilledIsTheError) {
  const std::string what = said([] {
    run_on_ranks(3, 60, [](Ranks& ranks) {
      ranks.now_in(7, "update");
      if (ranks.rank() == 1) raise(SIGKILL);
      ranks.all(1);
      return 0;
    });
  });
  EXPECT_EQ(what, "rank 1 was killed by signal 9 (out of memory?), in step 7 (update)");
}

TEST(RankProcesses, AnErrorIsSaidOnceByWhoHasIt) {
  const auto fail_on = [](int failing) {
    return said([&] {
      run_on_ranks(3, 60, [&](Ranks& ranks) {
        if (failing < 0 || ranks.rank() == failing) throw UsageError("no such file");
        ranks.all(1);
        return 0;
      });
    });
  };
  EXPECT_EQ(fail_on(2), "rank 2: no such file");
  EXPECT_EQ(fail_on(0), "no such file");
  EXPECT_EQ(fail_on(-1), "no such file") << "all of them";
}

// What goes on with --resume is a run that lost a rank; other errors say themselves what to do.
TEST(RankProcesses, ADeathIsALossAndAFailureIsNone) {
  const auto die = [](Ranks&) { return raise(SIGKILL); };
  EXPECT_THROW(run_on_ranks(2, 60, die), RankLost);
  const auto fail = [](Ranks&) -> int { throw RunError("no disk"); };
  try {
    run_on_ranks(2, 60, fail);
    ADD_FAILURE() << "it failed";
  } catch (const RankLost& e) {
    ADD_FAILURE() << e.what();
  } catch (const RunError& e) {
    EXPECT_STREQ(e.what(), "no disk");
  }
}

TEST(RankProcesses, TellThingsOnce) {
  testing::internal::CaptureStderr();
  run_on_ranks(3, 60, [](Ranks&) {
    tell("a warning\n");
    return 0;
  });
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "a warning\n");
}

TEST(RankProcesses, EndWhereAProgramIgnoresItsChildren) {
  const auto before = signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(run_on_ranks(2, 60, [](Ranks&) { return 7; }), 7);
  EXPECT_EQ(signal(SIGCHLD, before), SIG_IGN) << "it is as it was";
}

}  // namespace
}  // namespace lpmm
