// Tasks of sentences as a user runs them: what they are scored by wherever runs are compared, the experiment
// of several tasks, and what a tuned model tells of new sentences.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lpmm/files/npy.h"
#include "lpmm/files/safetensors.h"
#include "tests/experiments/program.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;

constexpr const char* kRoberta = LPMM_SOURCE_DIR "/tests/golden/roberta_tiny";

class Tasks : public ProgramTest {
 protected:
  Tasks() {
    fs::create_directories(path("data/glue/MRPC"));
    std::string lines = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n";
    for (int i = 0; i < 24; ++i) {
      const bool same = i % 3 != 0;
      lines +=
          fmt::format("{}\t{}\t{}\tthe cat {}\tthe {} {}\n", same ? 1 : 0, i, i, i, same ? "cat" : "dog", i);
    }
    write("data/glue/MRPC/train.tsv", lines);
    write("data/glue/MRPC/dev.tsv", lines);
  }
  // Runs the program in the folder of the test, where `published` is an import.
  Outcome lpmm(const std::vector<std::string>& arguments, const std::string& folder = "") const {
    return run_lpmm(arguments, {.environment = {{"LPMM_DATA", path("data")}},
                                .folder = folder.empty() ? path("") : folder});
  }
  void import() const {
    const Outcome in = lpmm({"import", kRoberta, "--preset", "fp32", "--out", "published", "--json"});
    ASSERT_EQ(in.code, 0) << in.err;
    EXPECT_EQ(in.json()["tokenizer"], "tokenizer.json");
  }
  std::string config() const {
    return write("tune.toml", kTinyRobertaModel + std::string(R"([data]
set = "mrpc"
[train]
steps = 3
batch = 4
compute = "fp32"
init = "published"
[optimizer]
learning_rate = 0.1
)"));
  }
};

double of(const nlohmann::json& cell, const char* score) {
  return cell["summary"]["scores"][score].get<double>();
}

TEST_F(Tasks, AreComparedByTheirOwnScores) {
  import();
  // The path in the config is seen from here, as `train` sees it.
  const std::vector<std::string> sweep = {"sweep",   "--config",  config(),     "--presets", "fp32,lpmm-min",
                                          "--seeds", "1,2",       "--baseline", "fp32",      "--out",
                                          "sweep",   "--threads", "1"};
  std::vector<std::string> as_json = sweep;
  as_json.emplace_back("--json");
  const Outcome first = lpmm(as_json);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_NE(first.err.find(": F1 "), std::string::npos) << first.err;
  const nlohmann::json answer = first.json(), group = answer["groups"][1];
  ASSERT_EQ(answer["cells"].size(), 4U);
  EXPECT_EQ(group["scored_by"], "f1");
  std::map<std::string, double> f1, right;
  for (const auto& cell : answer["cells"]) {
    f1[cell["name"]] = of(cell, "f1");
    right[cell["name"]] = of(cell, "accuracy");
  }
  const auto mean = [](std::map<std::string, double>& of, const std::string& preset) {
    return 50 * (of.at("tune__" + preset + "__seed1") + of.at("tune__" + preset + "__seed2"));
  };
  EXPECT_NEAR(group["score"]["mean"].get<double>(), mean(f1, "lpmm-min"), 1e-9);
  EXPECT_EQ(group["scores"]["f1"], group["score"]);
  EXPECT_NEAR(group["scores"]["accuracy"]["mean"].get<double>(), mean(right, "lpmm-min"), 1e-9);
  EXPECT_NEAR(group["score"]["gap"]["mean"].get<double>(), mean(f1, "fp32") - mean(f1, "lpmm-min"), 1e-9);
  const std::string csv = read_file(path("sweep/sweep.csv"));
  EXPECT_TRUE(csv.starts_with("group,seeds,f1,f1_deviation,accuracy_percent,final_loss,")) << csv;
  // Again: all are finished, and as a table.
  const Outcome table = lpmm(sweep);
  ASSERT_EQ(table.code, 0) << table.err;
  EXPECT_NE(table.out.find(fmt::format("{:>11} {:>11} {:>11}", "F1", "+-", "accuracy %")), std::string::npos)
      << table.out;
  const std::string run = "sweep/tune__lpmm-min__seed1";
  const Outcome plot = lpmm({"plot", run, "--table", "--csv", "scalars.csv"});
  ASSERT_EQ(plot.code, 0) << plot.err;
  EXPECT_NE(plot.out.find("| test F1"), std::string::npos) << plot.out;
  EXPECT_LT(plot.out.find("| test F1"), plot.out.find("| test accuracy")) << plot.out;
  EXPECT_NE(read_file(path("scalars.csv")).find(",test/f1,3,"), std::string::npos);
  ASSERT_EQ(lpmm({"report", run, "--out", "report.html"}).code, 0);
  EXPECT_NE(read_file(path("report.html")).find("test F1"), std::string::npos);
  // A run that was killed behind its last checkpoint still ends with what it was scored by.
  std::string log = read_file(path(run + "/log.jsonl"));
  const std::string ending = log.substr(log.rfind("{\"type\":\"summary\""));
  write(run + "/log.jsonl", log.substr(0, log.size() - ending.size()));
  const Outcome resumed =
      lpmm({"train", config(), "--preset", "lpmm-min", "--set", "train.seed=1", "--resume", "--out", run});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(
      resumed.out.find(fmt::format("F1 {:.2f}, accuracy {:.2f} %, loss", 100 * f1.at("tune__lpmm-min__seed1"),
                                   100 * right.at("tune__lpmm-min__seed1"))),
      std::string::npos)
      << resumed.out;
}

TEST_F(Tasks, OneCommandTunesAndTabulates) {
  import();
  fs::create_directories(path("out"));
  const std::string theirs =
      R"({"task": "mrpc", "seed": 1, "scores": {"f1": 0.5}, "sentences_per_second": 7})";
  write("out/pytorch.jsonl", theirs + "\n" + R"({"task": "mrpc", "seed": 2, "scores": {"f1": 0.7}})" + "\n");
  std::vector<std::string> command = {"experiment", "glue",    "--init",   path("published"), "--parts",
                                      "mrpc",       "--seeds", "1,2",      "--quick",         "--threads",
                                      "1",          "--out",   path("out")};
  for (const char* setting :
       {"model.name=roberta", "model.layers=2", "model.heads=4", "model.embedding=16", "model.mlp_width=20",
        "model.context=24", "model.vocabulary=280", "data.length=24", "train.batch=4", "train.steps=2"}) {
    command.insert(command.end(), {"--set", setting});
  }
  const Outcome run = lpmm(command, LPMM_SOURCE_DIR);
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(read_file(path("out/glue.md")), run.out);
  EXPECT_EQ(std::count(run.out.begin(), run.out.end(), '\n'), 2 + 3 + 1) << run.out;
  const std::size_t at = run.out.find("PyTorch");
  ASSERT_NE(at, std::string::npos) << run.out;
  EXPECT_NE(run.out.find("60.00", at), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("14.14", at), std::string::npos) << run.out;  // two seeds 20 points apart
  const auto sweep = nlohmann::json::parse(read_file(path("out/mrpc/sweep.json")));
  const std::string gap = fmt::format("{:.2f}", sweep["groups"][1]["score"]["gap"]["mean"].get<double>());
  EXPECT_NE(run.out.find(" " + gap + " |"), std::string::npos) << run.out;
  EXPECT_NE(read_file(path("out/glue.csv")).find("\nmrpc,f1,PyTorch,2,60.000000,14.142136,,,,,,7.000000\n"),
            std::string::npos);
  EXPECT_TRUE(fs::exists(path("out/glue.png")));
  write("out/pytorch.jsonl", "{");
  expect_failure(lpmm(command, LPMM_SOURCE_DIR), 1, {"pytorch.jsonl: line 1"});
}

TEST_F(Tasks, ATunedModelTellsWhatNewSentencesAre) {
  import();
  const SafetensorsFile expected(std::string(kRoberta) + "/expected.safetensors");
  std::vector<float> logits(3);
  expected.read(*expected.find("pair_logits"), 0, std::as_writable_bytes(std::span(logits)));
  const std::string pair = write("pair.txt", "a dog sat\tthe cat, at last\r\n");
  const Outcome told = lpmm({"classify", "published", "--file", pair, "--compute", "fp32", "--json"});
  ASSERT_EQ(told.code, 0) << told.err;
  const nlohmann::json answer = told.json();
  EXPECT_EQ(answer["labels"], nlohmann::json({"0", "1", "2"}));
  double sum = 0;
  for (const float x : logits) sum += std::exp(x);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(answer["answers"][0]["probabilities"][i].get<double>(), std::exp(logits[i]) / sum, 1e-5);
  }
  // Lines of both kinds, in their order.
  write("mixed.txt", "the cat\na dog sat\tthe cat, at last\n\na dog\n");
  const Outcome mixed = lpmm({"classify", "published", "--file", "mixed.txt", "--compute", "fp32"});
  ASSERT_EQ(mixed.code, 0) << mixed.err;
  EXPECT_EQ(std::count(mixed.out.begin(), mixed.out.end(), '\n'), 4);
  const auto best = static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  EXPECT_NE(mixed.out.find(fmt::format("\n{}\t{:.4f}\n", best, std::exp(logits[best]) / sum)),
            std::string::npos)
      << mixed.out;
  // The names of the data's labels are kept, and the answers are those that eval counts.
  fs::create_directories(path("own"));
  std::string lines = "sentence\tlabel\n", asked;
  for (int i = 0; i < 12; ++i) {
    lines += fmt::format("a {} sat on\t{}\n", i % 2 == 0 ? "cat" : "dog", i % 2 == 0 ? "mews" : "barks");
    asked += fmt::format("a {} sat on\n", i % 2 == 0 ? "cat" : "dog");
  }
  write("own/train.tsv", lines);
  write("own/dev.tsv", lines);
  ASSERT_EQ(
      lpmm({"train", config(), "--set", "data.set=sentences", "--set", "data.path=own", "--out", "tuned"})
          .code,
      0);
  const Outcome scored = lpmm({"eval", "tuned", "--json"});
  const Outcome again = lpmm({"classify", "tuned", "--file", write("asked.txt", asked), "--json"});
  ASSERT_EQ(again.code, 0) << again.err;
  int right = 0;
  for (int i = 0; i < 12; ++i)
    right += again.json()["answers"][i]["label"] == (i % 2 == 0 ? "mews" : "barks") ? 1 : 0;
  EXPECT_NEAR(scored.json()["accuracy"].get<double>(), right / 12.0, 1e-12);
  // Wrong ways in.
  expect_failure(lpmm({"classify", "tuned", "--file", write("three.txt", "a\tb\tc\n")}), 2, {"line 1"});
  expect_failure(lpmm({"classify", "tuned", "--file", write("none.txt", "")}), 2, {"holds no line"});
  expect_failure(lpmm({"classify", "tuned", "--file", "nosuch"}), 1, {"nosuch"});
  expect_failure(lpmm({"classify", "tuned", "--file", write("bytes.txt", "a longer line\na \xff\n")}), 1,
                 {"bytes.txt: line 2 is not UTF-8 from byte 2 on"});
}

