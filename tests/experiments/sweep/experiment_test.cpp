// `lpmm experiment` in miniature.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "experiments/plots/records.h"
#include "experiments/sweep/grid_rows.h"
#include "lpmm/data/scores.h"
#include "tests/experiments/program.h"

namespace lpmm {
namespace {

class ExperimentTest : public ProgramTest {};

const std::string kConfigs = std::string(LPMM_SOURCE_DIR) + "/experiments/configs";

std::vector<std::vector<std::string>> read_csv(const std::string& path) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line);
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(cell);
  }
  return rows;
}

// A part for each TOML file of an experiment's folder.
std::vector<std::string> parts_of(const std::string& folder) {
  std::vector<std::string> parts;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".toml") parts.push_back(entry.path().stem().string());
  }
  return parts;
}

TEST_F(ExperimentTest, MemoryPlansMeasuresAndFills) {
  const Outcome run =
      run_lpmm({"experiment", "memory", "--models", "resnet20", "--presets", "lpmm-min,fp32", "--gigabytes",
                "1", "--configs", kConfigs, "--threads", "2", "--out", path("out")});
  ASSERT_EQ(run.code, 0) << run.err;
  const auto memory = read_csv(path("out/memory.csv"));
  ASSERT_EQ(memory.size(), 3U);
  const auto column = [&](const char* name) {
    return static_cast<std::size_t>(std::find(memory[0].begin(), memory[0].end(), name) - memory[0].begin());
  };
  for (std::size_t row = 1; row < 3; ++row) {
    ASSERT_EQ(memory[row].size(), memory[0].size());
    const double planned = std::stod(memory[row][column("planned_peak_bytes")]);
    const double measured = std::stod(memory[row][column("measured_peak_bytes")]);
    EXPECT_NEAR(measured, planned, std::max(0.1 * planned, 12e6)) << memory[row][1];
  }
  EXPECT_NEAR(std::stod(memory[1][column("bits_per_parameter")]), 16.95, 0.01);
  // More fits packed than in fp32, in SGD and in AdamW.
  const auto largest = read_csv(path("out/largest.csv"));
  ASSERT_EQ(largest.size(), 5U);
  for (const std::size_t row : {1U, 3U}) {
    EXPECT_EQ(largest[row][2], "lpmm-min");
    EXPECT_EQ(largest[row + 1][2], "fp32");
    for (const std::size_t parameters : {5U, 7U}) {
      EXPECT_GT(std::stod(largest[row][parameters]), 1.5 * std::stod(largest[row + 1][parameters]));
    }
  }
  EXPECT_TRUE(std::filesystem::exists(path("out/memory.png")));
  EXPECT_FALSE(std::filesystem::exists(path("out/memory.svg")));
}

// The shipped files, in miniature: what they draw and expect must be there.
TEST_F(ExperimentTest, ShippedGridsRun) {
  for (const std::string name : {"underflow", "microbatch", "convergence", "frontier", "optimizers"}) {
    SCOPED_TRACE(name);
    const std::string out = path(name);
    std::vector<std::string> words = {"experiment", name, "--quick", "--seeds", "1",
                                      "--jobs",     "2",  "--out",   out};
    for (const char* small : {"train.steps=1", "train.batch=16", "data.validation_share=0.01",
                              "data.train_images=256", "data.test_images=16"}) {
      words.insert(words.end(), {"--set", small});
    }
    const Outcome run = run_lpmm(words, {.folder = LPMM_SOURCE_DIR});
    ASSERT_EQ(run.code, 0) << run.err;
    const std::vector<std::string> parts = parts_of(std::string(LPMM_SOURCE_DIR) + "/experiments/" + name);
    EXPECT_FALSE(parts.empty());
    for (const std::string& part : parts) {
      EXPECT_GE(read_csv(out + "/" + part + ".csv").size(), 3U) << part;
      EXPECT_TRUE(std::filesystem::exists(out + "/" + part + ".png")) << part;
    }
  }
}

