// train.average: checkpoints keep it, runs go on with it, whoever looks at a model may take it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/evaluate.h"
#include "lpmm/run/log.h"
#include "lpmm/run/plan.h"
#include "lpmm/run/stored_weights.h"
#include "lpmm/run/trainer.h"
#include "models/families.h"
#include "tests/lpmm/run/cut_run.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

class AverageRun : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream out(scratch_ / "a.txt");
    for (int i = 0; i < 4000; ++i) out << static_cast<char>('a' + i * i % 7);
  }
  RunConfig config(const std::vector<std::string>& settings) const {
    return parse_config(
        "[model]\nname = 'gpt'\nlayers = 1\nheads = 2\nembedding = 16\ncontext = 32\n[data]\nset = "
        "'text'\npath = '" +
            (scratch_ / "a.txt") +
            "'\n[train]\nsteps = 8\nbatch = 4\ncompute = 'fp32'\neval_every_epochs = 0\n[optimizer]\nrule = "
            "'adamw'\nlearning_rate = 0.01\n[memory]\npreset = 'lpmm-min'\n",
        "average.toml", with_families({.settings = settings}));
  }
  Json run(const std::string& out, const std::vector<std::string>& settings, bool resume = false) const {
    const lpmm::Setup setup = open_data(config(settings));
    return Json::parse(train(setup, *make_model(setup.config), {scratch_ / out, resume, true}).summary);
  }
  std::string model_of(const std::string& run, int step = 8) const {
    return read_text(
        scratch_ / run + "/checkpoints/step_0000000" + std::to_string(step) + "/model.safetensors", 1 << 30);
  }
  Scratch scratch_;
};

TEST_F(AverageRun, IsCheckpointedGoneOnWithAndEvaluated) {
  const std::vector<std::string> often = {"train.average=0.9", "checkpoint.every_steps=1",
                                          "checkpoint.keep=0"};
  const Json summary = run("whole", often);
  EXPECT_GT(summary["model_memory_bytes"]["average"], 0);
  const std::string part = scratch_ / "part";
  copy_cut_at_3(scratch_ / "whole", part);
  run("part", often, true);
  EXPECT_TRUE(model_of("part") == model_of("whole"));

  const std::string checkpoint = find_checkpoint(scratch_ / "whole");
  lpmm::Setup setup = open_data(config(often));
  setup.config.optimizer.frozen = true;
  const double last = evaluate(setup, *make_model(setup.config), checkpoint).loss;
  EXPECT_EQ(last, summary["test_loss"]);
  take_averages(setup.config.policy, checkpoint);
  const auto model = make_model(setup.config);
  const double average = evaluate(setup, *model, checkpoint).loss;
  EXPECT_NE(average, last);
  EXPECT_NEAR(average, last, 0.7);

  // What is looked at is what an export has, to the bit.
  CpuDevice device(1);
  ModelMemory memory(model->tensors(), setup.config.policy, setup.config.optimizer, 1, 1, device);
  Buffers none(model->buffers(), device);
  load_checkpoint(checkpoint, setup.config.model.name, memory, none);
  const StoredWeights averages(checkpoint, {}, true), weights(checkpoint);
  int apart = 0;
  for (int i = 0; i < memory.tensors(); ++i) {
    std::vector<float> values(static_cast<std::size_t>(memory.info(i).elements())), exported, plain;
    memory.read(i, 0, values);
    const auto take_into = [](std::vector<float>& to) {
      return [&to](std::int64_t, std::span<const float> panel) {
        to.insert(to.end(), panel.begin(), panel.end());
      };
    };
    averages.read(*averages.find(memory.info(i).name), device, take_into(exported));
    weights.read(*weights.find(memory.info(i).name), device, take_into(plain));
    EXPECT_EQ(values, exported) << memory.info(i).name;
    apart += plain != exported ? 1 : 0;
  }
  EXPECT_EQ(apart, memory.tensors());
}

TEST_F(AverageRun, WithoutOneNothingChangesAndNothingIsThere) {
  run("with", {"train.average=0.9"});
  run("without", {});
  const CheckpointInfo with = inspect_checkpoint(find_checkpoint(scratch_ / "with")),
                       without = inspect_checkpoint(find_checkpoint(scratch_ / "without"));
  for (std::size_t i = 0; i < with.tensors.size(); ++i) {
    const CheckpointTensor &a = with.tensors[i], &b = without.tensors[i];
    ASSERT_NE(spec_of(a, kAverageName), nullptr);
    EXPECT_EQ(spec_of(b, kAverageName), nullptr);
    EXPECT_EQ(a.specs.size(), b.specs.size() + 1);
  }
  EXPECT_EQ(model_of("without").find("average"), std::string::npos);
  const std::string checkpoint = find_checkpoint(scratch_ / "without");
  Policy policy = config({}).policy;
  EXPECT_THROW(take_averages(policy, checkpoint), UsageError);
  EXPECT_THROW(StoredWeights(checkpoint, {}, true), UsageError);
  EXPECT_EQ(to_toml(config({})).find("\naverage = \""), std::string::npos);
}

TEST_F(AverageRun, IsPlannedAndRefusedWhereItMakesNoSense) {
  const auto bytes = [&](const std::vector<std::string>& settings) {
    const lpmm::Setup setup = open_data(config(settings));
    return make_plan(setup, *make_model(setup.config)).ledger;
  };
  const Ledger without = bytes({}), with = bytes({"train.average=0.99"}),
               finer = bytes({"train.average=0.99", "memory.average=int12:block128:sr:sticky"});
  EXPECT_EQ(without.averages, 0);
  EXPECT_GT(with.averages, 0);
  EXPECT_GT(finer.averages, with.averages);
  EXPECT_EQ(with.peaks, without.peaks);
  const RunConfig again = parse_config(to_toml(config({"train.average=0.99", "memory.average=bf16:sr"})),
                                       "again", with_families({}));
  EXPECT_EQ(again.policy.average, 0.99);
  EXPECT_EQ(to_string(again.policy.average_spec), "bf16:sr");
  EXPECT_THROW(config({"memory.average=bf16:sr"}), UsageError);
  EXPECT_THROW(config({"train.average=1"}), UsageError);
  EXPECT_THROW(config({"train.average=0.9", "memory.average=int8:block128:rn"}), UsageError);
  const lpmm::Setup images = open_data(
      parse_config("[model]\nname = 'resnet20'\n[data]\nset = 'drawn'\n[train]\nsteps = 1\naverage = 0.9\n",
                   "images.toml", with_families({})));
  EXPECT_THROW(check_trained(images, *make_model(images.config)), UsageError);
}

}  // namespace
}  // namespace lpmm
