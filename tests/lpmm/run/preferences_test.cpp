// data.set = "preferences": a run learns which answers are preferred, keeps what it compares with, goes on to
// the same bytes, is evaluated.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/device.h"
#include "lpmm/base/error.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/files/files.h"
#include "lpmm/run/beside/reference.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/evaluate.h"
#include "lpmm/run/log.h"
#include "lpmm/run/plan.h"
#include "lpmm/run/stored_weights.h"
#include "lpmm/run/tasks/task.h"
#include "lpmm/run/tasks/tasks.h"
#include "lpmm/run/trainer.h"
#include "models/families.h"
#include "tests/lpmm/run/cut_run.h"
#include "tests/lpmm/said.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

class PreferenceRun : public testing::Test {
 protected:
  void SetUp() override { write("my.jsonl", 1); }
  // Answers of vowels are preferred to those of other letters.
  void write(const std::string& name, int seed) const {
    std::ofstream out(scratch_ / name);
    for (int i = 0; i < 80; ++i) {
      std::string good, bad, prompt;
      for (int j = 0; j < 3 + (i + seed) % 5; ++j) {
        good += "aeiou"[(i * 3 + j * seed) % 5];
        bad += "kmnst"[(i + j * 2 + seed) % 5];
        prompt += static_cast<char>('a' + (i * 7 + j * 5 + seed) % 26);
      }
      out << R"({"prompt": ")" << prompt << R"(? ", "chosen": ")" << good << R"(", "rejected": ")" << bad
          << "\"}\n";
    }
  }
  RunConfig config(const std::vector<std::string>& settings = {}) const {
    return parse_config(
        "[model]\nname = 'gpt'\nlayers = 1\nheads = 2\nembedding = 16\ncontext = 64\n"
        "[data]\nset = 'preferences'\nlength = 48\nvalidation_share = 0.2\npath = '" +
            (scratch_ / "my.jsonl") +
            "'\n[train]\nsteps = 8\nbatch = 4\nmicrobatches = 2\ncompute = 'fp32'\n"
            "[optimizer]\nrule = 'adamw'\nlearning_rate = 0.01\n[memory]\npreset = 'lpmm'\n"
            "[log]\nevery_steps = 4\n",
        "pairs.toml", with_families({.settings = settings}));
  }
  Json run(const std::string& out, const std::vector<std::string>& settings = {}, bool resume = false) const {
    const lpmm::Setup setup = open_data(config(settings));
    return Json::parse(train(setup, *make_model(setup.config), {scratch_ / out, resume, true}).summary);
  }
  std::string refusal(const std::vector<std::string>& settings) const {
    return said([&] { open_data(config(settings)); });
  }
  std::string bytes(const std::string& file) const { return read_text(scratch_ / file, 1 << 30); }
  // A run of 8 steps, and another that has lost those from the 4th on, and its summary.
  void cut_at_3() const {
    const std::vector<std::string> often = {"checkpoint.every_steps=1", "checkpoint.keep=0"};
    run("whole", often);
    copy_cut_at_3(scratch_ / "whole", scratch_ / "part");
  }
  Json go_on() const { return run("part", {"checkpoint.every_steps=1", "checkpoint.keep=0"}, true); }
  Scratch scratch_;
};

