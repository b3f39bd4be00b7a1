// `lpmm sweep` on a small MLP.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <set>

#include "experiments/sweep/statistics.h"
#include "tests/experiments/program.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;

class SweepTest : public ProgramTest {
 protected:
  Outcome sweep(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"sweep",     "--config",  config(), "--out",
                                          path("out"), "--threads", "1",      "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_lpmm(arguments);
  }
};

std::set<std::string> names(const nlohmann::json& answer) {
  std::set<std::string> out;
  for (const auto& cell : answer["cells"]) out.insert(cell["name"]);
  return out;
}

TEST_F(SweepTest, RunsTheGridOnceAndMeasuresPairedGaps) {
  const std::vector<std::string> grid = {
      "--presets",  "fp32,lpmm", "--seeds", "1,2,3", "--axis", "memory.rounding=sr,rn",
      "--baseline", "fp32",      "--jobs",  "2"};
  const Outcome first = sweep(grid);
  ASSERT_EQ(first.code, 0) << first.err;
  const nlohmann::json answer = first.json();
  // The baseline is not crossed with the axis of memory: 3 + 2 * 3 cells.
  EXPECT_EQ(names(answer).size(), 9U);
  EXPECT_TRUE(names(answer).contains("config__fp32__seed1"));
  EXPECT_TRUE(names(answer).contains("config__lpmm__memory.rounding=rn__seed3"));
  ASSERT_EQ(answer["groups"].size(), 3U);

  // The gaps again, from the summaries.
  std::map<std::string, double> loss;
  for (const auto& cell : answer["cells"]) loss[cell["name"]] = cell["summary"]["final_loss"];
  const nlohmann::json& group = answer["groups"][1];
  const std::string name = group["group"];
  EXPECT_EQ(group["baseline"], "config__fp32");
  std::vector<double> gaps;
  for (const char* seed : {"__seed1", "__seed2", "__seed3"}) {
    gaps.push_back(loss.at(name + seed) - loss.at(std::string("config__fp32") + seed));
  }
  const Mean mean = mean_of(gaps);
  EXPECT_GT(mean.deviation, 0);
  EXPECT_EQ(group["loss_gap"]["pairs"], 3);
  EXPECT_NEAR(group["loss_gap"]["mean"].get<double>(), mean.mean, 1e-12);
  const double error = mean.deviation / std::sqrt(3.0);
  EXPECT_NEAR(group["loss_gap"]["upper_95"].get<double>(), mean.mean + 2.919985580 * error, 1e-8);
  EXPECT_NEAR(group["loss_gap"]["low_95"].get<double>(), mean.mean - 4.302652730 * error, 1e-8);
  EXPECT_TRUE(group["accuracy_gap_points"].contains("high_95"));
  EXPECT_FALSE(answer["groups"][0].contains("baseline"));
  EXPECT_EQ(nlohmann::json::parse(read_file(path("out/sweep.json"))), answer);
  EXPECT_NE(read_file(path("out/sweep.csv")).find("\nconfig__lpmm__memory.rounding=rn,3,"),
            std::string::npos);

  // Again: nothing runs, the answer is the same. One cell without its summary is the only one that runs.
  const auto log_time = [&] { return fs::last_write_time(path("out/config__fp32__seed1/log.jsonl")); };
  const auto before = log_time();
  write("out/.lpmm-1-0.tmp", "left by a process that was killed");
  const Outcome second = sweep(grid);
  EXPECT_EQ(second.json(), answer);
  EXPECT_EQ(leftovers_in(path("out")), std::set<std::string>{});
  // Other checkpoints on the way change no result, so that nothing runs again.
  std::vector<std::string> kept = grid;
  kept.insert(kept.end(), {"--set", "checkpoint.every_steps=2"});
  EXPECT_EQ(sweep(kept).json()["groups"], answer["groups"]);
  EXPECT_NE(second.err.find("9 finished before, 0 to run"), std::string::npos) << second.err;
  fs::remove_all(path("out/config__fp32__seed2"));
  const Outcome third = sweep(grid);
  EXPECT_NE(third.err.find("8 finished before, 1 to run"), std::string::npos) << third.err;
  EXPECT_EQ(third.json()["groups"], answer["groups"]);
  EXPECT_EQ(log_time(), before);
}