// An interval that reaches out of the band decides nothing, on whichever side its mean lies.
TEST(Expectations, AreJudgedByTheWholeInterval) {
  const auto of = [](double low, double high) { return Interval{(low + high) / 2, low, high, true}; };
  EXPECT_EQ(verdict(of(-0.199, 0.278), -INFINITY, 0.1), Verdict::kUndecided);
  EXPECT_EQ(verdict(of(-0.02, 0.3), -INFINITY, 0.1), Verdict::kUndecided);
  EXPECT_EQ(verdict(of(-0.2, 0.1), -INFINITY, 0.1), Verdict::kMet);
  EXPECT_EQ(verdict(of(0.11, 0.2), -INFINITY, 0.1), Verdict::kNotMet);
  EXPECT_EQ(verdict(of(0.11, 0.2), 0.1, INFINITY), Verdict::kMet);
  EXPECT_EQ(verdict(of(0, 0.09), 0.1, INFINITY), Verdict::kNotMet);
  EXPECT_EQ(verdict(of(-1, 1), -0.1, 0.1), Verdict::kUndecided);  // wider than the band
  EXPECT_EQ(verdict(of(0.01, 0.01), -0.1, 0.1), Verdict::kMet);   // all seeds alike
  EXPECT_EQ(verdict({0.01, 0.01, 0.01, false}, -0.1, 0.1), Verdict::kUndecided);
  EXPECT_EQ(verdict(of(NAN, NAN), -0.1, 0.1), Verdict::kUndecided);
}

