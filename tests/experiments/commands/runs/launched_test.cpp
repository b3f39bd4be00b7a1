// Runs that mpirun starts, and runs that are asked to stop.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lpmm/files/files.h"
#include "lpmm/run/log.h"
#include "tests/experiments/program.h"

namespace lpmm {
namespace {

namespace fs = std::filesystem;

// Records that are of the run and not of its machine, without times.
std::string story(const std::string& run) {
  std::string text;
  for (Json r : read_log(run + "/log.jsonl")) {
    const std::string type = r["type"];
    if (type == "system" || type == "config" || type == "ledger" || type == "summary") continue;
    for (const char* key : {"seconds", "images_per_second", "rss_bytes"}) r.erase(key);
    text += r.dump() + "\n";
  }
  return text;
}

class LaunchedRuns : public ProgramTest {
 protected:
  void SetUp() override {
    const bool has_part = fs::exists(fs::path(LPMM_PROGRAM).parent_path() / "liblpmm_mpi.so");
    if (!has_part) GTEST_SKIP() << "built without MPI";
    if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "no mpirun here";
  }
  static Surroundings mpirun(int count, const std::string& shell = "") {
    Surroundings s;
    s.launcher = {"mpirun", "--allow-run-as-root", "--oversubscribe", "-n", std::to_string(count)};
    if (!shell.empty()) s.launcher.insert(s.launcher.end(), {"sh", "-c", shell + "; exec \"$0\" \"$@\""});
    return s;
  }
  // A second of training, or steps without an end.
  std::vector<std::string> training(const std::string& out, const std::string& steps = "8") const {
    return {"train",
            config(),
            "--quiet",
            "--out",
            path(out),
            "--set",
            "train.microbatches=4",
            "--set",
            "ranks.slots=4",
            "--set",
            "train.steps=" + steps,
            "--set",
            "log.every_steps=1",
            "--set",
            "checkpoint.every_steps=4",
            "--set",
            "checkpoint.keep=0"};
  }
  // Starts it under mpirun, waits for its first checkpoint, calls act(mpirun's process), and returns the exit
  // code.
  int disturb(const std::string& out, const auto& act) const {
    const pid_t child = start_lpmm(training(out, "1000000"), mpirun(2));
    int status = 0;
    while (!fs::exists(path(out) + "/checkpoints/step_00000004") && waitpid(child, &status, WNOHANG) == 0)
      ::usleep(200);
    act(child);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
};

TEST_F(LaunchedRuns, HaveTheFilesOfOneProcess) {
  ASSERT_EQ(run_lpmm(training("one")).code, 0);
  for (const int count : {1, 2, 4}) {
    SCOPED_TRACE(count);
    const std::string out = fmt::format("mpi{}", count);
    const Outcome trained = run_lpmm(training(out), mpirun(count));
    ASSERT_EQ(trained.code, 0) << trained.err;
    EXPECT_EQ(trained.err, "");
    for (const char* step : {"step_00000004", "step_00000008"}) {
      const std::string file = std::string("/checkpoints/") + step + "/model.safetensors";
      EXPECT_TRUE(read_file(path("one") + file) == read_file(path(out) + file)) << step;
    }
    EXPECT_EQ(story(path("one")), story(path(out)));
  }
}

TEST_F(LaunchedRuns, SayWhatIsWrongOnce) {
  const auto said = [&](const Surroundings& how, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = training("refused");
    words.insert(words.end(), more.begin(), more.end());
    const Outcome o = run_lpmm(words, how);
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_EQ(o.err.find("lpmm: "), o.err.rfind("lpmm: ")) << "twice: " << o.err;
    EXPECT_FALSE(fs::exists(path("refused")));
    return o.err;
  };
  const auto expect = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(said(mpirun(3)), "3 ranks need train.microbatches = 3 or a multiple");
  expect(said(mpirun(2), {"--ranks", "4"}), "--ranks 4, but mpirun started 2 processes");
  const std::string second = "[ $OMPI_COMM_WORLD_RANK = 1 ] && ";
  expect(said(mpirun(2, second + "set -- \"$@\" --set train.seed=7")), "train.seed is 7 here and 1 there");
  expect(said(mpirun(2, second + "OMPI_COMM_WORLD_RANK=2")), "OMPI_COMM_WORLD_RANK = 2");
  expect(said(mpirun(2, second + "OMPI_COMM_WORLD_SIZE=4")), "mpirun says that this is rank 1 of 4");
  expect(said(mpirun(2, "OMPI_COMM_WORLD_SIZE=two")), "OMPI_COMM_WORLD_SIZE = two");
  Surroundings forged;
  forged.environment = {{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}};
  expect(said(forged), "MPI that it is rank 0 of 1");
}

TEST_F(LaunchedRuns, SaveWhenAskedToStop) {
  for (const bool by_command : {true, false}) {
    const std::string out = by_command ? "stopped" : "signalled";
    const int code = disturb(out, [&](pid_t launcher) {
      if (!by_command) {
        ::kill(launcher, SIGUSR1);
        return;
      }
      const Outcome o = run_lpmm({"stop", path(out), "--json"});
      EXPECT_EQ(o.code, 0) << o.err;
      EXPECT_EQ(o.json()["interrupted"], true);
    });
    EXPECT_EQ(code, 130);
    const Json last = read_log(path(out) + "/log.jsonl").back();
    EXPECT_EQ(last["interrupted"], true);
    EXPECT_TRUE(fs::exists(path(out) + fmt::format("/checkpoints/step_{:08}", last["steps"].get<int>())));
  }
}

TEST_F(LaunchedRuns, EndWhereOneIsKilled) {
  const int code = disturb("killed", [&](pid_t launcher) {
    std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", launcher));
    pid_t first = 0, second = 0;
    children >> first >> second;
    ASSERT_GT(second, 0);
    ::kill(second, SIGKILL);
  });
  EXPECT_EQ(code, 137);
  const Json last = read_log(path("killed") + "/log.jsonl").back();
  EXPECT_NE(last.value("error", "").find("has ended, in step "), std::string::npos) << last;
}

using Launchers = ProgramTest;
using Stops = ProgramTest;

TEST_F(Launchers, SeveralProcessesWithoutThePartForMpiAreRefused) {
  fs::copy(LPMM_PROGRAM, path("lpmm"));
  Surroundings s;
  s.launcher = {"sh", "-c", "exec " + path("lpmm") + " \"$@\""};
  for (const char* rank : {"0", "1"}) {
    s.environment = {{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", rank}};
    const Outcome o = run_lpmm({"train", config(), "--out", path("run")}, s);
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_EQ(o.err.find("built without MPI") != std::string::npos, *rank == '0') << o.err;
    EXPECT_FALSE(fs::exists(path("run")));
  }
}

TEST_F(Stops, OnlyARunThatRunsCanBeStopped) {
  expect_failure(run_lpmm({"stop", path("none")}), 2, {"none", "is no run's folder"});
  train("done");
  expect_failure(run_lpmm({"stop", path("done")}), 1, {"is not running", "step_"});
  EXPECT_FALSE(fs::exists(path("done") + "/stop"));
}

TEST_F(Stops, AStopSavesAndTheRunGoesOn) {
  const std::vector<std::string> words = {
      "train", config(),           "--quiet", "--out", path("run"), "--set", "train.steps=1000000",
      "--set", "log.every_steps=1"};
  write("stop", "");  // of a folder above: not meant
  const pid_t child = start_lpmm(words);
  std::error_code none;
  int status = 0;
  while (
      (!fs::exists(path("run") + "/log.jsonl") || fs::file_size(path("run") + "/log.jsonl", none) < 3000) &&
      waitpid(child, &status, WNOHANG) == 0)
    ::usleep(200);
  const Outcome o = run_lpmm({"stop", path("run")});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("stopped after "), std::string::npos) << o.out;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_FALSE(fs::exists(path("run") + "/stop"));
  // A wish that nobody took is not for a later run.
  write("run/stop", "");
  const auto steps = read_log(path("run") + "/log.jsonl").back()["steps"].get<int>();
  EXPECT_EQ(run_lpmm({"train", config(), "--quiet", "--out", path("run"), "--resume", "--set",
                      "log.every_steps=1", "--set", fmt::format("train.steps={}", steps + 3)})
                .code,
            0);
}

}  // namespace
}  // namespace lpmm