TEST_F(SweepTest, GoesOnFromACheckpoint) {
  const std::vector<std::string> more = {"--set", "checkpoint.every_steps=2", "--set", "train.steps=8"};
  const Outcome whole = sweep(more);
  ASSERT_EQ(whole.code, 0) << whole.err;
  const std::string cell = path("out/config__seed1");
  // As if killed after step 6: no later checkpoint, no summary.
  for (const auto& entry : fs::directory_iterator(cell + "/checkpoints")) {
    if (entry.path().filename() > "step_00000006") fs::remove_all(entry.path());
  }
  const std::string log = read_file(cell + "/log.jsonl");
  fs::resize_file(cell + "/log.jsonl", log.rfind("{\"type\":\"summary\""));
  const Outcome rest = sweep(more);
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_NE(read_file(cell + "/log.jsonl").find("\"from_step\":6"), std::string::npos);
  EXPECT_EQ(rest.json()["groups"], whole.json()["groups"]);
}

// Terminals and `timeout` signal the process and its group, so a sweep may get one request twice.
TEST_F(SweepTest, AnInterruptSavesCheckpointsAndTheAnswer) {
  for (const int signals : {1, 2}) {
    const std::string out = path("out" + std::to_string(signals)), cell = out + "/config__seed1";
    const ::pid_t child = start_lpmm({"sweep", "--config", config(), "--out", out, "--seeds", "1,2", "--set",
                                      "train.steps=1000000", "--set", "log.every_steps=1"});
    int status = 0;
    std::error_code absent;
    while (!(fs::file_size(cell + "/log.jsonl", absent) > 3000 && !absent)) {
      ASSERT_EQ(::waitpid(child, &status, WNOHANG), 0);
      ::usleep(200);
    }
    for (int i = 0; i < signals; ++i) ::kill(child, SIGINT);
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 130);
    EXPECT_TRUE(fs::exists(out + "/sweep.json"));
    EXPECT_FALSE(fs::is_empty(cell + "/checkpoints"));
    EXPECT_FALSE(fs::exists(out + "/config__seed2/log.jsonl"));  // with one processor or many: one job
  }
}

