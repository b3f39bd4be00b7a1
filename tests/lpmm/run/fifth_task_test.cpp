// A kind of data beside the four that the program has: digits, whose sum a model tells. All that it takes is
// in this file: a source, a class, a row, and a family that reads it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lpmm/program/ops/input.h"
#include "lpmm/program/ops/linear.h"
#include "lpmm/program/ops/loss.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/evaluate.h"
#include "lpmm/run/log.h"
#include "lpmm/run/tasks/task.h"
#include "lpmm/run/trainer.h"
#include "models/families.h"
#include "tests/lpmm/said.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

constexpr int kDigits = 3;
constexpr std::int64_t kTestSums = 10;

class SumData : public DataSource {
 public:
  explicit SumData(std::int64_t train) : train_(train) {}
  const std::string& name() const override { return name_; }
  const char* unit() const override { return "sums"; }
  std::int64_t train_examples() const override { return train_; }
  std::int64_t test_examples() const override { return kTestSums; }
  std::int64_t labels() const override { return 1; }
  void make_batch(const BatchPlan& plan, std::int64_t epoch, std::int64_t index, int microbatch,
                  Batch& out) const override {
    const int count = plan.batch / plan.microbatches;
    fill(count, out, [&](int i) {
      return drawn_order(plan.seed, epoch, train_, index * plan.batch + microbatch * count + i);
    });
  }
  void make_test_batch(std::int64_t first, std::int64_t count, Batch& out) const override {
    fill(count, out, [&](int i) { return train_ + first + i; });
  }
  bool has_scores() const override { return true; }
  Scores score(std::span<const float> outputs) const override {
    double right = 0;
    for (std::int64_t i = 0; i < kTestSums; ++i) {
      right += std::abs(outputs[static_cast<std::size_t>(i)] - sum(train_ + i)) < 0.5F ? 1 : 0;
    }
    return {{"accuracy", right / static_cast<double>(kTestSums)}};
  }

 private:
  static float digit(std::int64_t example, int place) {
    return static_cast<float>((example * 7 + place * 3) % 10);
  }
  static float sum(std::int64_t example) { return digit(example, 0) + digit(example, 1) + digit(example, 2); }
  template <class ExampleOf>
  static void fill(std::int64_t count, Batch& out, const ExampleOf& example_of) {
    out = {};
    out.count = count;
    for (int i = 0; i < count; ++i) {
      const std::int64_t example = example_of(i);
      for (int place = 0; place < kDigits; ++place) out.images.push_back(digit(example, place));
      out.targets.push_back(sum(example));
    }
  }
  std::string name_ = "sums of digits";
  std::int64_t train_;
};

class SumTask : public Task {
 public:
  void open(RunConfig& config, std::unique_ptr<Tokenizer>, const ProgressCall&) override {
    train_ = config.data.train_images;
  }
  void fit(ModelConfig& model) const override {
    model.height = model.channels = 1;
    model.width = kDigits;
  }
  DataSize size() const override { return {.train_examples = train_, .test_examples = kTestSums}; }
  std::shared_ptr<const DataSource> source(const Setup&, Pool&) const override {
    return std::make_shared<const SumData>(train_);
  }
  Json identity() const override { return {{"sums", train_}}; }

 private:
  std::int64_t train_ = 0;
};

constexpr TaskRow kSumTask{.reads = "digits",
                           .by_path = "sums",
                           .keys = {"cosine"},
                           .is_judged_by_loss = true,
                           .sets = [] { return std::vector<std::string_view>{"sums"}; },
                           .make = make_task<SumTask>};

Family adder() {
  return {.name = "adder",
          .help = "one product",
          .reads = &kSumTask,
          .models = {{"adder"}},
          .settings = {},
          .forward = [](ProgramBuilder& b, const ModelConfig& c) {
            square_loss(b, classifier(b, "head", input(b, c.height, c.width, c.channels), 1));
          }};
}

RunConfig sum_config(const std::vector<std::string>& settings = {}) {
  static const FamilyList kFamilies{{adder(), mlp()}, "adder"};
  return parse_config(
      "[data]\nset = 'sums'\ntrain_images = 16\n[train]\nsteps = 2\nbatch = 8\ncompute = 'fp32'\n"
      "[optimizer]\nlearning_rate = 0.001\n[memory]\npreset = 'lpmm'\n[log]\nevery_steps = 1\n",
      "sums.toml", {.settings = settings, .families = &kFamilies});
}