TEST_F(Tasks, ModelsAreScoredInTheComputeTypeAskedFor) {
  import();
  write("mine.csv", "text,label\na cat,0\na dog,1\nthat mat,2\n");
  const auto loss = [&](const std::vector<std::string>& compute) {
    std::vector<std::string> command = {"eval", "published", "--data", "mine.csv", "--json"};
    command.insert(command.end(), compute.begin(), compute.end());
    const Outcome out = lpmm(command);
    EXPECT_EQ(out.code, 0) << out.err;
    return out.json()["test_loss"].get<double>();
  };
  const double as_run = loss({}), fp32 = loss({"--compute", "fp32"}), bf16 = loss({"--compute", "bf16"});
  EXPECT_NE(fp32, bf16);
  EXPECT_EQ(as_run, bf16);  // an import's
  expect_failure(lpmm({"eval", "published", "--compute", "fp16"}), 2, {"--compute"});
}

TEST_F(Tasks, SentencesBecomeVectors) {
  import();
  const SafetensorsFile expected(std::string(kRoberta) + "/expected.safetensors");
  std::vector<float> mean(16), told(48);
  expected.read(*expected.find("sentence_mean"), 0, std::as_writable_bytes(std::span(mean)));
  write("three.txt", "that cat, and a mat\na dog sat\nthe cat\n");
  const Outcome run = lpmm(
      {"embed", "published", "--file", "three.txt", "--compute", "fp32", "--out", "three.npy", "--json"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json()["sentences"], 3);
  NpyReader file(path("three.npy"));
  ASSERT_EQ(file.shape(), (std::vector<std::int64_t>{3, 16}));
  file.read(told);
  for (std::size_t i = 0; i < 16; ++i) EXPECT_NEAR(told[16 + i], mean[i], 1e-5) << i;
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    ab += told[i] * told[32 + i];
    aa += told[i] * told[i];
    bb += told[32 + i] * told[32 + i];
  }
  write("pairs.txt", "that cat, and a mat\tthe cat\na dog sat\ta dog sat\n");
  const Outcome pairs = lpmm({"embed", "published", "--file", "pairs.txt", "--compute", "fp32", "--pairs"});
  ASSERT_EQ(pairs.code, 0) << pairs.err;
  EXPECT_NEAR(std::stod(pairs.out), ab / std::sqrt(aa * bb), 2e-5);
  EXPECT_NE(pairs.out.find("\n1.000000\n"), std::string::npos) << pairs.out;
  // A byte order mark is no part of a sentence.
  write("marked.txt",
        "\xEF\xBB\xBF"
        "that cat, and a mat\tthe cat\na dog sat\ta dog sat\n");
  EXPECT_EQ(lpmm({"embed", "published", "--file", "marked.txt", "--compute", "fp32", "--pairs"}).out,
            pairs.out);
  expect_failure(lpmm({"embed", "published", "--file", "three.txt", "--out", "./three.txt"}), 2,
                 {"the file that is read"});
  // Wrong ways in; nothing is written.
  expect_failure(lpmm({"embed", "published", "--file", "three.txt"}), 2, {"--out"});
  expect_failure(lpmm({"embed", "published", "--file", "three.txt", "--pairs"}), 2, {"line 1 has no tab"});
  expect_failure(lpmm({"embed", "published", "--file", "pairs.txt", "--out", "x.npy"}), 2, {"--pairs"});
  EXPECT_FALSE(fs::exists(path("x.npy")));
}

