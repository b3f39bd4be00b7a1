#include "lpmm/ranks/launched.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace lpmm {
namespace {

std::optional<Launch> launch(const std::map<std::string, std::string>& environment) {
  return launch_of([&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(Launches, AreWhatVariablesOfLaunchersSay) {
  EXPECT_FALSE(launch({}));
  EXPECT_FALSE(launch({{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}}));
  EXPECT_FALSE(launch({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}})) << "a batch script";
  // mpirun starts its helpers by srun.
  const auto both = launch({{"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_RANK", "3"},
                            {"SLURM_STEP_NUM_TASKS", "2"},
                            {"SLURM_PROCID", "1"}});
  ASSERT_TRUE(both);
  EXPECT_EQ(both->by, "mpirun");
  EXPECT_EQ(both->rank, 3);
  EXPECT_EQ(both->size, 4);
  EXPECT_EQ(both->complaint, "");
  EXPECT_EQ(launch({{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}})->by, "srun");
  EXPECT_EQ(launch({{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}})->by, "mpiexec");
}

TEST(Launches, ThatMakeNoSenseAreComplainedAbout) {
  for (const auto& [size, rank] : {std::pair{"four", "0"},
                                   {"4", "4"},
                                   {"4", "-1"},
                                   {"0", "0"},
                                   {"", "0"},
                                   {"4", ""},
                                   {"4 ", "1"},
                                   {"99999999999999999999", "1"},
                                   {"1", "1"}}) {
    const auto found = launch({{"OMPI_COMM_WORLD_SIZE", size}, {"OMPI_COMM_WORLD_RANK", rank}});
    ASSERT_TRUE(found) << size << ", " << rank;
    EXPECT_NE(found->complaint.find("OMPI_COMM_WORLD_RANK"), std::string::npos) << size << ", " << rank;
  }
  EXPECT_EQ(
      launch({{"OMPI_COMM_WORLD_SIZE", "4"}})->complaint,
      "OMPI_COMM_WORLD_SIZE = 4, OMPI_COMM_WORLD_RANK is not set: as mpirun sets them, they number 1 to 1024 "
      "processes and one of these; unset both if it did not");
}

}  // namespace
}  // namespace lpmm