TEST_F(PreferenceRun, LearnsLogsAndIsEvaluated) {
  const Json summary = run("run", {"train.steps=40", "log.every_steps=1"});
  EXPECT_EQ(summary["scores"]["accuracy"], 1.0);
  EXPECT_GT(summary["scores"]["margin"], 0.1);
  EXPECT_LT(summary["test_loss"], 0.65);
  std::vector<Json> steps;
  for (const Json& record : read_log(scratch_ / "run/log.jsonl")) {
    if (record["type"] == "step") steps.push_back(record);
  }
  ASSERT_EQ(steps.size(), 40U);
  EXPECT_NEAR(steps[0]["loss"], std::log(2.0), 1e-5);  // nothing has changed yet
  EXPECT_NEAR(steps[0]["margin"], 0, 1e-5);
  EXPECT_GT(steps.back()["margin"], steps[0]["margin"]);
  EXPECT_GT(steps.back()["accuracy"], 0.9);
  EXPECT_GT(steps[0]["pairs"], 4);  // several share a sequence
  EXPECT_FALSE(steps[0].contains("learnt_tokens"));
  const lpmm::Setup setup = open_data(config());
  EXPECT_GT(setup.size.learnt_tokens, 64 * 2 * 3);
  const EvalResult result = evaluate(setup, *make_model(setup.config), find_checkpoint(scratch_ / "run"));
  EXPECT_EQ(result.loss, summary["test_loss"]);
  EXPECT_EQ(result.items, 16);
  EXPECT_EQ(result.unit, "pairs");
  ASSERT_EQ(result.scores.size(), 2U);
  EXPECT_EQ(result.scores[1].second, summary["scores"]["margin"]);
  EXPECT_FALSE(result.has_accuracy || result.has_perplexity);
}

// The reference that a run keeps is what its first weights say. An evaluation asks them again for other
// pairs, and where the numbers are damaged; other weights, and no file, are refused.
TEST_F(PreferenceRun, IsComparedWithTheModelThatItBeganWith) {
  const Json summary = run("run");
  const lpmm::Setup setup = open_data(config());
  const auto model = make_model(setup.config);
  const std::string checkpoint = find_checkpoint(scratch_ / "run");
  const EvalResult kept = evaluate(setup, *model, checkpoint);
  const std::string file = scratch_ / "run/reference.safetensors", whole = bytes("run/reference.safetensors");
  std::filesystem::remove(file);
  EXPECT_THROW(evaluate(setup, *model, checkpoint), UsageError);
  std::string damaged = whole;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  write_text(file, damaged);
  const EvalResult asked = evaluate(setup, *model, checkpoint);
  write_text(file, whole);
  EXPECT_EQ(kept.loss, asked.loss);
  EXPECT_EQ(kept.scores, asked.scores);
  // A run that begins from that one compares with it.
  const Json next = run("next", {"train.init=" + (scratch_ / "run"), "optimizer.learning_rate=0"});
  EXPECT_NEAR(next["test_loss"], std::log(2.0), 1e-5);
  EXPECT_NEAR(next["scores"]["margin"], 0, 1e-5);
  // Other pairs are compared with the same beginning.
  write("other.jsonl", 2);
  RunConfig other = config();
  name_data({.data = scratch_ / "other.jsonl"}, other);
  EXPECT_EQ(other.data.set, kPreferenceSet.name);
  const lpmm::Setup tested = open_data(other);
  EXPECT_EQ(tested.size.train_examples, 0);
  const EvalResult others = evaluate(tested, *model, checkpoint);
  EXPECT_EQ(others.items, 80);
  EXPECT_GT(others.scores[0].second, 0.8);
  // What another run began with is not there any more.
  std::filesystem::remove_all(scratch_ / "run");
  run("run", {"train.seed=7"});
  EXPECT_THROW(evaluate(tested, *model, find_checkpoint(scratch_ / "next")), UsageError);
}

TEST_F(PreferenceRun, GoesOnToTheSameBytes) {
  cut_at_3();
  go_on();
  const std::string last = "/checkpoints/step_00000008/";
  EXPECT_TRUE(bytes("part" + last + "model.safetensors") == bytes("whole" + last + "model.safetensors"));
  const auto losses = [&](const char* of) {
    Json all = Json::array();
    for (const Json& record : read_log(scratch_ / (std::string(of) + "/log.jsonl"))) {
      if (record["type"] == "step") all.push_back({record["loss"], record["margin"], record["pairs"]});
    }
    return all;
  };
  EXPECT_EQ(losses("part"), losses("whole"));
  EXPECT_EQ(losses("part").size(), 2U);
}

