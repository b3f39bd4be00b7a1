// `lpmm watch` as a user types it.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/experiments/program.h"

namespace lpmm {
namespace {

namespace fs = std::filesystem;

class WatchProgram : public ProgramTest {
 protected:
  // A rate that rises fiftyfold at step 57.
  void train_to_a_spike(const std::string& out, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> settings = {"--set", "train.steps=80",
                                         "--set", "schedule.kind=step",
                                         "--set", "schedule.milestones=[0.7]",
                                         "--set", "schedule.gamma=50",
                                         "--set", "train.eval_every_epochs=0",
                                         "--set", "log.every_steps=3",
                                         "--set", "checkpoint.every_steps=20"};
    settings.insert(settings.end(), more.begin(), more.end());
    std::vector<std::string> arguments = {"train", config(), "--quiet", "--threads", "1", "--out", path(out)};
    arguments.insert(arguments.end(), settings.begin(), settings.end());
    const Outcome outcome = run_lpmm(arguments);
    ASSERT_TRUE(outcome.code == 0 || outcome.code == 1) << outcome.err;
    ASSERT_TRUE(fs::exists(path(out) + "/watch")) << outcome.err;
  }
  std::set<std::string> files_of(const std::string& run) const {
    std::set<std::string> files;
    for (const auto& item : fs::recursive_directory_iterator(path(run))) {
      if (item.is_regular_file()) files.insert(fs::relative(item.path(), path(run)).string());
    }
    return files;
  }
};

TEST_F(WatchProgram, ReplaysASpikeAndWritesOnlyFilesOfItsOwn) {
  train_to_a_spike("run");
  const std::set<std::string> before = files_of("run");
  const std::string log = read_file(path("run/log.jsonl"));
  const Outcome outcome = run_lpmm({"watch", path("run"), "--suspects", "2", "--svg", "--json", "--quiet"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto answer = outcome.json();
  const int step = answer["step"];
  EXPECT_GE(step, 57);
  EXPECT_LE(step, 60);
  EXPECT_EQ(answer["from_step"], 40);
  EXPECT_GE(answer["losses_compared"], 20);
  ASSERT_GE(answer["moves"].size(), 2U);
  EXPECT_EQ(answer["moves"][0]["step"], 57);
  ASSERT_EQ(answer["trials"].size(), 2U);
  for (const auto& trial : answer["trials"]) {
    EXPECT_TRUE(trial["spike"] == "stays" || trial["spike"] == "shrinks" || trial["spike"] == "vanishes");
  }
  EXPECT_EQ(read_file(path("run/log.jsonl")), log);
  std::set<std::string> made;
  for (const std::string& file : files_of("run")) {
    if (before.count(file) == 0) made.insert(file);
  }
  const std::string end = std::to_string(100000000 + step).substr(1);
  EXPECT_EQ(made, (std::set<std::string>{"watch/map_" + end + ".gp", "watch/map_" + end + ".png",
                                         "watch/map_" + end + ".svg", "watch/replay_" + end + ".jsonl",
                                         "watch/without_" + end + ".jsonl"}));
  // The output for people, of another step without other tensors.
  const Outcome told = run_lpmm({"watch", path("run"), "--step", "45", "--without", "*.bias"});
  EXPECT_EQ(told.code, 0) << told.err;
  EXPECT_NE(told.out.find("all as the run wrote them"), std::string::npos) << told.out;
  // Without any update nothing spikes.
  const Outcome all = run_lpmm({"watch", path("run"), "--without", "*", "--after", "0", "--json", "--quiet"});
  EXPECT_EQ(all.json()["trials"][0]["spike"], "vanishes") << all.out;
}

TEST_F(WatchProgram, NamesElementsWhereTheRunKeptTheirPeaks) {
  train_to_a_spike("run", {"--set", "watch.every=true", "--set", "optimizer.rule=adamw"});
  const Outcome outcome = run_lpmm({"watch", path("run"), "--json", "--quiet"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto answer = outcome.json();
  const int step = answer["step"];
  ASSERT_GE(answer["elements"].size(), 5U);
  for (const auto& element : answer["elements"]) {
    EXPECT_GE(element["step"], step - 8);
    EXPECT_LE(element["step"], step);
    EXPECT_GE(element["at_least"].get<double>(), 2 * element["was_below"].get<double>()) << element;
    EXPECT_TRUE(element["measure"] == "|u|/|p|" || element["measure"] == "g^2/v");
  }
  const Outcome told = run_lpmm({"watch", path("run"), "--quiet"});
  EXPECT_NE(told.out.find("elements that rose furthest"), std::string::npos) << told.out;
  EXPECT_NE(told.out.find(".weight["), std::string::npos) << told.out;
}

// A variance of rows moves in the update itself, which is measured all the same.
TEST_F(WatchProgram, NamesTensorsWhoseVariancesAreOfRows) {
  train_to_a_spike("run", {"--set", "optimizer.rule=adam_mini"});
  const auto answer = run_lpmm({"watch", path("run"), "--step", "60", "--json", "--quiet"}).json();
  EXPECT_EQ(answer["tensors_not_looked_at"], 0);
  ASSERT_GE(answer["moves"].size(), 2U) << answer;
  EXPECT_EQ(answer["trials"].size(), 1U);
}

TEST_F(WatchProgram, SaysThatItMeasuresNoUpdateMadeAtOnce) {
  train("run", {"--set", "memory.accumulator=none", "--set", "train.microbatches=1"});
  const std::vector<std::string> watch = {"watch", path("run"), "--step", "4", "--from-start", "--quiet"};
  const Outcome told = run_lpmm(watch);
  EXPECT_EQ(told.code, 0) << told.err;
  EXPECT_NE(told.out.find("4 of 4 tensors are not measured, as their gradients are applied at once"),
            std::string::npos)
      << told.out;
}

TEST_F(WatchProgram, SaysWhatIsMissing) {
  expect_failure(run_lpmm({"watch", path("nothing")}), 2, {"nothing", "no run's folder"});
  train("calm");
  expect_failure(run_lpmm({"watch", path("calm")}), 2, {"calm", "kept no spike", "--step"});
  expect_failure(run_lpmm({"watch", path("calm"), "--step", "9"}), 2, {"4 steps", "step 9"});
  expect_failure(run_lpmm({"watch", path("calm"), "--step", "3"}), 2,
                 {"no checkpoint before step 3", "--from-start"});
  const Outcome early = run_lpmm({"watch", path("calm"), "--step", "3", "--from-start", "--quiet"});
  EXPECT_EQ(early.code, 0);
  EXPECT_NE(early.out.find("too few"), std::string::npos) << early.out;
  EXPECT_EQ(early.out.find("+- 0"), std::string::npos) << early.out;
  const Outcome json = run_lpmm({"watch", path("calm"), "--step", "3", "--from-start", "--quiet", "--json"});
  EXPECT_TRUE(json.json()["loss_before"].is_null()) << json.out;
  EXPECT_TRUE(json.json()["deviation_before"].is_null()) << json.out;
  expect_failure(run_lpmm({"watch", path("calm"), "--step", "3", "--without", "*", "--suspects", "2"}), 2,
                 {"--suspects", "--without"});
  expect_failure(
      run_lpmm({"watch", path("calm"), "--step", "3", "--from-start", "--quiet", "--without", "hiden*"}), 2,
      {"hiden*", "did you mean"});
  train("blind", {"--set", "watch.every_steps=0"});
  expect_failure(run_lpmm({"watch", path("blind")}), 2, {"blind", "watch.every_steps = 0"});
}

TEST_F(WatchProgram, RefusesARunOfAnotherProgramAndALogThatWasChanged) {
  train_to_a_spike("run");
  const std::string log = read_file(path("run/log.jsonl"));
  std::string other = log;
  const std::string key = "\"version\":\"";
  other.insert(other.find(key) + key.size(), "9.");
  write("run/log.jsonl", other);
  expect_failure(run_lpmm({"watch", path("run"), "--quiet"}), 1, {"computed by", "9."});
  std::string changed = log;
  const std::string loss = "\"step\":48,\"epoch\":11,\"loss\":";
  ASSERT_NE(changed.find(loss), std::string::npos);
  changed.insert(changed.find(loss) + loss.size(), "1");
  write("run/log.jsonl", changed);
  expect_failure(run_lpmm({"watch", path("run"), "--quiet"}), 1, {"step 48", "made again"});
}

}  // namespace
}  // namespace lpmm
