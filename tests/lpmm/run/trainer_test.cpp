// Runs of a tiny model: bit-equal for any threads and any stop, failing steps, folders that are not touched.
#include "lpmm/run/trainer.h"
#include "lpmm/program/ops/input.h"
#include "lpmm/program/ops/linear.h"
#include "lpmm/program/ops/loss.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <thread>

#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "lpmm/program/family.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/config.h"
#include "lpmm/run/evaluate.h"
#include "lpmm/run/log.h"
#include "lpmm/run/run_folder.h"
#include "lpmm/run/run_progress.h"
#include "lpmm/run/setup.h"
#include "lpmm/run/tasks/tasks.h"
#include "lpmm/run/train_step.h"
#include "tests/lpmm/run/tiny_model.h"
#include "tests/lpmm/said.h"
#include "tests/lpmm/scratch.h"
#include "tests/sanitized.h"

namespace lpmm {
namespace {

namespace fs = std::filesystem;

// Configurations name a family, in whose place most runs are given TinyModel. The families of models/ are not
// linked under the thread sanitizer.
void one_product(ProgramBuilder& b, const ModelConfig& c) {
  loss(b, classifier(b, "head", input(b, c.height, c.width, c.channels), c.classes), 0);
}
const FamilyList kTinyFamily = {{{.name = "mlp",
                                  .help = "a name",
                                  .reads = &kImageTask,
                                  .models = {{"mlp"}},
                                  .settings = {{"hidden", std::vector<std::int64_t>{}, 1, 1 << 20, "widths"}},
                                  .forward = one_product}},
                                "mlp"};

RunConfig tiny_config(const std::vector<std::string>& settings = {}, const std::string& preset = "lpmm") {
  const std::string text = R"(
    [model]
    name = "mlp"
    [data]
    set = "drawn"
    train_images = 96
    test_images = 40
    [train]
    steps = 11
    batch = 16
    microbatches = 2
    threads = 2
    [optimizer]
    rule = "adamw"
    learning_rate = 0.01
    clip_norm = 1.0
    [schedule]
    kind = "cosine"
    [checkpoint]
    every_steps = 1
    keep = 0
    [log]
    every_steps = 2
    underflow_every_steps = 3
  )";
  return parse_config(text, "tiny.toml", {preset, "", settings, &kTinyFamily});
}

TrainResult run(const std::string& out, const RunConfig& config, bool resume = false,
                const Model& model = TinyModel()) {
  return train(open_data(config), model, {out, resume, true});
}

nlohmann::ordered_json summary(const TrainResult& result) {
  return nlohmann::ordered_json::parse(result.summary);
}

// The log without what differs between equal runs.
std::string story(const std::string& out) {
  std::string text;
  for (Json r : read_log(out + "/log.jsonl")) {
    if (r["type"] == "system" || r["type"] == "config")
      continue;  // one more a process, or a new thread count
    for (const char* key :
         {"seconds", "images_per_second", "rss_bytes", "peak_rss_bytes", "rss_at_start_bytes",
          "train_seconds", "plan_peak_bytes", "overhead_bytes", "peak_bytes"}) {
      r.erase(key);
    }
    text += r.dump() + "\n";
  }
  return text;
}

std::string model_bytes(const std::string& out, int step) {
  return read_text(fmt::format("{}/checkpoints/step_{:08}/model.safetensors", out, step), 1 << 30);
}

void copy_folder(const std::string& from, const std::string& to) {
  fs::copy(from, to, fs::copy_options::recursive);
}

TEST(Trainer, LearnsAndTellsTheWholeStory) {
  const Scratch scratch;
  const TrainResult result =
      run(scratch / "run", tiny_config({"train.steps=60", "optimizer.learning_rate=0.003"}));
  EXPECT_FALSE(result.interrupted);
  const auto s = summary(result);
  EXPECT_LT(s["final_loss"], 2.2);  // chance has 2.303
  EXPECT_GE(s["test_accuracy"], 0.0);
  EXPECT_LE(s["test_accuracy"], 1.0);
  EXPECT_EQ(s["steps"], 60);
  EXPECT_EQ(s["skipped_steps"], 0);
  EXPECT_EQ(s["interrupted"], false);
  EXPECT_GT(s["images_per_second"], 0.0);
  EXPECT_GT(s["peak_rss_bytes"], 1000000);
  const auto& bytes = s["model_memory_bytes"];
  std::int64_t total = 0;
  for (const char* key : {"parameter", "accumulator", "momentum", "variance", "exempt", "buffers"}) {
    EXPECT_GT(bytes[key], 0) << key;
    total += bytes[key].get<std::int64_t>();
  }
  EXPECT_EQ(bytes["total"], total);
  EXPECT_DOUBLE_EQ(s["bits_per_parameter"], 8.0 * static_cast<double>(total) / 7690);
  for (const char* role : {"parameter", "momentum", "variance"})
    EXPECT_TRUE(s["underflow"].contains(role)) << role;

  const auto records = read_log(scratch / "run" + "/log.jsonl");
  std::map<std::string, int> count;
  for (const auto& r : records) ++count[r["type"].get<std::string>()];
  EXPECT_EQ(count["config"], 1);
  EXPECT_EQ(count["system"], 1);
  EXPECT_EQ(count["ledger"], 1);
  EXPECT_EQ(count["step"], 30);
  EXPECT_EQ(count["underflow"], 20);
  EXPECT_EQ(count["eval"], 10);
  EXPECT_EQ(count["checkpoint"], 60);
  EXPECT_EQ(count["summary"], 1);
  EXPECT_EQ(records.back()["type"], "summary");
  EXPECT_EQ(records.back().dump(), result.summary);
}

TEST(Trainer, ThreadsDoNotChangeTheRun) {
  const Scratch scratch;
  for (const int threads : {1, 2, 3}) {
    run(scratch / std::to_string(threads), tiny_config({fmt::format("train.threads={}", threads)}));
  }
  for (const char* other : {"2", "3"}) {
    EXPECT_TRUE(story(scratch / "1") == story(scratch / other));
    EXPECT_TRUE(model_bytes(scratch / "1", 11) == model_bytes(scratch / other, 11));
  }
}

// Steps whose underflow is measured among them.
TEST(Trainer, DevicesDoNotChangeTheRun) {
  const Scratch scratch;
  for (const std::string preset : {"lpmm", "lpmm-min", "lpmm-nano"}) {
    for (const std::string device : {"cpu", "cuda-emulated"}) {
      run(scratch / (preset + device), tiny_config({"train.device=" + device}, preset));
    }
    const std::string cpu = scratch / (preset + "cpu"), emulated = scratch / (preset + "cuda-emulated");
    EXPECT_TRUE(story(cpu) == story(emulated)) << preset;
    EXPECT_TRUE(model_bytes(cpu, 11) == model_bytes(emulated, 11)) << preset;
  }
}

void expect_same_bytes_after_any_stop(const std::vector<std::string>& settings) {
  const Scratch scratch;
  const std::string whole = scratch / "whole";
  run(whole, tiny_config(settings));
  for (int stop = 1; stop <= 10; stop += kSanitized ? 5 : 1) {
    // Makes the folder of a run that was killed after step `stop`: later checkpoints never were.
    const std::string part = scratch / std::to_string(stop);
    copy_folder(whole, part);
    for (int later = stop + 1; later <= 11; ++later) {
      fs::remove_all(fmt::format("{}/checkpoints/step_{:08}", part, later));
    }
    fs::create_directories(part + "/checkpoints/.step_00000099.tmp/half");
    const std::string log = read_text(part + "/log.jsonl", 1 << 20);
    write_text(part + "/log.jsonl", log.substr(0, log.rfind("{\"type\"") + 20));  // the summary was cut off
    std::vector<std::string> elsewhere = settings;
    elsewhere.push_back(fmt::format("train.threads={}", 1 + stop % 3));
    if (stop % 4 == 0) elsewhere.push_back("train.device=cuda-emulated");
    run(part, tiny_config(elsewhere), true);
    EXPECT_TRUE(story(part) == story(whole)) << "stopped after " << stop;
    EXPECT_TRUE(model_bytes(part, 11) == model_bytes(whole, 11)) << "stopped after " << stop;
    EXPECT_FALSE(fs::exists(part + "/checkpoints/.step_00000099.tmp"));
  }
}

TEST(Trainer, ResumesAfterAnyStepWithTheSameBytes) {
  expect_same_bytes_after_any_stop({});
}

// With a rate that rises, an update depends on that of the one before.
TEST(Trainer, ResumesErrorFeedbackWithTheSameBytes) {
  expect_same_bytes_after_any_stop({"optimizer.rule=sgd", "optimizer.momentum=0.9", "schedule.warmup_steps=9",
                                    "memory.error_feedback=true"});
}

TEST(Trainer, ResumesGradientsAppliedAtOnceWithTheSameBytes) {
  expect_same_bytes_after_any_stop(
      {"memory.accumulator=none", "train.microbatches=1", "optimizer.clip_norm=0"});
}

TEST(Trainer, ResumesGradientsInTheMomentumWithTheSameBytes) {
  expect_same_bytes_after_any_stop({"optimizer.rule=sgd", "optimizer.momentum=0.9", "optimizer.clip_norm=0",
                                    "schedule.warmup_steps=9", "memory.accumulator=momentum",
                                    "memory.error_feedback=true"});
}

TEST(Trainer, ResumesVariancesOfRowsWithTheSameBytes) {
  for (const char* rule : {"adam_mini", "adamw_factored", "adafactor"}) {
    if (kSanitized && rule != std::string_view("adafactor")) continue;
    expect_same_bytes_after_any_stop({fmt::format("optimizer.rule={}", rule), "optimizer.beta1=0.9",
                                      "schedule.warmup_steps=9", "memory.error_feedback=true"});
  }
}

TEST(Trainer, ResumesPercentileClippingWithTheSameBytes) {
  expect_same_bytes_after_any_stop({"optimizer.percentile_clip=30"});
}

TEST(Trainer, ResumesMuonWithTheSameBytes) {
  expect_same_bytes_after_any_stop({"optimizer.rule=muon", "optimizer.nesterov=false",
                                    "optimizer.clip_norm=0", "memory.accumulator=momentum"});
}

// Three steps an epoch, the third of 16 examples: the first part of it is not full, the second has none.
TEST(Trainer, ResumesAroundTheLastBatchOfAnEpochWithTheSameBytes) {
  const Scratch scratch;
  const std::vector<std::string> settings = {"data.last_batch=keep", "train.batch=40", "train.steps=7"};
  const RunConfig config = tiny_config(settings);
  const auto setup = open_data(config);
  const auto model = make_model(setup.config);
  const std::string whole = scratch / "whole";
  train(setup, *model, {whole, false, true});
  EXPECT_NE(story(whole).find("\"step\":7,\"epoch\":2,"), std::string::npos);  // the first of the third epoch
  for (const int stop : {2, 3, 4}) {
    const std::string part = scratch / std::to_string(stop);
    copy_folder(whole, part);
    for (int later = stop + 1; later <= 7; ++later) {
      fs::remove_all(fmt::format("{}/checkpoints/step_{:08}", part, later));
    }
    const std::string log = read_text(part + "/log.jsonl", 1 << 20);
    write_text(part + "/log.jsonl", log.substr(0, log.rfind("{\"type\"") + 20));
    train(setup, *model, {part, true, true});
    EXPECT_TRUE(story(part) == story(whole)) << stop;
    EXPECT_TRUE(model_bytes(part, 7) == model_bytes(whole, 7)) << stop;
  }
  // Statistics of a batch would be of what fills it up, too.
  const std::string refused = said([&] { run(scratch / "refused", config); });
  EXPECT_NE(refused.find("data.last_batch = keep: mlp normalizes by the statistics"), std::string::npos)
      << refused;
  run(scratch / "whole batches", tiny_config({"data.last_batch=keep", "train.batch=16", "train.steps=1"}));
}

TEST(Trainer, ResumesFromNothing) {
  const Scratch scratch;
  run(scratch / "a", tiny_config());
  run(scratch / "b", tiny_config(), true);
  EXPECT_TRUE(story(scratch / "a") == story(scratch / "b"));
}

TEST(Trainer, ASeedChangesTheRun) {
  const Scratch scratch;
  run(scratch / "a", tiny_config());
  run(scratch / "b", tiny_config({"train.seed=2"}));
  EXPECT_TRUE(model_bytes(scratch / "a", 11) != model_bytes(scratch / "b", 11));
}

TEST(Trainer, StopsAtTheStepOnASignalAndGoesOn) {
  const Scratch scratch;
  const std::vector<std::string> rare = {"checkpoint.every_steps=0"};
  run(scratch / "whole", tiny_config(rare));
  int calls = 0;
  const TinyModel interrupting([&] {
    if (++calls == 9) std::raise(SIGINT);  // in step 5
    return false;
  });
  const TrainResult result = run(scratch / "run", tiny_config(rare), false, interrupting);
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(summary(result)["interrupted"], true);
  EXPECT_EQ(summary(result)["steps"], 5);
  EXPECT_TRUE(fs::exists(scratch / "run" + "/checkpoints/step_00000005"));
  EXPECT_FALSE(run(scratch / "run", tiny_config(rare), true).interrupted);
  EXPECT_TRUE(model_bytes(scratch / "run", 11) == model_bytes(scratch / "whole", 11));
}

TEST(Trainer, AFailedStepChangesNothingButTheCount) {
  const Scratch scratch;
  int calls = 0;
  // The second microbatch of step 4.
  const TinyModel model([&] { return ++calls == 8; });
  const TrainResult result = run(scratch / "run", tiny_config(), false, model);
  EXPECT_EQ(summary(result)["skipped_steps"], 1);
  EXPECT_EQ(summary(result)["steps"], 11);
  EXPECT_TRUE(model_bytes(scratch / "run", 3) == model_bytes(scratch / "run", 4));
  EXPECT_TRUE(model_bytes(scratch / "run", 4) != model_bytes(scratch / "run", 5));
  bool told = false;
  for (const auto& r : read_log(scratch / "run" + "/log.jsonl")) {
    if (r.contains("failed")) {
      told = true;
      EXPECT_EQ(r["step"], 4);
      EXPECT_EQ(r["failed"], "head.weight");
    }
  }
  EXPECT_TRUE(told);
}

TEST(Trainer, StopsAfterTooManyFailedStepsAndKeepsTheCheckpoint) {
  const Scratch scratch;
  int calls = 0;
  const TinyModel model([&] { return ++calls > 6; });  // from step 4 on
  const RunConfig config =
      tiny_config({"train.max_failed_steps=3", "checkpoint.every_steps=3", "train.steps=30"});
  try {
    run(scratch / "run", config, false, model);
    FAIL() << "the run should have stopped";
  } catch (const RunError& e) {
    EXPECT_NE(std::string(e.what()).find("3 steps in a row"), std::string::npos) << e.what();
  }
  const auto last = read_log(scratch / "run" + "/log.jsonl").back();
  EXPECT_EQ(last["type"], "summary");
  EXPECT_EQ(last["skipped_steps"], 3);
  EXPECT_EQ(last["interrupted"], true);
  EXPECT_TRUE(last.contains("error"));
  // The checkpoint of step 3 is good: without the poison the run goes on to the end.
  EXPECT_EQ(newest_checkpoint(scratch / "run" + "/checkpoints"),
            scratch / "run" + "/checkpoints/step_00000003");
  EXPECT_EQ(summary(run(scratch / "run", config, true))["steps"], 30);
}

TEST(Trainer, LeavesOtherRunsAlone) {
  const Scratch scratch;
  run(scratch / "run", tiny_config());
  const std::string before = read_text(scratch / "run" + "/log.jsonl", 1 << 20);
  EXPECT_THROW(run(scratch / "run", tiny_config()), UsageError);
  EXPECT_THROW(run(scratch / "run", tiny_config({"optimizer.learning_rate=0.02"}), true), UsageError);
  EXPECT_THROW(run(scratch / "run", tiny_config({}, "lpmm-min"), true), UsageError);
  // Finished: nothing is done again.
  EXPECT_EQ(run(scratch / "run", tiny_config(), true).summary,
            read_log(scratch / "run" + "/log.jsonl").back().dump());
  EXPECT_EQ(read_text(scratch / "run" + "/log.jsonl", 1 << 20), before);
  // Longer is the same run going on.
  EXPECT_EQ(summary(run(scratch / "run", tiny_config({"train.steps=14"}), true))["steps"], 14);
}

TEST(Trainer, ALongerRunNeedsACheckpointToGoOnFrom) {
  const Scratch scratch;
  const std::string out = scratch / "run";
  run(out, tiny_config());
  fs::remove_all(out + "/checkpoints");
  const std::string before = read_text(out + "/log.jsonl", 1 << 20);
  EXPECT_THROW(run(out, tiny_config({"train.steps=14"}), true), UsageError);
  EXPECT_EQ(read_text(out + "/log.jsonl", 1 << 20), before);
  // As long as before it is made again.
  run(out, tiny_config(), true);
  EXPECT_FALSE(model_bytes(out, 11).empty());
}

// Counts of a saved state whose checksum fits.
TEST(Trainer, RefusesAStateThatLies) {
  const Scratch scratch;
  const std::string out = scratch / "run", path = out + "/checkpoints/step_00000011/state.json";
  run(out, tiny_config());
  const Json good = Json::parse(read_text(path, 1 << 20));
  const auto refuses = [&](const char* key, const Json& value) {
    Json j = good;
    (j.contains(key) ? j : j.at("run"))[key] = value;
    j["crc32"] = "00000000";
    std::string text = j.dump(1) + "\n";
    const std::size_t digits = text.rfind("\"crc32\": \"") + 10;
    text.replace(digits, 8, fmt::format("{:08x}", crc32(std::as_bytes(std::span(text)))));
    write_text(path, text);
    try {
      run(out, tiny_config({"train.steps=12"}), true);
    } catch (const RunError& e) {
      return std::string(e.what()).find("is not what was saved") != std::string::npos;
    }
    return false;
  };
  EXPECT_TRUE(refuses("underflows", {-1, 0, 0, 0}));
  EXPECT_TRUE(refuses("underflows", {std::int64_t{1} << 62, 0, 0, 0}));
  EXPECT_TRUE(refuses("increments", {1e300, 0, 0, 0}));
  EXPECT_TRUE(refuses("increments", {1, 2, 3}));
  EXPECT_TRUE(refuses("increments", Json()));
  EXPECT_TRUE(refuses("items", std::numeric_limits<std::int64_t>::max()));
  EXPECT_TRUE(refuses("train_seconds", -1.0));
  EXPECT_TRUE(refuses("train_seconds", Json()));
}

TEST(Trainer, AStateSavedBeforeARoleWasKnownIsRead) {
  RunProgress progress;
  progress.step = 3;
  progress.increments.fill(7);
  progress.underflows.fill(5);
  Json saved = state_json(progress, tiny_config(), 6, CpuDevice(1));
  const auto parsed = [&] { return parse_state(saved, tiny_config(), 6, "checkpoints/step_00000003"); };
  for (const char* counts : {"increments", "underflows"}) saved[counts].erase(kRoles - 1);
  const Role last = kEveryRole.of[kRoles - 1];
  progress.increments[last] = progress.underflows[last] = 0;
  EXPECT_EQ(parsed().increments, progress.increments);
  EXPECT_EQ(parsed().underflows, progress.underflows);
  for (const char* counts : {"increments", "underflows"}) saved[counts] = std::vector<int>(kRoles + 1);
  EXPECT_THROW(parsed(), RunError);
}

TEST(Trainer, AStateKeepsTheScoresOfTheLastTest) {
  RunProgress progress;
  progress.step = 3;
  progress.scores = {{"f1", 0.25}, {"accuracy", std::nan("")}};
  Json saved = Json::parse(state_json(progress, tiny_config(), 6, CpuDevice(1)).dump());
  const auto parsed = [&] { return parse_state(saved, tiny_config(), 6, "checkpoints/step_00000003"); };
  const DataSource::Scores scores = parsed().scores;
  ASSERT_EQ(scores.size(), 2U);
  EXPECT_EQ(scores[0], progress.scores[0]);  // the first stays first
  EXPECT_EQ(scores[1].first, "accuracy");
  EXPECT_TRUE(std::isnan(scores[1].second));
  for (const Json& wrong : {Json(3), Json{{"", 1}}, Json{{"f1", "much"}}, Json{{std::string(65, 'x'), 1}}}) {
    saved["scores"] = wrong;
    EXPECT_THROW(parsed(), RunError) << wrong;
  }
  saved.erase("scores");
  EXPECT_TRUE(parsed().scores.empty());
}

TEST(Trainer, OneProcessWritesAFolder) {
  const Scratch scratch;
  fs::create_directories(scratch / "run/checkpoints/.step_00000001.tmp");
  {
    const RunLog other(scratch / "run/log.jsonl");
    EXPECT_THROW(run(scratch / "run", tiny_config(), true), RunError);
    EXPECT_TRUE(fs::exists(scratch / "run/checkpoints/.step_00000001.tmp"));  // may be the other's
  }
  EXPECT_FALSE(run(scratch / "run", tiny_config(), true).interrupted);
}

TEST(Trainer, EvaluatesACheckpointAsTheRunDid) {
  const Scratch scratch;
  const auto s = summary(run(scratch / "run", tiny_config()));
  const EvalResult result =
      evaluate(open_data(tiny_config({"train.threads=3"})), TinyModel(), find_checkpoint(scratch / "run"));
  EXPECT_EQ(result.accuracy, s["test_accuracy"]);
  EXPECT_EQ(result.loss, s["test_loss"]);
  EXPECT_EQ(result.items, 40);
}

TEST(Trainer, SaysWhatDoesNotFit) {
  const Scratch scratch;
  EXPECT_THROW(run(scratch / "run", tiny_config({"train.batch=98", "train.microbatches=1"})), UsageError);
  EXPECT_THROW(run("/proc/nowhere/run", tiny_config()), RunError);
}

// The message of a run that must fail.
std::string failure(const std::string& out, const RunConfig& config, bool resume,
                    const Model& model = TinyModel()) {
  try {
    run(out, config, resume, model);
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "";
}

bool says(const std::string& message, const std::vector<std::string>& words) {
  return std::all_of(words.begin(), words.end(),
                     [&](const std::string& w) { return message.find(w) != std::string::npos; });
}

TEST(Trainer, ABufferThatIsNotFiniteFailsTheStep) {
  const Scratch scratch;
  TinyHooks hooks;
  hooks.poison_buffer = [calls = 0]() mutable { return ++calls == 8; };  // the second microbatch of step 4
  const TrainResult result = run(scratch / "run", tiny_config(), false, TinyModel(hooks));
  EXPECT_EQ(summary(result)["skipped_steps"], 1);
  EXPECT_TRUE(model_bytes(scratch / "run", 3) == model_bytes(scratch / "run", 4));
  EXPECT_TRUE(model_bytes(scratch / "run", 4) != model_bytes(scratch / "run", 5));
  const std::string log = read_text(scratch / "run/log.jsonl", 1 << 20);
  EXPECT_NE(log.find("\"failed\":\"input.running_mean\""), std::string::npos);
  inspect_checkpoint(scratch / "run/checkpoints/step_00000011");  // the checkpoint can be read
}

TEST(Trainer, SkippedStepsRemoveNoCheckpoint) {
  const Scratch scratch;
  const std::vector<std::string> keep_one = {"checkpoint.keep=1", "train.max_failed_steps=20"};
  TinyHooks hooks;
  hooks.poison = [calls = 0]() mutable { return ++calls > 6; };  // from step 4 on
  const TrainResult result = run(scratch / "run", tiny_config(keep_one), false, TinyModel(hooks));
  EXPECT_TRUE(fs::exists(scratch / "run/checkpoints/step_00000003"));
  EXPECT_FALSE(fs::exists(scratch / "run/checkpoints/step_00000002"));
  // It ended while its steps failed: that is no success, nor is asking for it again.
  EXPECT_TRUE(result.diverged);
  EXPECT_EQ(summary(result)["diverged"], true);
  EXPECT_TRUE(run(scratch / "run", tiny_config(keep_one), true).diverged);
  EXPECT_FALSE(run(scratch / "good", tiny_config()).diverged);
}

TEST(Trainer, ALossFarFromLearningIsDivergence) {
  const Scratch scratch;
  EXPECT_TRUE(run(scratch / "run", tiny_config({"optimizer.learning_rate=1e6"}, "fp32")).diverged);
}

TEST(Trainer, GoesOnAfterAnEvaluationThatIsNoNumber) {
  const Scratch scratch;
  const RunConfig config = tiny_config();
  TinyHooks hooks;
  hooks.poison_test = [] { return true; };
  const TrainResult result = run(scratch / "run", config, false, TinyModel(hooks));
  EXPECT_TRUE(result.diverged);
  EXPECT_TRUE(summary(result)["test_loss"].is_null());
  const TrainResult longer = run(scratch / "run", tiny_config({"train.steps=14"}), true);
  EXPECT_FALSE(longer.diverged);
  EXPECT_EQ(summary(longer)["steps"], 14);
}

TEST(Trainer, EndsAfterTestsWithoutALowerLossAndKeepsTheBest) {
  const Scratch scratch;
  const RunConfig config = tiny_config({"train.steps=60", "train.patience=2", "checkpoint.keep_best=true",
                                        "checkpoint.keep=1", "checkpoint.every_steps=6"});
  TinyHooks hooks;
  int batches = 0;
  hooks.poison_test = [&] { return ++batches > 2 * 5; };  // from the third test on, five batches each
  const TrainResult result = run(scratch / "run", config, false, TinyModel(hooks));
  EXPECT_FALSE(result.interrupted);
  EXPECT_EQ(summary(result)["steps"], 24);
  const int best = summary(result)["best"]["step"];
  EXPECT_TRUE(best == 6 || best == 12) << best;
  EXPECT_EQ(names_in(scratch / "run/checkpoints", "step_"),
            (std::set<std::string>{checkpoint_name(best), checkpoint_name(24)}));
  const TrainResult again = run(scratch / "run", config, true, TinyModel(hooks));  // it is as it was left
  EXPECT_EQ(summary(again)["steps"], 24);
  EXPECT_EQ(summary(again)["best"], summary(result)["best"]);
  EXPECT_THROW(run(scratch / "other", tiny_config({"train.patience=2", "train.eval_every_epochs=0"})),
               UsageError);
}

TEST(Trainer, ProposesTheNewestCheckpointThatCanBeRead) {
  const Scratch scratch;
  const std::string out = scratch / "run";
  run(out, tiny_config());
  write_text(out + "/checkpoints/step_00000011/state.json", "{}");
  write_text(out + "/checkpoints/step_00000010/model.safetensors", "");
  const RunConfig longer = tiny_config({"train.steps=14"});
  EXPECT_TRUE(says(failure(out, longer, true), {"step_00000011", "step_00000009 is earlier and whole"}))
      << failure(out, longer, true);
  for (const int step : {10, 11}) fs::remove_all(fmt::format("{}/checkpoints/step_{:08}", out, step));
  EXPECT_EQ(summary(run(out, longer, true))["steps"], 14);
}

// The counts of a state tell how many steps an epoch had.
TEST(Trainer, AnotherNumberOfExamplesIsNoDamage) {
  const auto said = [](std::int64_t step, std::int64_t before, std::int64_t now) {
    RunProgress progress;
    progress.step = step;
    const Json saved = Json::parse(state_json(progress, tiny_config(), before / 16, CpuDevice(1)).dump());
    try {
      check_same_data(saved, open_data(tiny_config({"data.train_images=" + std::to_string(now)})),
                      "runs/a/step_00000003");
    } catch (const UsageError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(said(3, 96, 96), "");
  EXPECT_EQ(said(17, 96, 100), "");  // as many steps
  EXPECT_EQ(said(3, 96, 64), "");    // nobody can tell yet
  for (const std::string& what : {said(17, 96, 80), said(17, 96, 112), said(12, 96, 200)}) {
    EXPECT_TRUE(says(what, {"runs/a/step_00000003", "on 96 to 111 examples", "6 steps of 16", "drawn has",
                            "put the old files back", "--init runs/a/step_00000003"}))
        << what;
  }
  EXPECT_TRUE(says(said(5, 96, 80), {"on at least 96 examples", "step 5 of its first epoch"}))
      << said(5, 96, 80);
}

TEST(Trainer, LeavesAConfigThatIsNoRunsAlone) {
  const Scratch scratch;
  const std::string text = "[train]\nsteps = 11\n";
  write_text(scratch / "config.toml", text);
  for (const bool resume : {false, true}) {
    const std::string said = failure(scratch.path(), tiny_config(), resume);
    EXPECT_TRUE(says(said, {"config.toml", "no run's", "--out"})) << said;
    EXPECT_EQ(said.find("--resume"), std::string::npos) << said;
  }
  EXPECT_EQ(read_text(scratch / "config.toml", 1 << 20), text);
  EXPECT_FALSE(fs::exists(scratch / "log.jsonl"));
}

// Another process makes a run between the first look at the folder and the lock.
TEST(Trainer, LooksAtTheFolderAgainUnderTheLock) {
  const Scratch scratch;
  const std::string out = scratch / "run";
  TinyHooks hooks;
  hooks.built = [&, built = false]() mutable {
    if (!built) run(out, tiny_config({"train.seed=2"}));
    built = true;
  };
  const std::string said = failure(out, tiny_config(), false, TinyModel(hooks));
  EXPECT_TRUE(says(said, {"holds a run already"})) << said;
  EXPECT_EQ(load_config(out + "/config.toml", {.families = &kTinyFamily}).train.seed, 2U);
  EXPECT_EQ(read_log(out + "/log.jsonl").back()["type"], "summary");
}

TEST(Trainer, NoticesAFlippedBitInTheConfig) {
  const Scratch scratch;
  const std::string out = scratch / "run", path = out + "/config.toml";
  run(out, tiny_config());
  const std::string good = read_text(path, 1 << 20);
  const std::size_t rate = good.find("learning_rate = 0.01");
  ASSERT_NE(rate, std::string::npos);
  std::string bad = good;
  bad[rate + 19] = '3';
  write_text(path, bad);
  const auto go_on = [&] {
    RunConfig config = load_config(
        path, {"", "", {"train.steps=14"}, &kTinyFamily});  // as `lpmm train RUN/config.toml` does
    return failure(out, config, true);
  };
  std::string said = go_on();
  EXPECT_TRUE(says(said, {path, "checksum", "remove that line"})) << said;
  // Edited on purpose: without the line it is taken, and sealed again.
  write_text(path, bad.substr(0, bad.rfind("# crc32")));
  EXPECT_EQ(go_on(), "");
  EXPECT_EQ(load_config(path, {.families = &kTinyFamily}).optimizer.learning_rate, 0.03);
  EXPECT_TRUE(check_config_seal(path));
}

TEST(Trainer, NoticesAChangedLogAndSaysWhatToDo) {
  const Scratch scratch;
  const std::string out = scratch / "run", path = out + "/log.jsonl";
  const RunConfig longer = tiny_config({"train.steps=14"});
  run(out, tiny_config());
  const std::string good = read_text(path, 1 << 20);
  std::string flipped = good;
  flipped[flipped.find("\"loss\":") + 8] ^= 1;
  const std::map<std::string, std::string> changes = {
      {"damaged: the checksum", flipped}, {"no record ends", " " + good}, {"0 bytes", ""}};
  for (const auto& [what, bad] : changes) {
    write_text(path, bad);
    const std::string said = failure(out, longer, true);
    EXPECT_TRUE(says(said, {"log.jsonl", what, "--init " + out + "/checkpoints/step_00000011", "--out"}))
        << said;
    EXPECT_EQ(fs::exists(path) ? read_text(path, 1 << 20) : "", bad);  // untouched
  }
  write_text(path, good);
  EXPECT_EQ(failure(out, longer, true), "");
}

// Programs wrote such folders before there were checksums of config and log.
TEST(Trainer, GoesOnWithAFolderOfAnOlderProgram) {
  const Scratch scratch;
  const std::string out = scratch / "run", state = out + "/checkpoints/step_00000011/state.json";
  run(out, tiny_config());
  write_text(out + "/config.toml", to_toml(tiny_config()));
  std::string text = read_text(state, 1 << 20);
  const std::size_t at = text.find(",\n  \"log_crc32\""), end = text.find('\n', at + 2);
  ASSERT_NE(at, std::string::npos);
  text.erase(at, end - at);
  const std::size_t digits = text.rfind("\"crc32\": \"") + 10;
  text.replace(digits, 8, "00000000");
  text.replace(digits, 8, fmt::format("{:08x}", crc32(std::as_bytes(std::span(text)))));
  write_text(state, text);
  EXPECT_EQ(failure(out, tiny_config({"train.steps=14"}), true), "");
}

TEST(Trainer, RemovesWhatAKilledOneLeft) {
  const Scratch scratch;
  fs::create_directory(scratch / "run");
  write_text(scratch / "run/.lpmm-1-0.tmp", "[train]");
  run(scratch / "run", tiny_config());
  EXPECT_FALSE(fs::exists(scratch / "run/.lpmm-1-0.tmp"));
}

// They are removed even if the run is complete, or if a killed process left one before.
TEST(Trainer, RemovesCheckpointsThatAreHalfRemoved) {
  const Scratch scratch;
  const RunConfig config = tiny_config({"checkpoint.keep=1"});
  const std::string left = scratch / "run/checkpoints/.step_00000003.old";
  const auto leave = [&] {
    fs::create_directories(left);
    write_text(left + "/state.json", "{}");
  };
  leave();
  run(scratch / "run", config);
  EXPECT_FALSE(fs::exists(left));
  leave();
  run(scratch / "run", config, true);
  EXPECT_FALSE(fs::exists(left));
}

TEST(Trainer, SaysWhatComputesOtherwise) {
  const CpuDevice device(1);
  Json saved = {{"computed_by", computed_by(device)}};
  EXPECT_EQ(change_of_machine(saved, device), "");
  saved["computed_by"]["simd"] = "other";
  saved["computed_by"].erase("compute_library");
  const std::string said = change_of_machine(saved, device);
  EXPECT_NE(said.find("simd was other and is "), std::string::npos) << said;
  EXPECT_NE(said.find("compute_library was none and is "), std::string::npos) << said;
  EXPECT_EQ(said.find_first_of("{}\""), std::string::npos) << said;
}

TEST(Trainer, AStartThatFailsLeavesNoFolder) {
  const Scratch scratch;
  const RunConfig config = tiny_config({"train.init=" + (scratch / "nowhere")});
  EXPECT_TRUE(says(failure(scratch / "a/b/run", config, false), {"holds no checkpoint"}));
  EXPECT_FALSE(fs::exists(scratch / "a"));
  fs::create_directories(scratch / "kept");  // not ours
  EXPECT_TRUE(says(failure(scratch / "kept", config, false), {"holds no checkpoint"}));
  EXPECT_TRUE(fs::is_empty(scratch / "kept"));
}

TEST(Trainer, MakesNoHalfFolderWhereItsOwnWasMoved) {
  const Scratch scratch;
  const std::string out = scratch / "run", moved = scratch / "moved";
  const RunConfig config = tiny_config({"checkpoint.every_steps=2"});
  const TinyModel moving([&, calls = 0]() mutable {
    if (++calls == 7) fs::rename(out, moved);  // in step 4
    return false;
  });
  const std::string said = failure(out, config, false, moving);
  EXPECT_TRUE(says(said, {out + "/log.jsonl: is gone", "moved", "--out", "--resume"})) << said;
  EXPECT_FALSE(fs::exists(out));
  EXPECT_EQ(summary(run(moved, config, true))["steps"], 11);
}

// What people are told is what they waited for.
TEST(Trainer, CountsTheTimeOfItsTests) {
  const Scratch scratch;
  const RunConfig config = tiny_config();
  TinyHooks hooks;
  double slept = 0;
  hooks.poison_test = [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    slept += 0.02;
    return false;
  };
  const TrainResult result = run(scratch / "run", config, false, TinyModel(hooks));
  EXPECT_GE(result.seconds, summary(result)["train_seconds"].get<double>() + slept);
  EXPECT_GE(slept, 0.02);
  EXPECT_EQ(run(scratch / "run", config, true).seconds, summary(result)["train_seconds"]);  // nothing is done
}

TEST(Trainer, ALogThatCannotBeWrittenNamesTheLastGoodCheckpoint) {
  const Scratch scratch;
  const std::string out = scratch / "run";
  run(out, tiny_config({"train.steps=5"}));
  std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit small = before;
  small.rlim_cur = fs::file_size(out + "/log.jsonl") + 2000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string said =
      failure(out, tiny_config({"train.steps=500", "checkpoint.every_steps=0", "log.every_steps=1"}), true);
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(says(said, {"log.jsonl", "step_00000005", "--resume"})) << said;
  read_log(out + "/log.jsonl");  // no half record among the whole ones
}

TEST(Trainer, LogsTensorsWhereAskedTo) {
  const Scratch scratch;
  for (const char* which : {"last", "all"}) {
    const std::string out = scratch / which;
    run(out, tiny_config({std::string("log.tensors=") + which}));
    std::vector<bool> has;
    for (const Json& r : read_log(out + "/log.jsonl")) {
      if (r["type"] == "underflow") has.push_back(r.contains("tensors"));
    }
    const bool all = which == std::string("all");
    EXPECT_EQ(has, (std::vector<bool>{all, all, all, all, true})) << which;  // steps 2, 4, 6, 8, 10
  }
}

// Whatever breaks, the next step begins with nothing of this one.
TEST(TrainStep, AnErrorLeavesTheStep) {
  const lpmm::Setup setup = open_data(tiny_config());
  CpuDevice device(1);
  const auto data = load_data(setup, device.host_pool());
  const TinyModel model;
  std::vector<float> ends[2];
  for (const bool breaks : {false, true}) {
    ModelMemory memory(model.tensors(), make_policy("fp32"), setup.config.optimizer, 1, 2, device);
    model.initialize(memory, 1, {});
    Buffers buffers(model.buffers(), device);
    const auto program = model.build(8, ValueType::kFp32, device);
    StepOptions options = {.step = 1, .learning_rate = 0.01};
    if (breaks) {
      Prefetcher batches(*data, {2, 16, 2, false}, 0, 0);
      EXPECT_THROW(train_step(*program, memory, buffers, batches, options,
                              {.after_microbatch = [] { throw RunError("broken"); }}),
                   RunError);
      options.step = 2;
    }
    Prefetcher batches(*data, {1, 16, 2, false}, 0, 0);
    EXPECT_TRUE(train_step(*program, memory, buffers, batches, options).report.applied);
    std::vector<float>& end = ends[breaks ? 1 : 0];
    end.resize(kTinyFeatures * kTinyClasses);
    memory.read(0, 0, end);
  }
  EXPECT_EQ(ends[0], ends[1]);
}

}  // namespace
}  // namespace lpmm