// Groups, fields that differ, gaps over seeds, joined axes, and verdicts.
TEST_F(ExperimentTest, AGridBecomesATable) {
  const std::string file = write("grid/part.toml", fmt::format(R"(
configs = ["{}/gpt_tiny_embedded.toml"]
presets = ["fp32", "lpmm"]
baseline = "fp32"
seeds = [1, 2]
set = ["train.steps=3", "log.underflow_every_steps=1", "checkpoint.final=false"]
[axes]
"train.batch&train.microbatches" = ["4&1", "8&2"]
"memory.parameter" = ["int4:block64:rn:sticky", "int12:block256:sr:moving"]
[[chart]]
title = "it's a 'title'"
x = "memory.parameter.bits"
y = "test_loss"
lines = ["train.microbatches"]
panels = ["preset"]
best = "train.batch"
log = "x"
[[chart]]
x = "step"
y = "train/loss"
lines = ["memory.parameter"]
limits = [1, 8.5]
[[chart]]
title = "heat"
x = "memory.parameter.bits"
heat = "train.batch"
y = "update_to_step.parameter"
limits = [0.25, 2]
[[chart]]
x = "bits_per_parameter"
y = "test_loss"
panels = ["memory.parameter.rounding"]
front = true
[[chart]]
x = "bits_per_parameter"
y = "test_loss_gap"
lines = ["preset"]
[[expected]]
what = "bits are bits"
y = "bits_per_parameter"
only = {{ "memory.parameter.bits" = "4" }}
low = 20.0
high = 31.0
[[expected]]
what = "nothing is lost"
y = "underflow.parameter"
only = {{ preset = "lpmm" }}
high = 0.0
[[expected]]
what = "fp32 ends lower"
y = "test_loss_gap"
only = {{ "memory.parameter.bits" = "12" }}
low = 0.0
)",
                                                               kConfigs));
  const std::vector<std::string> command = {"experiment", "frontier", "--folder",
                                            path("grid"), "--out",    path("out")};
  std::vector<std::string> draw = command;
  draw.emplace_back("--draw");
  expect_failure(run_lpmm(draw), 2, {"fp32__train.batch", "no run", "--draw"});
  const Outcome run = run_lpmm(command);
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.out.find("met: bits are bits"), 0U) << run.out;
  EXPECT_NE(run.out.find("\nNOT met: nothing is lost"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("\n  not met by gpt_tiny_embedded__lpmm"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("\nnot decided: fp32 ends lower"), std::string::npos) << run.out;
  const auto table = read_csv(path("out/part.csv"));
  ASSERT_EQ(table.size(), 7U);  // two fp32 groups and four packed ones
  const auto cell = [&](std::size_t row, const std::string& name) {
    const auto at = std::find(table[0].begin(), table[0].end(), name);
    return at == table[0].end() ? "absent" : table[row][static_cast<std::size_t>(at - table[0].begin())];
  };
  EXPECT_EQ(cell(0, "optimizer.learning_rate"), "absent");  // all rows have the same
  for (std::size_t row = 1; row < 7; ++row) {
    EXPECT_EQ(cell(row, "seeds"), "2");
    EXPECT_EQ(cell(row, "train.batch"), cell(row, "train.microbatches") == "1" ? "4" : "8");
    if (cell(row, "preset") == "fp32") {
      EXPECT_EQ(cell(row, "test_loss_gap"), "");
    } else {
      EXPECT_LT(std::stod(cell(row, "test_loss_gap_low_95")), std::stod(cell(row, "test_loss_gap_high_95")));
      EXPECT_EQ(cell(row, "memory.parameter.rounding"),
                cell(row, "memory.parameter.bits") == "4" ? "rn" : "sr");
      EXPECT_EQ(cell(row, "memory.parameter.steps"),
                cell(row, "memory.parameter.bits") == "4" ? "sticky" : "moving");
      // Far less than a step of 4 bits is still much of one of 12.
      const double ratio = std::stod(cell(row, "update_to_step.parameter"));
      EXPECT_GT(ratio, 0);
      EXPECT_EQ(ratio > 1, cell(row, "memory.parameter.bits") == "12") << ratio;
    }
  }
  const std::string drawn = read_file(path("out/part.gp"));
  for (const char* says : {"set yrange [1:8.5]", "set ytics ('4' 0, '8' 1) noenhanced", "lc rgb variable",
                           " 2188972 ", " 14049357 ", "title 'fp32'", "lc '#D55E00' title 'lpmm'",
                           "set xtics ('4' 4, '12' 12)", "points pt 6 ps 0.4 lc '#D55E00' notitle"})
    EXPECT_NE(drawn.find(says), std::string::npos) << says;
  // A second run trains nothing and says the same.
  const Outcome again = run_lpmm(draw);
  EXPECT_EQ(again.code, 0);
  EXPECT_NE(again.err.find("12 finished before, 0 to run"), std::string::npos) << again.err;
  EXPECT_EQ(again.out, run.out);
}

// The config of a finished run says what its data decided.
TEST_F(ExperimentTest, ChartsNeedNoData) {
  const std::string text = write("text.txt", std::string(3000, 'a') + "bcdefg, and so on\n");
  const std::string file = write("mine.toml", fmt::format(R"(
configs = ["{}/gpt_tiny_embedded.toml"]
set = ["train.steps=2", "checkpoint.final=false", "data.path={}", "data.tokenizer=characters", "data.validation_share=0.3"]
[axes]
"memory.momentum" = ["soft4:block128:sr", "soft4:block128:qr", "soft4:block128:rn"]
[[chart]]
x = "memory.momentum.rounding"
y = "test_loss"
)",
                                                          kConfigs, text));
  const Outcome run = run_lpmm({"experiment", file, "--out", path("out")});
  ASSERT_EQ(run.code, 0) << run.err;
  const auto table = read_csv(path("out/mine.csv"));
  ASSERT_EQ(table.size(), 4U);
  std::filesystem::remove(text);
  std::filesystem::remove(path("out/mine.png"));
  const Outcome drawn = run_lpmm({"experiment", file, "--draw", "--out", path("out")});
  EXPECT_EQ(drawn.code, 0) << drawn.err;
  EXPECT_TRUE(std::filesystem::exists(path("out/mine.png")));
  EXPECT_EQ(read_csv(path("out/mine.csv")), table);
  // A run of other settings is still none of this grid.
  expect_failure(run_lpmm({"experiment", file, "--draw", "--set", "train.batch=8", "--out", path("out")}), 2,
                 {"holds another run", "train.batch"});
}