// Two at once would start each other's cells and replace each other's results.
TEST_F(SweepTest, AFolderIsOfOneSweepAtATime) {
  const std::string log = path("out/config__seed1/log.jsonl");
  const ::pid_t first = start_lpmm({"sweep", "--config", config(), "--out", path("out"), "--seeds", "1,2",
                                    "--set", "train.steps=1000000", "--set", "log.every_steps=1"});
  int status = 0;
  std::error_code absent;
  while (!(fs::file_size(log, absent) > 3000 && !absent)) {
    ASSERT_EQ(::waitpid(first, &status, WNOHANG), 0);
    ::usleep(200);
  }
  expect_failure(sweep({"--seeds", "1,2"}), 1, {path("out") + ": another sweep is at work there", "--out"});
  EXPECT_FALSE(fs::exists(path("out/sweep.json")));
  ::kill(first, SIGINT);
  ::waitpid(first, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_FALSE(fs::exists(path("out/.lock")));
  // A sweep that was killed holds nothing.
  write("out/.lock", "");
  fs::remove_all(path("out/config__seed1"));
  fs::remove_all(path("out/config__seed2"));
  EXPECT_EQ(sweep({}).code, 0);
}

TEST_F(SweepTest, FailedCellsAreListedAndTheOthersRun) {
  // The second value fits no batch of the 128 images.
  const Outcome outcome = sweep({"--axis", "train.batch=32,256"});
  EXPECT_EQ(outcome.code, 1);
  const nlohmann::json answer = outcome.json();
  EXPECT_EQ(answer["cells"][0]["state"], "finished");
  EXPECT_EQ(answer["cells"][1]["state"], "failed");
  EXPECT_NE(outcome.err.find("failed: config__train.batch=256__seed1: exit code"), std::string::npos)
      << outcome.err;
}

// A mean of the seeds that did not diverge would flatter.
TEST_F(SweepTest, ADivergedSeedLeavesNoMean) {
  const std::vector<std::string> grid = {"--presets", "fp32,lpmm", "--seeds", "1,2,3", "--baseline", "fp32"};
  ASSERT_EQ(sweep(grid).code, 0);
  const std::string log = path("out/config__lpmm__seed2/log.jsonl");
  std::string text = read_file(log);
  const std::size_t at = text.rfind("\"test_loss\":") + 12, end = text.find(',', at);
  write("out/config__lpmm__seed2/log.jsonl", text.replace(at, end - at, "null"));
  const nlohmann::json groups = sweep(grid).json()["groups"];
  EXPECT_EQ(groups[1]["seeds"], 3);
  EXPECT_TRUE(groups[1]["test_loss"].is_null());
  EXPECT_TRUE(groups[1]["test_loss_gap"].is_null());
  EXPECT_TRUE(groups[1]["loss_gap"].is_object());
  EXPECT_TRUE(groups[0]["test_loss"].is_object());
  // A run whose summary lacks the loss leaves no mean either.
  text = read_file(log);
  const std::size_t key = text.rfind("\"final_loss\":");
  write("out/config__lpmm__seed2/log.jsonl", text.erase(key, text.find(',', key) + 1 - key));
  EXPECT_TRUE(sweep(grid).json()["groups"][1]["loss_gap"].is_null());
}

TEST_F(SweepTest, ADivergedCellIsNamed) {
  const Outcome outcome =
      sweep({"--set", "optimizer.learning_rate=1e30", "--set", "train.max_failed_steps=99"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.err.find("diverged"), std::string::npos) << outcome.err;
}

TEST_F(SweepTest, AFolderOfAnotherRunIsRefused) {
  ASSERT_EQ(sweep({}).code, 0);
  expect_failure(sweep({"--set", "optimizer.learning_rate=0.5"}), 2,
                 {"another run", "optimizer.learning_rate"});
}

// A cell leaves out what its own rule does not take; what none takes is refused.
TEST_F(SweepTest, SettingsMayServeSeveralRules) {
  const std::vector<std::string> rules = {"--axis", "optimizer.rule=lion,ademamix", "--set",
                                          "optimizer.learning_rate=1e-3"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = rules;
    all.insert(all.end(), more.begin(), more.end());
    return sweep(all);
  };
  const Outcome outcome = with({"--set", "optimizer.slow_weight_warmup=3", "--set", "memory.variance=fp32"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(names(outcome.json()).size(), 2U);
  EXPECT_EQ(read_file(path("out/config__optimizer.rule=lion__seed1/config.toml")).find("slow_weight"),
            std::string::npos);
  EXPECT_NE(read_file(path("out/config__optimizer.rule=ademamix__seed1/config.toml"))
                .find("slow_weight_warmup = 3\n"),
            std::string::npos);
  expect_failure(with({"--set", "optimizer.decay_rate=0.8"}), 2,
                 {"--set optimizer.decay_rate=0.8", "is no setting of lion", "adafactor"});
  expect_failure(sweep({"--axis", "memory.slow_momentum=fp32,int12"}), 2, {"memory.slow_momentum", "sgd"});
}

// The specs of a preset count, not its name: results outlive a preset that is given other specs.
TEST_F(SweepTest, APresetOfAnotherNameIsTheSameRun) {
  ASSERT_EQ(sweep({"--presets", "fp32"}).code, 0);
  fs::rename(path("out/config__fp32__seed1"), path("out/config__states8__seed1"));
  expect_failure(sweep({"--presets", "states8"}), 2, {"another run", "memory.momentum"});
  const std::vector<std::string> same = {"--presets", "states8", "--set", "memory.momentum=fp32"};
  const Outcome outcome = sweep(same);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("1 finished before"), std::string::npos) << outcome.err;
  // And one that was stopped goes on.
  const std::string log = path("out/config__states8__seed1/log.jsonl");
  fs::resize_file(log, read_file(log).rfind("{\"type\":\"summary\""));
  const Outcome rest = sweep(same);
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_NE(rest.err.find("0 finished before"), std::string::npos) << rest.err;
}

TEST_F(SweepTest, AFolderThatCannotBeMadeStopsItBeforeAnythingRuns) {
  const Outcome outcome = run_lpmm({"sweep", "--config", config(), "--out", write("file", "") + "/out"});
  expect_failure(outcome, 1, {"file", "cannot be made"});
  EXPECT_EQ(outcome.err.find("FAILED"), std::string::npos) << outcome.err;
}

TEST_F(SweepTest, AGridFileSaysTheSame) {
  const std::string grid =
      write("grid.toml", "configs = [\"" + config() +
                             "\"]\npresets = [\"lpmm\"]\nseeds = [4, 5]\nset = "
                             "[\"train.steps=2\"]\n[axes]\n\"train.microbatches\" = [1, 2]\n"
                             "optimizer.learning_rate = [0.003]\n"
                             "memory.rounding = [\"rn\"]\n");
  const Outcome outcome = run_lpmm({"sweep", grid, "--out", path("grid"), "--threads", "1", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(
      names(outcome.json()),
      (std::set<std::string>{
          "config__lpmm__memory.rounding=rn__optimizer.learning_rate=0.003__train.microbatches=1__seed4",
          "config__lpmm__memory.rounding=rn__optimizer.learning_rate=0.003__train.microbatches=1__seed5",
          "config__lpmm__memory.rounding=rn__optimizer.learning_rate=0.003__train.microbatches=2__seed4",
          "config__lpmm__memory.rounding=rn__optimizer.learning_rate=0.003__train.microbatches=2__seed5"}));
  const Outcome table = run_lpmm({"sweep", grid, "--out", path("grid")});
  EXPECT_NE(table.out.find("upper 95%"), std::string::npos) << table.out;
}

TEST_F(SweepTest, BadGridsAreRefusedBeforeAnythingRuns) {
  expect_failure(run_lpmm({"sweep", "--out", path("out")}), 2, {"at least one config"});
  expect_failure(sweep({"--baseline", "fp32", "--presets", "lpmm"}), 2, {"baseline fp32"});
  expect_failure(sweep({"--presets", "lpmm,lpmm"}), 2, {"config__lpmm__seed1", "twice"});
  expect_failure(sweep({"--presets", "lpmn"}), 2, {"lpmn"});
  expect_failure(sweep({"--axis", "train.steps"}), 2, {"--axis train.steps"});
  expect_failure(sweep({"--axis", "train.stepz=1"}), 2, {"stepz"});
  expect_failure(sweep({"--axis", "train.seed=1,2", "--seeds", "3,4"}), 2, {"train.seed", "--seeds"});
  expect_failure(sweep({"--axis", "train.steps=1", "--axis", "train.steps=2"}), 2,
                 {"two axes", "train.steps"});
  std::vector<std::string> many;
  for (const char* key : {"learning_rate", "weight_decay", "momentum"}) {
    std::string values = "0.1";
    for (int i = 1; i < 30; ++i) values += fmt::format(",0.{}1", i);
    many.insert(many.end(), {"--axis", fmt::format("optimizer.{}={}", key, values)});
  }
  expect_failure(sweep(many), 2, {"more than 10000 trainings"});
  std::vector<std::string> wide;
  for (const char* key : {"learning_rate", "weight_decay", "momentum", "dampening", "clip_norm"}) {
    wide.insert(wide.end(), {"--axis", fmt::format("optimizer.{}=0.{:030}", key, 1)});
  }
  expect_failure(sweep(wide), 2, {"name of", "255"});
  expect_failure(run_lpmm({"sweep", write("g.toml", "\npreset = [\"lpmm\"]\n"), "--out", path("out")}), 2,
                 {"g.toml:2", "presets"});
  expect_failure(run_lpmm({"sweep", write("g.toml", "seeds = [1, -1]\n"), "--out", path("out")}), 2,
                 {"g.toml:1"});
  expect_failure(run_lpmm({"sweep", write("g.toml", "seeds = [\n"), "--out", path("out")}), 2, {"g.toml"});
  EXPECT_FALSE(fs::exists(path("out")));
}

}  // namespace
}  // namespace lpmm
