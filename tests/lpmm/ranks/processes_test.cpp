#include "lpmm/ranks/processes.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "lpmm/base/exit_code.h"
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

}  // namespace
}  // namespace lpmm
