// data.set = "conversations": a run learns from packed documents, goes on to the same bytes, is evaluated.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/evaluate.h"
#include "lpmm/run/log.h"
#include "lpmm/run/plan.h"
#include "lpmm/run/tasks/task.h"
#include "lpmm/run/tasks/tasks.h"
#include "lpmm/run/trainer.h"
#include "models/families.h"
#include "tests/lpmm/run/cut_run.h"
#include "tests/lpmm/said.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

class ConversationRun : public testing::Test {
 protected:
  void SetUp() override { write("my.jsonl", 1); }
  // Texts of 5 to 34 bytes.
  void write(const std::string& name, int seed) const {
    std::ofstream out(scratch_ / name);
    for (int i = 0; i < 80; ++i) {
      std::string text;
      for (int j = 0; j < 5 + (i * 7 + seed) % 30; ++j) text += static_cast<char>('a' + (i + j) % 5);
      out << R"({"text": ")" << text << "\"}\n";
    }
  }
  RunConfig config(const std::vector<std::string>& settings = {}) const {
    return parse_config(
        "[model]\nname = 'gpt'\nlayers = 1\nheads = 2\nembedding = 16\ncontext = 64\n"
        "[data]\nset = 'conversations'\nlength = 48\npath = '" +
            (scratch_ / "my.jsonl") +
            "'\n[train]\nsteps = 8\nbatch = 4\nmicrobatches = 2\ncompute = 'fp32'\n"
            "[optimizer]\nrule = 'adamw'\nlearning_rate = 0.01\n[memory]\npreset = 'lpmm'\n"
            "[log]\nevery_steps = 4\n",
        "chat.toml", with_families({.settings = settings}));
  }
  Json run(const std::string& out, const std::vector<std::string>& settings = {}, bool resume = false) const {
    const lpmm::Setup setup = open_data(config(settings));
    return Json::parse(train(setup, *make_model(setup.config), {scratch_ / out, resume, true}).summary);
  }
  std::string refusal(const std::vector<std::string>& settings) const {
    try {
      open_data(config(settings));
    } catch (const UsageError& e) {
      return e.what();
    }
    return "";
  }
  Scratch scratch_;
};

TEST_F(ConversationRun, LearnsLogsAndIsEvaluated) {
  const Json summary = run("run");
  EXPECT_LT(summary["test_loss"], std::log(256.0) - 1);
  std::int64_t learnt = 0;
  for (const Json& record : read_log(scratch_ / "run/log.jsonl")) {
    if (record["type"] == "step") learnt += record["learnt_tokens"].get<std::int64_t>();
  }
  const lpmm::Setup setup = open_data(config());
  Pool pool(1);
  const auto data = setup.task->source(setup, pool);
  EXPECT_GT(learnt, 8 * 4 * 48 * 8 / 10);  // all labels count here but for what fills sequences up
  EXPECT_LT(learnt, 8 * 4 * 48);
  EXPECT_EQ(setup.size.learnt_tokens, data->learnt_labels());
  const EvalResult result = evaluate(setup, *make_model(setup.config), find_checkpoint(scratch_ / "run"));
  EXPECT_EQ(result.loss, summary["test_loss"]);
  EXPECT_EQ(result.items, data->test_items());
}

TEST_F(ConversationRun, GoesOnToTheSameBytes) {
  const std::vector<std::string> often = {"checkpoint.every_steps=1", "checkpoint.keep=0"};
  run("whole", often);
  const std::string part = scratch_ / "part", last = "/checkpoints/step_00000008";
  copy_cut_at_3(scratch_ / "whole", part);
  run("part", often, true);
  EXPECT_TRUE(read_text(part + last + "/model.safetensors", 1 << 30) ==
              read_text(scratch_ / "whole" + last + "/model.safetensors", 1 << 30));
}

TEST_F(ConversationRun, KnowsOtherDataAndIsEvaluatedOnThem) {
  run("run");
  write("my.jsonl", 2);
  const lpmm::Setup changed = open_data(config());
  EXPECT_THROW(check_same_data(checkpoint_run(find_checkpoint(scratch_ / "run")), changed, "run"),
               UsageError);
  write("other.jsonl", 3);
  RunConfig other = config();
  name_data({.data = scratch_ / "other.jsonl"}, other);
  EXPECT_EQ(other.data.set, kConversationSet.name);
  EXPECT_EQ(open_data(other).size.train_examples, 0);
  EXPECT_GT(open_data(other).size.test_examples, 0);
}

TEST_F(ConversationRun, LearnsWhatDataLossSaysOfAChat) {
  std::ofstream(scratch_ / "chat.jsonl")
      << R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"},)"
      << R"( {"role": "user", "content": "so?"}, {"role": "assistant", "content": "yes"}]})"
      << "\nno line\n";
  const auto learnt = [&](const char* loss) {
    return open_data(config({"data.path=" + (scratch_ / "chat.jsonl"), "data.template=chatml",
                             "data.validation_share=0", "data.length=256", "model.context=256",
                             "data.skip_broken=true", std::string("data.loss=") + loss}))
        .size.learnt_tokens;
  };
  const std::int64_t last = learnt("last"), answers = learnt("answers"), all = learnt("all");
  EXPECT_GE(last, 3);
  EXPECT_GE(answers, last + 5);
  EXPECT_GE(all, answers + 5 + 20);  // questions, and what the template writes
  try {
    open_data(config({"data.path=" + (scratch_ / "chat.jsonl"), "data.template=chatml"}));
    FAIL() << "its second line is none";
  } catch (const RunError& e) {
    EXPECT_NE(std::string(e.what()).find("line 2"), std::string::npos) << e.what();
  }
}

TEST_F(ConversationRun, RefusesKeysThatWouldDoNothing) {
  EXPECT_NE(refusal({"data.tokenizer=characters"}).find("take bytes, gpt2, a file"), std::string::npos);
  EXPECT_NE(refusal({"data.blocks=true"}).find("data.blocks"), std::string::npos);
  EXPECT_NE(refusal({"data.set=text", "data.columns=a,b"}).find("data.columns is for data.set = "),
            std::string::npos);
  EXPECT_NE(refusal({"data.side=64"}).find("data.side is for data.set = cifar10 or "), std::string::npos);
  EXPECT_NE(refusal({"data.augment=false"}).find("data.augment is for data.set = cifar10 or "),
            std::string::npos);
  EXPECT_NO_THROW(open_data(config({"data.augment=false"}), make_byte_tokenizer())) << "goes on";
  EXPECT_NE(refusal({"data.path=''"}).find("data.path"), std::string::npos);
  EXPECT_NE(refusal({"data.path='~/chat.jsonl'"}).find("write $HOME/chat.jsonl"), std::string::npos);
  EXPECT_EQ(
      refusal({"data.set=text", "data.skip_broken=true"}),
      "data.skip_broken is for data.set = images or conversations or preferences or sentences, which is "
      "text here");
  EXPECT_EQ(refusal({"data.set=text", "data.too_long=drop"}),
            "data.too_long is for data.set = conversations or preferences, which is text here");
  EXPECT_THROW(config({"data.too_long=fold"}), UsageError);
  EXPECT_NE(said([&] { run("none", {"data.validation_share=1"}); }).find("nothing is left to train on"),
            std::string::npos);
  EXPECT_NE(refusal({"data.length=2", "data.too_long=drop"}).find("nothing is learnt"), std::string::npos);
}

}  // namespace
}  // namespace lpmm
