// data.mixture: a run on several files, resumed, tested on each, and refused where it makes no sense.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/evaluate.h"
#include "lpmm/run/log.h"
#include "lpmm/run/tasks/task.h"
#include "lpmm/run/trainer.h"
#include "models/families.h"
#include "tests/lpmm/run/cut_run.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

class MixtureRun : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    write(a_, "abcde", 60);
    write(b_, "uvw", 40);
  }
  std::string set() const { return GetParam(); }
  void write(const std::string& path, const std::string& letters, int rows) const {
    std::ofstream out(path);
    for (int i = 0; i < rows; ++i) {
      std::string text;
      for (std::size_t j = 0; j < 20U + static_cast<std::size_t>(i) % 9; ++j) {
        text += letters[(j + static_cast<std::size_t>(i)) % letters.size()];
      }
      out << (set() == "text" ? text : R"({"text": ")" + text + "\"}") << "\n";
    }
  }
  std::string mixture(double weight = 2) const {
    return "data.mixture=[{path='" + a_ + "', weight=" + std::to_string(weight) + "}, {path='" + b_ + "'}]";
  }
  RunConfig config(const std::vector<std::string>& settings) const {
    return parse_config(
        "[model]\nname = 'gpt'\nlayers = 1\nheads = 2\nembedding = 16\ncontext = 32\n"
        "[data]\nset = '" +
            set() +
            "'\nlength = 30\n[train]\nsteps = 8\nbatch = 6\nmicrobatches = 2\ncompute = 'fp32'\n"
            "eval_every_epochs = 0\n[optimizer]\nrule = 'adamw'\nlearning_rate = 0.01\n[memory]\npreset = "
            "'lpmm'\n",
        "mixed.toml", with_families({.settings = settings}));
  }
  std::string refusal(const std::vector<std::string>& settings) const {
    try {
      open_data(config(settings));
    } catch (const std::exception& e) {
      return e.what();
    }
    return "";
  }
  Json run(const std::string& out, const std::vector<std::string>& settings, bool resume = false) const {
    const lpmm::Setup setup = open_data(config(settings));
    return Json::parse(train(setup, *make_model(setup.config), {scratch_ / out, resume, true}).summary);
  }
  Scratch scratch_;
  const std::string a_ = scratch_ / "a.jsonl", b_ = scratch_ / "b.jsonl";
};

TEST_P(MixtureRun, TrainsGoesOnToTheSameBytesAndTellsLossesApart) {
  const std::vector<std::string> often = {mixture(), "checkpoint.every_steps=1", "checkpoint.keep=0"};
  const Json summary = run("whole", often);
  const std::string part = scratch_ / "part", last = "/checkpoints/step_00000008";
  copy_cut_at_3(scratch_ / "whole", part);
  run("part", often, true);
  EXPECT_TRUE(read_text(part + last + "/model.safetensors", 1 << 30) ==
              read_text(scratch_ / "whole" + last + "/model.safetensors", 1 << 30));

  Json ledger, eval;
  for (const Json& record : read_log(scratch_ / "whole/log.jsonl")) {
    if (record["type"] == "ledger") ledger = record;
    if (record["type"] == "eval") eval = record;
  }
  ASSERT_EQ(ledger["mixture"].size(), 2U);
  EXPECT_EQ(ledger["mixture"][0]["weight"], 2);
  const auto taken = [&](std::size_t i) { return ledger["mixture"][i]["taken_per_epoch"].get<double>(); };
  EXPECT_NEAR(taken(0), 2 * taken(1), 2);
  ASSERT_EQ(eval["losses"].size(), 2U);
  const double of_a = eval["losses"][a_], of_b = eval["losses"][b_], all = summary["test_loss"];
  EXPECT_NE(of_a, of_b);
  EXPECT_LT(std::min(of_a, of_b), all);
  EXPECT_GT(std::max(of_a, of_b), all);
  const lpmm::Setup setup = open_data(config(often));
  const EvalResult result = evaluate(setup, *make_model(setup.config), find_checkpoint(scratch_ / "whole"));
  ASSERT_EQ(result.losses.size(), 2U);
  EXPECT_EQ(result.losses[0].second, of_a);
}

TEST_P(MixtureRun, IsKeptInTheConfigAndKnowsOtherFiles) {
  const RunConfig given = config({mixture(0.5)});
  const RunConfig again = parse_config(to_toml(given), "again", with_families({}));
  EXPECT_EQ(again.data.text.mixture, given.data.text.mixture);
  EXPECT_EQ(again.data.text.mixture[0].weight, 0.5);
  EXPECT_EQ(to_toml(config({"data.path=x"})).find("mixture"), std::string::npos);
  run("run", {mixture()});
  write(b_, "uwx", 40);
  EXPECT_THROW(check_same_data(checkpoint_run(find_checkpoint(scratch_ / "run")),
                               open_data(config({mixture()})), "run"),
               UsageError);
}

TEST_P(MixtureRun, OneFileIsWhatItsPathIs) {
  const std::string one = "data.mixture=[{path='" + a_ + "', weight=3}]";
  const std::string bytes = "data.tokenizer=bytes";
  run("mixed", {one, bytes});
  run("path", {"data.path=" + a_, bytes});
  const std::string last = "/checkpoints/step_00000008/model.safetensors";
  EXPECT_TRUE(read_text(scratch_ / "mixed" + last, 1 << 30) == read_text(scratch_ / "path" + last, 1 << 30));
}

TEST_P(MixtureRun, ATestFileIsTestedOnAlone) {
  const lpmm::Setup setup = open_data(config({mixture(), "data.test_path=" + b_}));
  EXPECT_EQ(setup.size.mixture[1].tests, 0);
  EXPECT_GT(setup.size.mixture[0].tests, 0);
}

TEST_P(MixtureRun, RefusesWhatItCannotBe) {
  EXPECT_NE(refusal({"data.mixture=[{path='" + a_ + "'}, {path='gone.jsonl'}]"}).find("gone.jsonl"),
            std::string::npos);
  EXPECT_NE(refusal({"data.mixture=[{path='" + a_ + "'}, {path='" + a_ + "', weight=2}]"}).find("twice"),
            std::string::npos);
  EXPECT_NE(refusal({mixture(), "data.path=" + a_}).find("one of the two"), std::string::npos);
  EXPECT_NE(refusal({mixture(), "data.tokenizer=characters"}), "");
  for (const char* bad : {"{weight=1}", "{path='x', weight=0}", "{path='x', weight=-1}",
                          "{path='x', weight=inf}", "{path='x', weight=nan}", "{path='x', share=1}"}) {
    EXPECT_THROW(config({"data.mixture=[" + std::string(bad) + "]"}), UsageError) << bad;
  }
  EXPECT_THROW(open_data(parse_config("[model]\nname = 'resnet20'\n[data]\nset = 'drawn'\nmixture = [{path = "
                                      "'x'}]\n[train]\nsteps = 1\n",
                                      "images.toml", with_families({}))),
               UsageError);
}

INSTANTIATE_TEST_SUITE_P(Sets, MixtureRun, testing::Values("text", "conversations"));

}  // namespace
}  // namespace lpmm
