// Whole runs of several processes: the files of one, however often they are stopped and whoever goes on.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "lpmm/program/family.h"
#include "lpmm/ranks/processes.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/config.h"
#include "lpmm/run/log.h"
#include "lpmm/run/setup.h"
#include "lpmm/run/trainer.h"
#include "models/families.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

constexpr const char* kImages = R"(
  [model]
  name = "resnet8"
  [data]
  set = "drawn"
  train_images = 48
  test_images = 8
  [train]
  steps = 6
  batch = 8
  microbatches = 4
  threads = 1
  [optimizer]
  rule = "sgd"
  momentum = 0.9
  learning_rate = 0.05
  percentile_clip = 50
  [memory]
  preset = "lpmm"
  [checkpoint]
  every_steps = 2
  keep = 0
  [log]
  every_steps = 1
  underflow_every_steps = 2
  [watch]
  log_every_steps = 2
  [ranks]
  slots = 4
)";
// Tied embeddings, dropout; gradients that are cut by their norm.
constexpr const char* kText = R"(
  [model]
  name = "gpt"
  layers = 1
  heads = 2
  embedding = 32
  context = 16
  dropout = 0.1
  [data]
  set = "text"
  path = "{}"
  tokenizer = "bytes"
  validation_share = 0.2
  [train]
  steps = 6
  batch = 8
  microbatches = 8
  threads = 1
  [optimizer]
  rule = "adamw"
  learning_rate = 0.01
  clip_norm = 0.5
  [memory]
  preset = "lpmm-min"
  [checkpoint]
  every_steps = 2
  keep = 0
  [log]
  every_steps = 1
  [ranks]
  slots = 4
  timeout_seconds = 60
)";

constexpr const char* kPairs = R"(
  [model]
  name = "transformer"
  layers = 1
  decoder_layers = 1
  heads = 2
  embedding = 64
  mlp_width = 64
  context = 32
  vocabulary = 256
  end_token = 0
  start_token = 0
  [data]
  set = "pairs"
  path = "{}"
  tokenizer = "bytes"
  length = 24
  [train]
  steps = 1
  batch = 8
  microbatches = 2
  threads = 1
  [optimizer]
  rule = "adamw"
  [ranks]
  slots = 2
  stage = 3
  reads = false
)";

RunConfig config_of(const std::string& text, const std::vector<std::string>& settings = {}) {
  return parse_config(text, "ranks.toml", {"", "", settings, &families()});
}

int train_on(int count, const RunConfig& config, const std::string& out, bool resume = false) {
  const Setup setup = open_data(config);
  const auto model = make_model(setup.config);
  const auto body = [&](Ranks& ranks) {
    train(setup, *model, {out, resume, true}, ranks);
    return 0;
  };
  return count == 1 ? body(alone()) : run_on_ranks(count, 60, body);
}

// The records that are of the run and not of its machine, without times.
std::string story(const std::string& out) {
  std::string text;
  for (Json r : read_log(out + "/log.jsonl")) {
    const std::string type = r["type"];
    if (type == "system" || type == "config" || type == "ledger" || type == "summary") continue;
    for (const char* key : {"seconds", "images_per_second", "tokens_per_second", "rss_bytes"}) r.erase(key);
    text += r.dump() + "\n";
  }
  return text;
}

void expect_same_runs(const std::string& one, const std::string& other) {
  const auto saved = saved_steps(one + "/checkpoints");
  ASSERT_FALSE(saved.empty());
  EXPECT_EQ(saved, saved_steps(other + "/checkpoints"));
  for (const std::int64_t step : saved) {
    const std::string file = "/checkpoints/" + checkpoint_name(step) + "/model.safetensors";
    EXPECT_TRUE(read_text(one + file, 1 << 26) == read_text(other + file, 1 << 26)) << "step " << step;
  }
  EXPECT_EQ(story(one), story(other));
}

TEST(RanksOfRuns, HaveTheFilesOfOne) {
  const Scratch scratch;
  write_text(scratch / "text", std::string(kImages) + kText + kImages);
  for (const std::string& text : {std::string(kImages), fmt::format(kText, scratch / "text")}) {
    const std::string name = text.find("resnet8") != std::string::npos ? "images" : "text";
    const RunConfig config = config_of(text);
    train_on(1, config, scratch / (name + "1"));
    for (const int count : {2, 4}) {
      SCOPED_TRACE(fmt::format("{}, {} ranks", name, count));
      const std::string out = scratch / fmt::format("{}{}", name, count);
      EXPECT_EQ(train_on(count, config, out), 0);
      expect_same_runs(scratch / (name + "1"), out);
    }
  }
}