TEST_F(ExperimentTest, AGridOfOnesOwnSaysWhatItNeeds) {
  const Outcome help = run_lpmm({"help", "experiment", "FILE.toml"});
  for (const char* says : {"configs = ", "[axes]", "[[chart]]", "memory.momentum"}) {
    EXPECT_NE(help.out.find(says), std::string::npos) << says;
  }
  expect_failure(run_lpmm({"experiment", path("absent.toml")}), 2, {"absent.toml"});
  expect_failure(run_lpmm({"experiment", write("empty.toml", "")}), 2, {"empty.toml", "configs = ["});
  expect_failure(run_lpmm({"experiment", "mine"}), 2, {"FILE.toml"});
}

// A chart over steps may ask for all that a training logs, and for nothing else.
TEST_F(ExperimentTest, TagsOfATrainingAreKnown) {
  const std::vector<std::string> known = known_tags();
  std::set<std::string> logged;
  std::string pairs;
  for (int i = 0; i < 40; ++i) pairs += "{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}\n";
  const std::string of_pairs = write("pairs.jsonl", pairs);
  const std::vector<std::string> every = {
      "train.steps=2",         "log.every_steps=1",           "log.underflow_every_steps=1",
      "optimizer.clip_norm=1", "optimizer.percentile_clip=5", "memory.compensation=int8"};
  struct Training {
    const char* config;
    std::vector<std::string> set;
  };
  // AdEMAMix with a compensation has every role whose underflow is measured.
  for (const auto& [config, set] : {Training{"gpt_tiny_embedded.toml", {"optimizer.rule=ademamix"}},
                                    Training{"resnet8_drawn.toml", {"optimizer.rule=sgd"}},
                                    Training{"gpt_tiny_embedded.toml",
                                             {"data.set=preferences", "data.path=" + of_pairs,
                                              "data.tokenizer=bytes", "train.batch=1"}}}) {
    const std::string out = path(fmt::format("run{}", logged.size()));
    std::vector<std::string> words = {
        "train", fmt::format("{}/{}", kConfigs, config), "--preset", "lpmm", "--out", out};
    for (const auto* list : {&every, &set}) {
      for (const std::string& one : *list) words.insert(words.end(), {"--set", one});
    }
    const Outcome run = run_lpmm(words);
    ASSERT_EQ(run.code, 0) << run.err;
    const Outcome plot = run_lpmm({"plot", out, "--csv", path("scalars.csv")});
    ASSERT_EQ(plot.code, 0) << plot.err;
    std::set<std::string> tags;
    const auto rows = read_csv(path("scalars.csv"));
    for (std::size_t r = 1; r < rows.size(); ++r) tags.insert(rows[r][1]);
    EXPECT_GT(tags.size(), 20U);
    for (const std::string& tag : tags) EXPECT_EQ(std::count(known.begin(), known.end(), tag), 1) << tag;
    logged.merge(tags);
  }
  // Scores of sentences: AreComparedByTheirOwnScores draws one.
  for (const ScoreKind& kind : kScores) logged.insert(fmt::format("test/{}", kind.name));
  for (const std::string& tag : known) EXPECT_TRUE(logged.contains(tag)) << tag;
}

