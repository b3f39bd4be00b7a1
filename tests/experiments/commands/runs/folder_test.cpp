// What people type at a run's folder, and what a machine that is too small or a pipe that closes makes of it.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "lpmm/base/host.h"
#include "tests/experiments/program.h"
#include "tests/sanitized.h"

namespace lpmm {
namespace {

namespace fs = std::filesystem;

class Folder : public ProgramTest {};

TEST_F(Folder, ACheckpointIsFoundHoweverItIsWritten) {
  train("run");
  const std::string checkpoint = path("run") + "/checkpoints/step_00000004";
  const auto expected = run_lpmm({"eval", checkpoint, "--json"}).json();
  const Outcome slash = run_lpmm({"eval", checkpoint + "/", "--json"});
  ASSERT_EQ(slash.code, 0) << slash.err;
  EXPECT_EQ(slash.json()["test_loss"], expected["test_loss"]);
  Surroundings inside;
  inside.folder = checkpoint;
  const Outcome here = run_lpmm({"eval", ".", "--json"}, inside);
  ASSERT_EQ(here.code, 0) << here.err;
  EXPECT_EQ(here.json()["test_loss"], expected["test_loss"]);
}

TEST_F(Folder, ADivergedRunIsNoSuccess) {
  const Outcome outcome = run_lpmm({"train", config(), "--quiet", "--json", "--preset", "fp32", "--set",
                                    "optimizer.learning_rate=1e6", "--out", path("run")});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("diverged"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("-nan"), std::string::npos) << outcome.err;
}

TEST_F(Folder, AReaderThatGoesAwayIsNoFailure) {
  const std::string command =
      std::string(LPMM_PROGRAM) + " info 2>" + path("err") + " | true; exit ${PIPESTATUS[0]}";
  const int status = std::system(("bash -c '" + command + "'").c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_TRUE(WEXITSTATUS(status) == 141 || WEXITSTATUS(status) == 0) << WEXITSTATUS(status);
  EXPECT_EQ(read_file(path("err")), "");
}

TEST_F(Folder, AnImportThatWasKilledBetweenItsFilesCanBeRepeated) {
  const std::vector<std::string> import = {"import", LPMM_SOURCE_DIR "/tests/golden/gpt2_tiny.safetensors",
                                           "--out", path("hf")};
  ASSERT_EQ(run_lpmm(import).code, 0);
  fs::remove(path("hf/config.toml"));
  const Outcome again = run_lpmm(import);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(fs::exists(path("hf/config.toml")));
  expect_failure(run_lpmm(import), 2, {"holds a run already"});
}

// From where the program cannot start to where there is room for all: no limit may end it by a signal.
TEST_F(Folder, AnyLimitOnAddressSpaceIsSurvived) {
  if (kSanitized) GTEST_SKIP() << "sanitizers take address space of their own";
  const std::string file = config();
  int failed = 0, done = 0;
  for (std::int64_t limit = 100 << 20; limit < (240 << 20); limit += 7 << 20) {
    Surroundings small;
    small.address_bytes = limit;
    fs::remove_all(path("run"));
    const Outcome outcome = run_lpmm(
        {"train", file, "--quiet", "--threads", "2", "--set", "train.steps=1", "--out", path("run")}, small);
    EXPECT_TRUE(outcome.code == 0 || outcome.code == 1 || outcome.code == 127)
        << limit << ": " << outcome.code << outcome.err;
    (outcome.code == 0 ? done : failed) += 1;
    EXPECT_TRUE(outcome.code != 1 || !outcome.err.empty()) << limit;
  }
  EXPECT_GT(done, 0);
  EXPECT_GT(failed, 0);
}

}  // namespace
}  // namespace lpmm
