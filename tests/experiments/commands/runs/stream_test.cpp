// data.stream: memory that does not grow with the data. train.average as the program takes it.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "lpmm/run/log.h"
#include "tests/experiments/program.h"
#include "tests/sanitized.h"

namespace lpmm {
namespace {

class StreamProgramTest : public ProgramTest {
 protected:
  // Rows of "text", or lines; many times what one run looks at.
  std::string corpus(const std::string& name, bool is_jsonl, std::size_t bytes) const {
    std::mt19937 draw(3);
    std::ofstream out(path(name), std::ios::binary);
    std::string line;
    for (std::size_t written = 0; written < bytes; written += line.size()) {
      line.clear();
      for (int i = 0; i < 400; ++i) line += static_cast<char>('a' + draw() % 26);
      out << (is_jsonl ? R"({"text": ")" + line + "\"}" : line) << "\n";
    }
    return path(name);
  }
  // The peak of a whole process that reads and trains, in bytes.
  double peak(const std::string& set, const std::string& data, bool streams) const {
    const std::string config = write(
        "stream.toml",
        "[model]\nname = 'gpt'\nlayers = 1\nheads = 2\nembedding = 16\ncontext = 128\n[data]\nset = '" + set +
            "'\ntokenizer = 'bytes'\nvalidation_share = 0.001\n[train]\nsteps = 20\nbatch = "
            "8\ncompute = 'fp32'\nthreads = 1\n[memory]\npreset = 'lpmm'\n[checkpoint]\nfinal = false\n");
    const std::string out = path("run" + std::to_string(runs_++));
    const Outcome outcome =
        run_lpmm({"train", config, "--set", "data.path=" + data, "--set",
                  std::string("data.stream=") + (streams ? "true" : "false"), "--quiet", "--out", out},
                 {.environment = {{"LPMM_DATA", path("data")}}});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return read_log(out + "/log.jsonl").back().at("peak_rss_bytes").get<double>();
  }
  mutable int runs_ = 0;
};

// 40 MB in memory take 160 MB as tokens and more while they are read. What grows when they are streamed are
// 50 bytes or so for each of 95,000 conversations, not their 38 million tokens.
TEST_F(StreamProgramTest, MemoryDoesNotGrowWithTheData) {
  if (kSanitized) GTEST_SKIP() << "sanitizers keep what was freed";
  for (const bool is_jsonl : {false, true}) {
    const char* set = is_jsonl ? "conversations" : "text";
    const std::string small = corpus("small.jsonl", is_jsonl, 2'000'000),
                      large = corpus("large.jsonl", is_jsonl, 30'000'000);
    // The first time the tokens are made, of 4 MiB of text at once.
    EXPECT_LT(peak(set, large, true) - peak(set, small, true), 24e6) << set;
    const double of_small = peak(set, small, true), of_large = peak(set, large, true);
    EXPECT_LT(of_large - of_small, 4e6) << set;
    EXPECT_GT(peak(set, large, false) - of_large, 75e6) << set;
  }
}

TEST_F(StreamProgramTest, AveragesAreTakenWhereTheyAreAskedFor) {
  const std::string text = corpus("a.txt", false, 20'000);
  const std::string config = write(
      "average.toml",
      "[model]\nname = 'gpt'\nlayers = 1\nheads = 2\nembedding = 16\ncontext = 32\n[data]\nset = 'text'\n"
      "tokenizer = 'bytes'\n[train]\nsteps = 12\nbatch = 8\n[memory]\npreset = 'lpmm-min'\n");
  const auto train = [&](const char* average, const std::string& out) {
    ASSERT_EQ(
        run_lpmm({"train", config, "--set", "data.path=" + text, "--set", average, "--quiet", "--out", out})
            .code,
        0);
  };
  const std::string run = path("averaged");
  train("train.average=0.9", run);
  const auto loss = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"eval", run, "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return run_lpmm(words).json()["loss"];
  };
  EXPECT_NE(loss({}), loss({"--average"}));
  const auto written = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"export", run, "--out", path(name)};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(run_lpmm(words).code, 0);
    return read_file(path(name));
  };
  EXPECT_NE(written("last", {}), written("average", {"--average"}));
  EXPECT_NE(written("last.gguf", {"--gguf"}), written("average.gguf", {"--gguf", "--average"}));
  EXPECT_EQ(run_lpmm({"sample", run, "--average", "--tokens", "5"}).code, 0);
  train("train.average=0", path("plain"));
  for (const char* command : {"eval", "sample"}) {
    expect_failure(run_lpmm({command, path("plain"), "--average"}), 2, {"train.average"});
  }
  expect_failure(run_lpmm({"export", path("plain"), "--average", "--out", path("none")}), 2,
                 {"train.average"});
}

}  // namespace
}  // namespace lpmm