TEST_F(PreferenceRun, GoesOnWithItsOwnReferenceOnly) {
  cut_at_3();
  const std::string file = scratch_ / "part/reference.safetensors",
                    good = bytes("part/reference.safetensors");
  const auto refused = [&](const char* why) {
    const std::string text = said([&] { go_on(); });
    EXPECT_NE(text.find(why), std::string::npos) << text;
    EXPECT_NE(text.find("--init"), std::string::npos) << text;
  };
  std::filesystem::remove(file);
  refused("is not there");
  std::string other = good;
  other[other.size() - 3] ^= 1;
  write_text(file, other);
  refused("is damaged");
  write_text(file, good.substr(0, good.size() - 4));
  refused("reference.safetensors: ");
  other = good;
  other.replace(other.find("\"template\":\"none\""), 17, "\"template\":\"some\"");
  write_text(file, other);
  refused("is of another template: some there, none now");
  write_text(file, good);
  go_on();
}

// What was asked for while the reference is made ends the run before it has one.
TEST_F(PreferenceRun, StopsWhileTheReferenceIsMade) {
  const lpmm::Setup setup = open_data(config());
  const auto model = make_model(setup.config);
  const auto device = make_device("cpu", 1);
  ModelMemory memory(model->tensors(), setup.config.policy, setup.config.optimizer, 1, 2, *device);
  Buffers buffers(model->buffers(), *device);
  const auto program = model->build(2, ValueType::kFp32, *device);
  const auto data = setup.task->source(setup, device->host_pool());
  const InterruptGuard guard;
  int asked = 0;
  const auto stop = [&](std::int64_t, std::int64_t) {
    if (++asked == 2) std::raise(SIGINT);
  };
  EXPECT_THROW(with_asked_reference(data, scratch_.path(), *program, memory, buffers, 2, stop), Interrupted);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(names_in(scratch_.path()), std::set<std::string>{"my.jsonl"});
}

TEST_F(PreferenceRun, RefusesKeysThatWouldDoNothing) {
  EXPECT_NE(refusal({"data.loss=all"}).find("only the answers are learnt"), std::string::npos);
  EXPECT_NE(refusal({"data.too_long=split"}).find("data.too_long = split"), std::string::npos);
  EXPECT_NE(
      refusal({"data.tokenizer=characters"}).find("one whole text, but preferences are many: take bytes"),
      std::string::npos);
  EXPECT_NE(refusal({"data.path=''"}).find("data.path"), std::string::npos);
  EXPECT_EQ(refusal({"data.set=conversations", "data.beta=0.2"}),
            "data.beta is for data.set = preferences, which is conversations here");
  EXPECT_EQ(refusal({"data.stream=true"}),
            "data.stream is for data.set = text or conversations, which is preferences here");
  EXPECT_EQ(refusal({"data.path=''", "data.mixture=[{path = 'a'}]"}),
            "data.mixture is for data.set = text or conversations, which is preferences here");
  for (const char* half : {"data.label_smoothing=0.5", "data.label_smoothing=0.7"})
    EXPECT_NE(refusal({half}).find("no answer is preferred"), std::string::npos) << refusal({half});
  EXPECT_NE(refusal({"data.columns='prompt,chosen,chosen'"}).find("chosen is named twice"),
            std::string::npos);
  EXPECT_THROW(config({"data.beta=0"}), UsageError);
  EXPECT_THROW(config({"data.log_probability=median"}), UsageError);
}

TEST_F(PreferenceRun, KeysDecideTheLoss) {
  const Json plain = run("plain"), smooth = run("smooth", {"data.label_smoothing=0.3"}),
             steep = run("steep", {"data.beta=1"}), mean = run("mean", {"data.log_probability=mean"});
  EXPECT_GT(smooth["test_loss"], plain["test_loss"]);
  EXPECT_GT(steep["scores"]["margin"].get<double>(), 2 * plain["scores"]["margin"].get<double>());
  EXPECT_LT(mean["scores"]["margin"].get<double>(), 0.5 * plain["scores"]["margin"].get<double>());
  EXPECT_EQ(to_toml(config({"data.beta=1"})).find("beta = 0.1"), std::string::npos);
}

}  // namespace
}  // namespace lpmm
