// The program, killed at arbitrary moments and resumed, ends with the bytes of a run that was left alone.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lpmm/run/log.h"
#include "tests/experiments/program.h"

namespace lpmm {
namespace {

namespace fs = std::filesystem;

using Resume = ProgramTest;

// Records that do not depend on when the process ran.
std::string story(const std::string& run) {
  std::string text;
  for (Json r : read_log(run + "/log.jsonl")) {
    if (r["type"] == "system" || r["type"] == "config") continue;  // one tells the threads
    for (const char* key :
         {"seconds", "train_seconds", "images_per_second", "rss_bytes", "peak_rss_bytes",
          "rss_at_start_bytes", "plan_peak_bytes", "overhead_bytes", "peak_bytes", "workspace_bytes"}) {
      r.erase(key);
    }
    text += r.dump() + "\n";
  }
  return text;
}

std::int64_t size_of(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? 0 : static_cast<std::int64_t>(size);
}

std::string gpt_config(const std::string& text) {
  return R"([model]
name = "gpt"
layers = 1
heads = 2
embedding = 16
context = 16
[data]
set = "text"
path = ")" +
         text + R"("
[train]
steps = 1000000
batch = 8
[optimizer]
rule = "adamw"
[log]
every_steps = 1
)";
}

// Starts `lpmm` and kills it once its log has grown by `bytes` and `microseconds` more have passed. Returns
// whether it was killed; otherwise it has ended by itself, with success.
bool run_and_kill(const std::vector<std::string>& arguments, const std::string& log, std::int64_t bytes,
                  unsigned microseconds) {
  const std::int64_t start = size_of(log);
  const ::pid_t child = start_lpmm(arguments);
  int status = 0;
  std::int64_t lowest = start;  // resuming cuts the log first
  while (::waitpid(child, &status, WNOHANG) == 0) {
    const std::int64_t now = size_of(log);
    lowest = std::min(lowest, now);
    if (now - lowest < bytes) {
      ::usleep(100);
      continue;
    }
    ::usleep(microseconds);
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    return WIFSIGNALED(status);
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return false;
}

TEST_F(Resume, KilledAnywhereItEndsWithTheSameBytes) {
  const std::vector<std::string> settings = {
      "--set", "train.steps=30",    "--set", "checkpoint.every_steps=2",   "--set", "checkpoint.keep=3",
      "--set", "log.every_steps=1", "--set", "log.underflow_every_steps=5"};
  train("whole", settings);
  const std::string run = path("killed");
  std::vector<std::string> arguments = {"train", config(),   "--quiet", "--threads",
                                        "2",     "--resume", "--out",   run};
  arguments.insert(arguments.end(), settings.begin(), settings.end());
  int kills = 0;
  std::uint32_t random = 12345;
  for (int attempt = 0; attempt < 200; ++attempt) {
    random = random * 1664525U + 1013904223U;
    // The first record of a process brings the log to life; later ones come with the steps.
    if (!run_and_kill(arguments, run + "/log.jsonl", 1 + (random >> 8) % 6000, (random >> 20) % 4000)) break;
    ++kills;
  }
  EXPECT_GE(kills, 3);
  EXPECT_EQ(nlohmann::json::parse(run_lpmm({"eval", run, "--json"}).out)["images"], 32);
  EXPECT_TRUE(story(run) == story(path("whole")));
  for (const char* step : {"step_00000026", "step_00000028", "step_00000030"}) {
    const std::string file = std::string("/checkpoints/") + step + "/model.safetensors";
    EXPECT_TRUE(read_file(run + file) == read_file(path("whole") + file)) << step;
  }
}

TEST_F(Resume, AnInterruptSavesAndExitsWith130) {
  const std::string run = path("run");
  const ::pid_t child = start_lpmm({"train", config(), "--quiet", "--out", run, "--set",
                                    "train.steps=1000000", "--set", "log.every_steps=1"});
  int status = 0;
  while (size_of(run + "/log.jsonl") < 3000 && ::waitpid(child, &status, WNOHANG) == 0) ::usleep(200);
  ::kill(child, SIGINT);
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  const auto last = read_log(run + "/log.jsonl").back();
  EXPECT_EQ(last["type"], "summary");
  EXPECT_EQ(last["interrupted"], true);
  EXPECT_EQ(run_lpmm({"eval", run}).code, 0);
}

// Tokens are mapped, so that no read can fail.
TEST_F(Resume, ATokenFileThatIsCutOffEndsTheRunWithAMessage) {
  const std::string tokens = path("text.tokens"), run = path("run");
  ASSERT_EQ(run_lpmm({"data", "tokenize", "--tokenizer", "bytes", write("text.txt", std::string(9000, 'a')),
                      tokens})
                .code,
            0);
  const std::string gpt = write("gpt.toml", gpt_config(tokens));
  const ::pid_t child = start_lpmm({"train", gpt, "--quiet", "--out", run});
  int status = 0;
  while (size_of(run + "/log.jsonl") < 6000 && ::waitpid(child, &status, WNOHANG) == 0) ::usleep(200);
  fs::resize_file(tokens, 0);
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

// If a run's data or tokenizer have changed, the user is told so, and not told to remove a checkpoint.
TEST_F(Resume, ChangedDataAndTokenizersAreNoDamage) {
  std::string text;
  while (text.size() < 6000) text += "a b a ";
  const std::string file = write("text.txt", text),
                    vocabulary = "[UNK]\n[PAD]\n[CLS]\n[SEP]\n[MASK]\na\n##a\nb\n";
  const std::string tokenizer = write("vocab.txt", vocabulary), run = path("run");
  const std::string gpt = write("gpt.toml", gpt_config(file));
  const auto go_on = [&](const char* steps, const std::string& out) {
    return run_lpmm({"train", gpt, "--quiet", "--resume", "--out", out, "--set",
                     "data.tokenizer=" + tokenizer, "--set", "checkpoint.every_steps=1", "--set",
                     std::string("train.steps=") + steps});
  };
  const auto never = [](const Outcome& said) {
    EXPECT_EQ(said.err.find("remove"), std::string::npos) << said.err;
  };
  write("text.txt", text);
  ASSERT_EQ(go_on("3", run).code, 0);
  write("text.txt", text + text);
  Outcome said = go_on("4", run);
  expect_failure(said, 2,
                 {"step_00000003", "was trained on other data", " tokens with the checksum ", file,
                  "put the old files back", "--init " + run + "/checkpoints/step_00000003"});
  never(said);
  // The advice works.
  EXPECT_EQ(run_lpmm({"train", gpt, "--quiet", "--out", path("new"), "--set", "train.steps=1", "--init",
                      run + "/checkpoints/step_00000003"})
                .code,
            0);
  write("text.txt", text);
  write("vocab.txt", vocabulary + "c\n");
  std::filesystem::remove_all(run + "/model_files");  // as runs of earlier versions have none
  said = go_on("4", run);
  expect_failure(said, 1,
                 {tokenizer, "is another tokenizer", "checksum", "step_00000003", "Put the old files back"});
  never(said);
  write("vocab.txt", vocabulary);
  // If a checkpoint is damaged, the one before it is looked at before advice is given.
  const std::string state = run + "/checkpoints/step_00000003/state.json", good = read_file(state);
  write("run/checkpoints/step_00000003/state.json", good.substr(0, good.size() / 2));
  expect_failure(go_on("4", run), 1, {"damaged", "step_00000002 is earlier and whole: remove the later"});
  write("run/checkpoints/step_00000003/state.json", good);
  EXPECT_EQ(go_on("4", run).code, 0);
}

}  // namespace
}  // namespace lpmm