TEST(FifthTask, IsTrainedTestedRecordedAndEvaluated) {
  const Scratch scratch;
  const std::string out = scratch / "run";
  const lpmm::Setup setup = open_data(sum_config());
  const auto model = make_model(setup.config);
  const Json summary = Json::parse(train(setup, *model, {out, false, true}).summary);
  EXPECT_EQ(summary["steps"], 2);
  EXPECT_TRUE(summary["sums_per_second"].is_number());
  EXPECT_TRUE(summary["scores"]["accuracy"].is_number());
  EXPECT_EQ(summary["final_validation_loss"], summary["test_loss"]);

  std::vector<double> losses;
  for (const Json& record : read_log(out + "/log.jsonl")) {
    if (record["type"] == "step") losses.push_back(record["loss"]);
    if (record["type"] == "eval") {
      EXPECT_EQ(record["scores"], summary["scores"]);
    }
  }
  ASSERT_EQ(losses.size(), 2U);
  EXPECT_LT(losses[1], losses[0]);

  const std::string checkpoint = find_checkpoint(out);
  EXPECT_EQ(checkpoint_run(checkpoint)["text"], (Json{{"sums", 16}}));
  const EvalResult result = evaluate(setup, *model, checkpoint);
  EXPECT_EQ(result.loss, summary["test_loss"]);
  EXPECT_EQ(result.items, kTestSums);
  EXPECT_EQ(result.unit, "sums");
  EXPECT_FALSE(result.has_accuracy);
}

TEST(FifthTask, ARunGoesOnWithTheSameDataOnly) {
  const Scratch scratch;
  const auto run = [&](const std::vector<std::string>& settings, bool resume) {
    const lpmm::Setup setup = open_data(sum_config(settings));
    return train(setup, *make_model(setup.config), {scratch / "run", resume, true});
  };
  run({"train.steps=1"}, false);
  EXPECT_NO_THROW(run({}, true));
  try {
    const lpmm::Setup other = open_data(sum_config({"data.train_images=24"}));
    check_same_data(checkpoint_run(find_checkpoint(scratch / "run")), other, "run");
    FAIL() << "these are other data";
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("16 sums; sums has 24 sums now"), std::string::npos) << e.what();
  }
}

TEST(FifthTask, NamesItsSetsAndRefusesThoseOfOthers) {
  EXPECT_THROW(sum_config({"data.set=cifar11"}), UsageError);
  EXPECT_THROW(sum_config({"data.set=text"}), UsageError);  // no family here reads text
  try {
    open_data(sum_config({"data.set=drawn"}));
    FAIL() << "an adder reads no images";
  } catch (const UsageError& e) {
    EXPECT_STREQ(e.what(),
                 "model.name = adder reads digits, but data.set = drawn holds images; take another data.set "
                 "(sums), or a model that reads images: mlp");
  }
  RunConfig config = sum_config();
  EXPECT_THROW(name_data({.task = "sst2"}, config), UsageError);
  name_data({.data = "mine.sums"}, config);
  EXPECT_EQ(config.data.set, "sums");
  EXPECT_EQ(config.data.text.path, "mine.sums");
}

TEST(FifthTask, ItsRowSaysWhichKeysItTakes) {
  const auto refusal = [](const std::vector<std::string>& settings) {
    return said([&] { open_data(sum_config(settings)); });
  };
  EXPECT_NO_THROW(open_data(sum_config({"data.cosine=true"})));
  EXPECT_EQ(refusal({"model.name=mlp", "data.set=drawn", "data.cosine=true"}),
            "data.cosine is for data.set = sums, which is drawn here");
  const std::string images = refusal({"data.augment=false"});
  EXPECT_TRUE(images.starts_with("data.augment is for data.set = cifar10 or ")) << images;
  EXPECT_TRUE(images.ends_with(" or auto, which is sums here")) << images;
}

TEST(FifthTask, RowsNameKeysThatThereAre) {
  std::string keys;
  for (const ConfigKey& key : all_config_keys(families()))
    keys += key.name + ".\n";  // of lists: data.LIST.KEY
  const auto check = [&](const DataKeys& of) {
    for (const std::string_view key : of) {
      EXPECT_TRUE(key.empty() || keys.find(fmt::format("\ndata.{}.", key)) != std::string::npos) << key;
    }
  };
  for (const TaskRow* task : families().tasks()) {
    check(task->keys);
    check(task->keys_by_path);
    for (const PathSet* other : task->also_by_path) check(other->keys);
  }
}

}  // namespace
}  // namespace lpmm