// A result that is no number meets no expectation, and a chart that cannot be drawn costs nothing else.
TEST_F(ExperimentTest, DivergedRunsMeetNoExpectation) {
  write("grid/part.toml", fmt::format(R"(
configs = ["{}/gpt_tiny_embedded.toml"]
set = ["train.steps=5", "checkpoint.final=false"]
seeds = [1, 2]
[axes]
"optimizer.learning_rate" = ["1e-3", "1e30"]
[[chart]]
x = "optimizer.learning_rate"
y = "test_loss"
[[chart]]
x = "step"
y = "train/images_per_second"
[[expected]]
what = "high rates train"
y = "test_loss"
high = 100.0
)",
                                      kConfigs));
  const Outcome run = run_lpmm({"experiment", "frontier", "--folder", path("grid"), "--out", path("out")});
  EXPECT_NE(run.out.find("NOT met: high rates train"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("1e30: no number"), std::string::npos) << run.out;
  EXPECT_EQ(run.out.find("1e-3: no number"), std::string::npos) << run.out;
  EXPECT_NE(run.err.find("nothing to draw of train/images_per_second"), std::string::npos) << run.err;
  EXPECT_TRUE(std::filesystem::exists(path("out/part.png")));

  // One of two seeds is enough.
  const std::string log = "out/part/gpt_tiny_embedded__optimizer.learning_rate=1e-3__seed2/log.jsonl";
  std::string text = read_file(path(log));
  const std::size_t at = text.rfind("\"test_loss\":") + 12;
  write(log, text.replace(at, text.find(',', at) - at, "null"));
  const Outcome again = run_lpmm({"experiment", "frontier", "--folder", path("grid"), "--out", path("out")});
  EXPECT_NE(again.out.find("1e-3: no number"), std::string::npos) << again.out;
}

TEST_F(ExperimentTest, BadGridsAreRefused) {
  const std::string start = fmt::format(
      "configs = [\"{}/gpt_tiny_embedded.toml\"]\nset = [\"train.steps=2\", \"checkpoint.final=false\"]\n",
      kConfigs);
  const auto refused = [&](const std::string& text, const std::vector<std::string>& says) {
    write("bad/part.toml", start + text);
    expect_failure(run_lpmm({"experiment", "frontier", "--folder", path("bad"), "--out", path("out")}), 2,
                   says);
  };
  refused("[[chart]]\nx = \"step\"\n", {"part.toml:3", "y"});
  refused("[[chart]]\nx = \"step\"\ny = \"train/loss\"\nline = [\"preset\"]\n", {"line", "lines"});
  refused("[[chart]]\nx = \"step\"\ny = \"train/loss\"\nlog = \"z\"\n", {"log"});
  const std::string heat = "[[chart]]\nx = \"preset\"\ny = \"test_loss\"\nheat = ";
  refused(heat + "\"preset\"\nlines = [\"preset\"]\n", {"heat", "lines"});
  refused(heat + "\"test_loss\"\n", {"part.toml", "test_loss", "preset"});
  refused(heat + "\"preset\"\nlimits = [2, 1]\n", {"limits"});
  refused(heat + "\"preset\"\nlimits = []\n", {"limits"});
  refused("[[chart]]\nx = \"preset\"\ny = \"test_loss\"\nlog = \"y\"\nlimits = [0, 1]\n", {"limits", "log"});
  refused("[axes]\n\"train.batch\" = [\"2\", \"4\"]\n" + heat + "\"preset\"\n", {"train.batch", "heat map"});
  refused(
      "presets = [\"fp32\", \"lpmm\"]\nbaseline = \"fp32\"\n[[expected]]\nwhat = \"a\"\ny = "
      "\"test_loss_gap\"\nhigh = 1\nbest = "
      "\"preset\"\n",
      {"best", "gap"});
  refused(heat + "\"preset\"\nlimits = [1, \"2\"]\n", {"limits"});
  refused(heat + "\"preset\"\nlimits = [1, nan]\n", {"limits"});
  refused("[[chart]]\nx = \"preset\"\ny = \"test_loss\"\nlines = [\"memory.parmeter\"]\n",
          {"memory.parmeter", "memory.parameter"});
  refused("[[chart]]\nx = \"step\"\ny = \"train/los\"\n", {"train/los", "train/loss"});
  refused("[[expected]]\nwhat = \"none\"\ny = \"test_loss\"\nhigh = 1\nonly = { preset = \"fp16\" }\n",
          {"none"});
  refused("[[expected]]\nwhat = \"a\"\ny = \"test_loss\"\nhigh = nan\n", {"part.toml:6", "expected.high"});
  for (const char* bounds : {"", "low = 2.0\nhigh = 1.0\n"}) {
    refused(std::string("[[expected]]\nwhat = \"a\"\ny = \"test_loss\"\n") + bounds,
            {"part.toml:3", "low", "high"});
  }
  refused("[chart]\nx = \"step\"\n", {"[[chart]]"});
  refused("[[chart]]\nx = \"step\"\ny = \"train/loss\"\nfront = true\n", {"front"});
  refused(
      "presets = [\"fp32\", \"lpmm\"]\nbaseline = \"fp32\"\n[axes]\n\"train.batch&memory.parameter\" = "
      "[\"4&fp32\"]\n",
      {"part.toml", "train.batch&memory.parameter"});
  // A later part's mistake is found before the first one trains.
  write("bad/another.toml", start);
  refused("[[expected]]\nwhat = \"a\"\ny = \"test_lost\"\nhigh = 1\n", {"test_lost", "test_loss"});
  EXPECT_FALSE(std::filesystem::exists(path("out")));
  refused("chrt = 1\n", {"chrt"});
  refused("[axes]\n\"train.batch&train.microbatches\" = [\"4\"]\n", {"train.batch&train.microbatches", "4"});
  write("bad/part.toml", start + "[quick]\naxes.\"train.batch\" = [\"4\"]\n");
  expect_failure(
      run_lpmm({"experiment", "frontier", "--folder", path("bad"), "--quick", "--out", path("out")}), 2,
      {"train.batch"});
  expect_failure(
      run_lpmm({"experiment", "frontier", "--folder", path("bad"), "--parts", "none", "--out", path("out")}),
      2, {"none", "part"});
  expect_failure(run_lpmm({"experiment", "frontier", "--folder", path("absent"), "--out", path("out")}), 2,
                 {"absent", "--folder"});
}

