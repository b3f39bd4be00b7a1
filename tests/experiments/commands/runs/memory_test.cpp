// Tests that a run takes the memory that was planned, measured from outside, and that real networks give the
// same bytes for any number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lpmm/files/files.h"
#include "tests/experiments/program.h"

namespace lpmm {
namespace {

class Memory : public ProgramTest {
 protected:
  nlohmann::json run(const std::string& name, const std::vector<std::string>& settings) const {
    return run(config(), name, settings);
  }
  nlohmann::json run(const std::string& of, const std::string& name, const std::vector<std::string>& settings,
                     const Surroundings& surroundings = {}) const {
    std::vector<std::string> arguments = {"train", of, "--quiet", "--json", "--out", path(name)};
    for (const std::string& s : settings) arguments.insert(arguments.end(), {"--set", s});
    const Outcome outcome = run_lpmm(arguments, surroundings);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.json();
  }
};

void expect_as_planned(const nlohmann::json& summary) {
  const auto peak = summary["peak_rss_bytes"].get<double>();
  const auto planned = summary["plan_peak_bytes"].get<double>();
  EXPECT_NEAR(peak, planned, std::max(0.1 * planned, 12e6)) << summary;
}

TEST_F(Memory, APlanIsRefusedForWhatTheRunIs) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> refused = {
      {{"data.side=33"}, "the side is a multiple of 32"},
      {{"train.batch=160"}, "train.batch = 160 is more than the 128 training examples of drawn"},
      {{"train.batch=160", "train.microbatches=5"}, "--set train.batch=64 --set train.microbatches=1"},
      {{"train.steps=0", "train.epochs=1000000", "train.batch=2", "data.train_images=10000"}, "too many"},
      {{"train.init=" + path("nowhere")}, "nowhere"},
      {{"optimizer.group=[{pattern='x*', frozen=true}]"}, "matches no tensor"}};
  for (const auto& [settings, why] : refused) {
    std::vector<std::string> plan = {"plan", config()};
    for (const std::string& s : settings) plan.insert(plan.end(), {"--set", s});
    std::vector<std::string> train = plan;
    train[0] = "train";
    train.insert(train.end(), {"--quiet", "--out", path("run")});
    expect_failure(run_lpmm(plan), 2, {why});
    expect_failure(run_lpmm(train), 2, {why});
  }
}

TEST_F(Memory, AnMlpTakesWhatThePlanSays) {
  for (const char* preset : {"\"fp32\"", "\"lpmm-min\""}) {
    expect_as_planned(
        run(std::string("mlp-") + (preset[1] == 'f' ? "fp32" : "min"),
            {"model.hidden=[2048, 2048]", "train.steps=2", std::string("memory.preset=") + preset}));
  }
}

TEST_F(Memory, AResNetTakesWhatThePlanSays) {
  for (const char* compute : {"fp32", "bf16"}) {
    expect_as_planned(
        run(std::string("resnet") + compute,
            {"model.name=resnet8", "model.hidden=[]", "data.train_images=256", "train.batch=128",
             "train.steps=2", "train.microbatches=1", std::string("train.compute=") + compute}));
  }
}

// Experts have other numbers of rows in every step: libraries keep a kernel for each number.
TEST_F(Memory, AMixtureOfExpertsTakesWhatThePlanSays) {
  std::string words;
  for (int i = 0; i < 4000; ++i) words += std::to_string(i * i % 97) + " lines of text, ";
  write_text(path("words.txt"), words);
  write_text(path("experts.toml"), R"(
[model]
name = "llama"
layers = 2
heads = 4
embedding = 192
mlp_width = 192
context = 64
qk_norm = true
experts = 16
experts_per_token = 3
expert_width = 256
balance_loss = 0.01
[data]
set = "text"
tokenizer = "bytes"
[train]
steps = 8
batch = 16
microbatches = 2
threads = 2
[optimizer]
rule = "adamw"
)");
  // Threads would have heaps of their own, whose gaps are a matter of chance.
  const Surroundings one_heap{.environment = {{"MALLOC_ARENA_MAX", "1"}}};
  for (const char* settings : {"memory.preset=lpmm", "train.compute=fp32"}) {
    expect_as_planned(
        run(path("experts.toml"), settings, {"data.path=" + path("words.txt"), settings}, one_heap));
  }
}

TEST_F(Memory, AResNetGivesTheSameBytesForAnyThreads) {
  std::string first;
  for (const char* threads : {"1", "2", "3"}) {
    run(threads, {"model.name=resnet8", "model.hidden=[]", "train.compute=bf16", "train.steps=3",
                  "data.augment=true", std::string("train.threads=") + threads});
    const std::string bytes = read_file(path(threads) + "/checkpoints/step_00000003/model.safetensors");
    ASSERT_FALSE(bytes.empty());
    if (first.empty()) first = bytes;
    EXPECT_TRUE(bytes == first) << threads << " threads";
  }
}

}  // namespace
}  // namespace lpmm