// Data or models that do not fit are refused before anything is read or trained.
TEST_F(Tasks, WhatDoesNotGoTogetherIsRefusedAtOnce) {
  import();
  const Outcome bert = lpmm({"import", LPMM_SOURCE_DIR "/tests/golden/bert_tiny", "--out", "bert"});
  expect_failure(lpmm({"classify", "bert", "--file", path("tune.toml")}), 1, {"no tokenizer"});
  fs::create_directories(path("vocabulary"));
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (char c = 'a'; c <= 'z'; ++c) vocabulary += std::string(1, c) + "\n##" + c + "\n";
  const std::string words = write("vocabulary/vocab.txt", vocabulary);
  const std::vector<std::string> train = {
      "train", config(), "--set", "train.init=\"\"", "--set", "data.tokenizer=" + words, "--out", "x"};
  const Outcome refused = lpmm(train);
  expect_failure(refused, 2, {"model.types = 1", "mrpc"});
  EXPECT_FALSE(fs::exists(path("x")));
  fs::create_directories(path("data/glue/STS-B"));
  std::string pairs = "sentence1\tsentence2\tscore\n";
  for (int i = 0; i < 8; ++i) pairs += fmt::format("a cat {}\ta dog {}\t{}\n", i, i % 3, i % 5);
  write("data/glue/STS-B/train.tsv", pairs);
  write("data/glue/STS-B/dev.tsv", pairs);
  const std::vector<std::string> cosine = {config(), "--set", "data.set=stsb", "--set", "data.cosine=true"};
  for (const char* command : {"plan", "advise"}) {
    std::vector<std::string> arguments = {command};
    arguments.insert(arguments.end(), cosine.begin(), cosine.end());
    expect_failure(lpmm(arguments), 2, {"only embeds"});
  }
  expect_failure(lpmm({"train", config(), "--set", "data.length=1", "--out", "x"}), 2, {"data.length = 1"});
}

}  // namespace
}  // namespace lpmm