TEST_F(ExperimentTest, BadNamesAreRefused) {
  expect_failure(run_lpmm({"experiment", "memry"}), 2, {"memry", "memory"});
  expect_failure(
      run_lpmm({"experiment", "memory", "--models", "vgg*", "--configs", kConfigs, "--out", path("out")}), 2,
      {"vgg*", "resnet20"});
  expect_failure(run_lpmm({"experiment", "memory", "--presets", "lpmm-mini", "--configs", kConfigs, "--out",
                           path("out")}),
                 2, {"lpmm-mini", "lpmm-min"});
  expect_failure(run_lpmm({"experiment", "memory", "--presets", "fp32,lpmm,fp32", "--out", path("out")}), 2,
                 {"--presets", "fp32", "twice"});
  expect_failure(run_lpmm({"experiment", "memory", "--gigabytes", "6,6", "--out", path("out")}), 2,
                 {"--gigabytes", "6", "twice"});
  expect_failure(run_lpmm({"experiment", "memory", "--presets", "", "--out", path("out")}), 2, {"--presets"});
  expect_failure(run_lpmm({"experiment", "memory", "--configs", path("none"), "--out", path("out")}), 2,
                 {"--configs", "none"});
  expect_failure(run_lpmm({"experiment", "memory", "--quick", "--gigabytes", "6", "--out", path("out")}), 2,
                 {"--quick", "--gigabytes"});
  expect_failure(run_lpmm({"experiment", "memory", "--configs", kConfigs, "--out", write("file", "x")}), 1,
                 {"file"});
}

}  // namespace
}  // namespace lpmm