TEST(RanksOfRuns, ReadWhatOthersHaveOrAreSentIt) {
  const Scratch scratch;
  write_text(scratch / "text", std::string(kImages) + kText + kImages);
  for (const int stage : {1, 3}) {
    std::vector<std::int64_t> sent, read;
    for (const bool reads : {true, false}) {
      const std::vector<std::string> settings = {fmt::format("ranks.stage={}", stage),
                                                 fmt::format("ranks.reads={}", reads), "model.embedding=64"};
      const std::string out = scratch / fmt::format("{}{}", stage, reads);
      EXPECT_EQ(train_on(2, config_of(fmt::format(kText, scratch / "text"), settings), out), 0);
      const Json of_ranks = read_log(out + "/log.jsonl").back().at("ranks");
      if (reads && !of_ranks.at("reads")) GTEST_SKIP() << "the system forbids processes to read each other";
      EXPECT_EQ(of_ranks.at("nccl"), false) << "on CPUs";
      sent.push_back(of_ranks.at("sent_bytes").at(1));
      read.push_back(of_ranks.at("read_bytes").at(1));
    }
    expect_same_runs(scratch / fmt::format("{}true", stage), scratch / fmt::format("{}false", stage));
    EXPECT_GT(read[0], 100'000);
    EXPECT_EQ(read[1], 0);
    EXPECT_GT(sent[1], sent[0] + 100'000);
  }
}

// The last share of a matrix of 257 x 1028 ends inside a block; nearest rounding is warned of, by what ranks
// find.
TEST(RanksOfRuns, MayHaveTheirSharesOfWeightsAlone) {
  const Scratch scratch;
  write_text(scratch / "text", std::string(kImages) + kText + kImages);
  const std::vector<std::string> odd = {"model.heads=1", "model.embedding=257", "memory.rounding=rn",
                                        "memory.preset=lpmm-compact", "train.steps=4"};
  const std::string text = fmt::format(kText, scratch / "text");
  for (const RunConfig& config : {config_of(kImages), config_of(text, odd)}) {
    const std::string name = config.model.name;
    RunConfig divided = config, begun = config;
    divided.ranks.stage = begun.ranks.stage = 3;
    begun.train.steps = 2;
    train_on(1, config, scratch / name);
    EXPECT_EQ(train_on(2, divided, scratch / (name + "2")), 0);
    expect_same_runs(scratch / name, scratch / (name + "2"));
    train_on(4, begun, scratch / (name + "4"));
    train_on(2, config, scratch / (name + "4"), true);
    const std::string file = "/checkpoints/" + checkpoint_name(config.train.steps) + "/model.safetensors";
    EXPECT_TRUE(read_text(scratch / name + file, 1 << 26) ==
                read_text(scratch / (name + "4") + file, 1 << 26));
  }
}

TEST(RanksOfRuns, GoOnWithAnyNumber) {
  const Scratch scratch;
  train_on(4, config_of(kImages), scratch / "four");
  const std::string out = scratch / "changing";
  train_on(2, config_of(kImages, {"train.steps=2"}), out);
  train_on(1, config_of(kImages, {"train.steps=4"}), out, true);
  train_on(4, config_of(kImages), out, true);
  const std::string file = "/checkpoints/step_00000006/model.safetensors";
  EXPECT_TRUE(read_text(scratch / "four" + file, 1 << 26) == read_text(out + file, 1 << 26));
  EXPECT_THROW(train_on(1, config_of(kImages, {"ranks.slots=2"}), out, true), UsageError);
}

// A rank that is killed as soon as its part of a test is done.
class Tested final : public Ranks {
 public:
  explicit Tested(Ranks& ranks) : Ranks(ranks.rank(), ranks.size()), ranks_(ranks) {}
  void set_timeout(double seconds) override { ranks_.set_timeout(seconds); }
  double timeout() const override { return ranks_.timeout(); }
  void swap_at(const RankPlace& place, std::span<const std::span<const std::byte>> send,
               std::span<const std::span<std::byte>> receive) override {
    if (place.phase == std::string_view("end of the step")) raise(SIGKILL);
    ranks_.swap_at(place, send, receive);
  }

 private:
  Ranks& ranks_;
};

void lose_second(const RunConfig& config, const std::string& out) {
  const Setup setup = open_data(config);
  const auto model = make_model(setup.config);
  run_on_ranks(2, 60, [&](Ranks& ranks) {
    Tested tested(ranks);
    train(setup, *model, {out, false, true}, ranks.is_first() ? ranks : tested);
    return 0;
  });
}

TEST(RanksOfRuns, ALossWhileTheFirstOneTranslatesIsNoTestWithoutAScore) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "pairs");
  for (const char* file : {"train.en", "train.de", "dev.en", "dev.de"}) {
    std::string lines;
    for (int i = 0; i < 16; ++i) lines += fmt::format("{} by {}\n", i, i * i);
    write_text(scratch / "pairs" + "/" + file, lines);
  }
  const std::string out = scratch / "run";
  EXPECT_THROW(lose_second(config_of(fmt::format(kPairs, scratch / "pairs")), out), RankLost);
  const std::vector<Json> log = read_log(out + "/log.jsonl");
  EXPECT_TRUE(std::ranges::none_of(log, [](const Json& record) { return record.at("type") == "eval"; }));
}

TEST(RanksOfRuns, AreRefusedWhereTheyCannotShareIt) {
  const RunConfig config = config_of(kImages);
  try {
    check_ranks(config, 3);
    ADD_FAILURE() << "three of four";
  } catch (const UsageError& e) {
    EXPECT_STREQ(e.what(),
                 "3 ranks need train.microbatches = 3 or a multiple (it is 4): a rank computes whole "
                 "microbatches");
  }
  EXPECT_THROW(check_ranks(config_of(kImages, {"ranks.slots=2"}), 4), UsageError);
  EXPECT_THROW(config_of(kImages, {"ranks.slots=3"}), UsageError);
}

}  // namespace
}  // namespace lpmm
