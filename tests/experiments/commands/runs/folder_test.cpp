// Tests of what people type at a run's folder, of a machine that is too small, and of a pipe that closes.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "lpmm/base/host.h"
#include "lpmm/files/locked_file.h"
#include "tests/experiments/program.h"

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

// Of ranks an error says what to do, as of one process, and not that --resume is what helps.
TEST_F(Folder, AnEditedConfigIsSaidOfRanksAsOfOneProcess) {
  std::vector<std::string> words = {"train", config(),        "--quiet", "--set",    "train.microbatches=2",
                                    "--set", "ranks.slots=2", "--out",   path("run")};
  ASSERT_EQ(run_lpmm(words).code, 0);
  write("run/config.toml", "# edited\n" + read_file(path("run/config.toml")));
  words.insert(words.end(), {"--resume", "--ranks"});
  std::vector<std::string> said;
  for (const char* ranks : {"1", "2"}) {
    words.push_back(ranks);
    said.push_back(run_lpmm(words).err);
    words.pop_back();
  }
  EXPECT_NE(said[0].find("is damaged or was edited"), std::string::npos) << said[0];
  EXPECT_EQ(said[0], said[1]);
}

TEST_F(Folder, AReaderThatGoesAwayIsNoFailure) {
  for (const char* words : {"info", "help train", "help model"}) {
    const std::string command =
        fmt::format("{} {} 2>{} | true; exit ${{PIPESTATUS[0]}}", LPMM_PROGRAM, words, path("err"));
    const int status = std::system(("bash -c '" + command + "'").c_str());
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_TRUE(WEXITSTATUS(status) == 141 || WEXITSTATUS(status) == 0) << WEXITSTATUS(status);
    EXPECT_EQ(read_file(path("err")), "") << words;
  }
}

TEST_F(Folder, AnImportIsAloneInItsFolder) {
  const std::string published = LPMM_SOURCE_DIR "/tests/golden/gpt2_tiny.safetensors";
  fs::create_directories(path("hf"));
  {
    const FolderLock lock(path("hf"), "another import");
    expect_failure(run_lpmm({"import", published, "--out", path("hf")}), 1,
                   {"hf: another import is at work"});
  }
  EXPECT_EQ(run_lpmm({"import", published, "--out", path("hf")}).code, 0);
  EXPECT_FALSE(fs::exists(path("hf/.lock")));
  expect_failure(run_lpmm({"import", published, "--out", ""}), 2, {"--out", "is empty"});
  expect_failure(run_lpmm({"import", path("none"), "--out", path("new")}), 1, {"none"});
  EXPECT_FALSE(fs::exists(path("new")));
}

// A config is UTF-8 text, so that it cannot name what its run started from.
TEST_F(Folder, ANameThatIsNoTextIsRefusedBeforeTraining) {
  train("\xFF");
  expect_failure(run_lpmm({"train", config(), "--init", path("\xFF"), "--out", path("run")}), 2,
                 {"init = ", "no UTF-8"});
  EXPECT_FALSE(fs::exists(path("run")));
}

// Whatever a command writes, a run's own files stay.
TEST_F(Folder, NoOutputReplacesWhatARunIsMadeOf) {
  train("run");
  const auto files = [&] {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(path("run"))) {
      if (entry.is_regular_file()) all[entry.path().string()] = read_file(entry.path().string());
    }
    return all;
  };
  const auto held = files();
  const std::string array = LPMM_SOURCE_DIR "/tests/golden/none.npy";  // outputs are looked at first
  for (const char* part : {"config.toml", "log.jsonl", "checkpoints/step_00000004/model.safetensors",
                           "checkpoints/new", "watch/spike.json", "./checkpoints/../log.jsonl"}) {
    const std::string output = path("run/") + part;
    for (const std::vector<std::string>& command : {std::vector<std::string>{"export", path("run"), "--out"},
                                                    {"export", path("run"), "--hf", "--out"},
                                                    {"embed", path("run"), "--out"},
                                                    {"report", path("run"), "--out"},
                                                    {"plot", path("run"), "--csv"},
                                                    {"quantize", array, "--spec", "int8", "--codes"},
                                                    {"quantize", array, "--spec", "int8", "--decoded"},
                                                    {"data", "tokenize", array},
                                                    {"data", "tokenizer", array, "--output"}}) {
      std::vector<std::string> with = command;
      with.push_back(output);
      expect_failure(run_lpmm(with), 2, {"is part of the run"});
    }
  }
  EXPECT_EQ(files(), held);
  EXPECT_EQ(run_lpmm({"export", path("run"), "--out", path("run/weights.safetensors")}).code, 0);
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
  const std::string file = config();
  int failed = 0, done = 0;
  // Convolutions are made while the run is planned, products when it runs.
  for (const char* model : {"model.name=mlp", "model.name=resnet8"}) {
    const std::string hidden = model == std::string("model.name=mlp") ? "[16]" : "[]";
    for (std::int64_t limit = 100 << 20; limit < (240 << 20); limit += 7 << 20) {
      Surroundings small;
      small.address_bytes = limit;
      fs::remove_all(path("run"));
      const Outcome outcome =
          run_lpmm({"train", file, "--quiet", "--threads", "2", "--set", model, "--set",
                    "model.hidden=" + hidden, "--set", "train.steps=1", "--out", path("run")},
                   small);
      EXPECT_TRUE(outcome.code == 0 || outcome.code == 1 || outcome.code == 127)
          << limit << ": " << outcome.code << outcome.err;
      (outcome.code == 0 ? done : failed) += 1;
      EXPECT_TRUE(outcome.code != 1 || !outcome.err.empty()) << limit;
    }
  }
  EXPECT_GT(done, 0);
  EXPECT_GT(failed, 0);
}

}  // namespace
}  // namespace lpmm
