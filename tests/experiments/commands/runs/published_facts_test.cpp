// Tests of config.json's facts besides sizes: a run carries them from import to export.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/experiments/program.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;
using nlohmann::json;

class Facts : public ProgramTest {
 protected:
  // A fixture whose config.json says something else besides.
  std::string model(const std::string& name, const json& more) const {
    fs::copy(LPMM_SOURCE_DIR "/tests/golden/" + name, path(name),
             fs::copy_options::overwrite_existing | fs::copy_options::recursive);
    json config = config_of(name);
    config.update(more);
    write(name + "/config.json", config.dump());
    return path(name);
  }
  json config_of(const std::string& folder) const {
    return json::parse(read_file(path(folder + "/config.json")));
  }
  void import(const std::string& from, const std::string& to) const {
    const Outcome in = run_lpmm({"import", path(from), "--preset", "fp32", "--out", path(to)});
    ASSERT_EQ(in.code, 0) << in.err;
  }
  json exported(const std::string& run) const {
    const Outcome out = run_lpmm({"export", path(run), "--hf", "--out", path(run + "_hf"), "--overwrite"});
    EXPECT_EQ(out.code, 0) << out.err;
    return config_of(run + "_hf");
  }
  std::string text_config(const std::string& model, const std::string& more) const {
    return write(
        "text.toml",
        fmt::format("[model]\nname = '{}'\n{}[data]\nset = 'text'\npath = '{}'\nlength = 8\n[train]\n"
                    "steps = 2\nbatch = 2\n[optimizer]\nlearning_rate = 0.001\n",
                    model, more, write("text.txt", [] {
                      std::string text;
                      for (int i = 0; i < 300; ++i)
                        text += std::string(1, static_cast<char>('a' + i % 7)) + " ";
                      return text;
                    }())));
  }
};

TEST_F(Facts, SpecialTokensGoThroughTraining) {
  const std::string published =
      model("llama_tiny", {{"bos_token_id", 3}, {"eos_token_id", {2, 9}}, {"pad_token_id", -1}});
  std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (char c = 'a'; c <= 'z'; ++c) words += std::string(1, c) + "\n##" + c + "\n";
  write("llama_tiny/vocab.txt", words);
  import("llama_tiny", "run");
  const std::string config = text_config(
      "llama",
      "layers = 2\nheads = 4\nkv_heads = 2\nembedding = 16\nmlp_width = 20\ncontext = 64\nvocabulary = 61\n"
      "epsilon = 1e-6\nrope_factor = 4.0\nrope_context = 16\n");
  std::vector<std::string> tune = {"train", config,        "--init",  path("run"),
                                   "--out", path("tuned"), "--resume"};
  ASSERT_EQ(run_lpmm(tune).code, 0);
  tune.insert(tune.end(), {"--set", "train.steps=3"});
  const Outcome resumed = run_lpmm(tune);
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  for (const char* run : {"run", "tuned"}) {
    const json given = exported(run);
    EXPECT_EQ(given["bos_token_id"], 3) << run;
    EXPECT_EQ(given["eos_token_id"], json({2, 9})) << run;
    EXPECT_EQ(given["pad_token_id"], -1) << run;
  }
  // A sample ends where the publisher says.
  const auto sampled = [&](const std::string& run) {
    const Outcome out =
        run_lpmm({"sample", path(run), "--prompt", "a b", "--tokens", "12", "--temperature", "0", "--json"});
    EXPECT_EQ(out.code, 0) << out.err;
    return out.json()["ids"].get<std::vector<int>>();
  };
  model("llama_tiny", {{"eos_token_id", nullptr}});
  import("llama_tiny", "endless");
  const std::vector<int> all = sampled("endless");
  ASSERT_EQ(all.size(), 15U);
  model("llama_tiny", {{"eos_token_id", {60, all[4]}}});
  import("llama_tiny", "ends");
  const std::vector<int> until = sampled("ends");
  EXPECT_LE(until.size(), 5U);
  EXPECT_EQ(until.back(), all[4]);
  // The tokens of generation_config.json win, since transformers stops at them.
  write("llama_tiny/generation_config.json", R"({"eos_token_id": 7})");
  import("llama_tiny", "other");
  EXPECT_EQ(exported("other")["eos_token_id"], 7);
  EXPECT_EQ(exported("other")["bos_token_id"], 1);
  write("llama_tiny/generation_config.json", "{");
  expect_failure(run_lpmm({"import", published, "--out", path("x")}), 1, {"generation_config.json"});
  EXPECT_FALSE(fs::exists(path("x")));
  // An id that is no token is left out and reported.
  fs::remove(path("llama_tiny/generation_config.json"));
  model("llama_tiny", {{"bos_token_id", "<s>"}, {"eos_token_id", 61}});
  const Outcome odd = run_lpmm({"import", published, "--out", path("odd")});
  EXPECT_EQ(odd.code, 0) << odd.err;
  EXPECT_NE(odd.err.find("bos_token_id is \"<s>\", eos_token_id is 61: no token of the model"),
            std::string::npos)
      << odd.err;
  EXPECT_TRUE(exported("odd").at("eos_token_id").is_null());
}

// A model that was trained here ends as its tokenizer does; one without an end says so.
TEST_F(Facts, WithoutAPublisherTheTokenizerSaysThem) {
  const std::string config = text_config("gpt", "layers = 1\nheads = 2\nembedding = 16\ncontext = 16\n");
  ASSERT_EQ(run_lpmm({"train", config, "--out", path("letters")}).code, 0);
  EXPECT_TRUE(exported("letters").at("eos_token_id").is_null());
  const Outcome out =
      run_lpmm({"train", config, "--set",
                std::string("data.tokenizer=") + LPMM_SOURCE_DIR "/tests/golden/roberta_tiny/tokenizer.json",
                "--out", path("pieces")});
  ASSERT_EQ(out.code, 0) << out.err;
  EXPECT_EQ(exported("pieces").at("eos_token_id"), 2);  // </s>
}

TEST_F(Facts, NamesOfClassesComeAndGo) {
  const json named = {{"id2label", {{"0", "bad"}, {"1", "so so"}, {"2", "good"}}}};
  const std::string published = model("roberta_tiny", named);
  import("roberta_tiny", "run");
  const std::string sentence = write("one.txt", "a cat\n");
  const Outcome told = run_lpmm({"classify", path("run"), "--file", sentence, "--json"});
  ASSERT_EQ(told.code, 0) << told.err;
  EXPECT_EQ(told.json()["labels"], json({"bad", "so so", "good"}));
  const json given = exported("run");
  EXPECT_EQ(given["id2label"], named["id2label"]);
  EXPECT_EQ(given["label2id"], json({{"bad", 0}, {"so so", 1}, {"good", 2}}));
  import("run_hf", "again");
  EXPECT_EQ(exported("again")["id2label"], named["id2label"]);
  // Data may number them, but not call them otherwise.
  const auto eval = [&](const std::string& a, const std::string& b, const std::string& c) {
    fs::create_directories(path("set"));
    const std::string lines = fmt::format("sentence\tlabel\na\t{}\nb\t{}\nc\t{}\n", a, b, c);
    write("set/train.tsv", lines);
    write("set/dev.tsv", lines);
    return run_lpmm({"eval", path("run"), "--task", "sentences", "--data", path("set")});
  };
  EXPECT_EQ(eval("0", "1", "2").code, 0);
  EXPECT_EQ(eval("0", "2", "1").code, 0);
  const auto loss = [&](const Outcome& out) {
    EXPECT_EQ(out.code, 0) << out.err;
    return out.out.substr(out.out.find("loss"));
  };
  // They are told apart by name, whatever their order.
  EXPECT_EQ(loss(eval("bad", "so so", "good")), loss(eval("0", "1", "2")));
  expect_failure(eval("bad", "fair", "good"), 2,
                 {"3 classes (bad, so so, good)", "3 classes (bad, fair, good)"});
  expect_failure(eval("1", "2", "3"), 2, {"3 classes (1, 2, 3)"});
  // Names that nobody gave are none, and come back as they came.
  model("roberta_tiny", {{"id2label", {{"0", "LABEL_0"}, {"1", "LABEL_1"}, {"2", "LABEL_2"}}}});
  import("roberta_tiny", "unnamed");
  const Outcome unnamed = run_lpmm({"classify", path("unnamed"), "--file", sentence, "--json"});
  EXPECT_EQ(unnamed.json()["labels"], json({"0", "1", "2"})) << unnamed.err;
  EXPECT_EQ(exported("unnamed")["id2label"]["2"], "LABEL_2");
  // Names that are not one for each class.
  for (const json& wrong : {json{{"0", "bad"}, {"1", "good"}}, json{{"0", "a"}, {"1", "b"}, {"3", "c"}},
                            json{{"0", "a"}, {"1", "b"}, {"2", 5}}}) {
    model("roberta_tiny", {{"id2label", wrong}});
    expect_failure(run_lpmm({"import", published, "--out", path("x")}), 1, {"config.json: id2label"});
    EXPECT_FALSE(fs::exists(path("x")));
  }
}

// A wrong value in the files is no usage error; one that --set mends is no error at all.
TEST_F(Facts, WhatIsOutOfRangeIsTheFiles) {
  const std::string published = model("llama_tiny", {{"num_attention_heads", 5000}});
  const std::vector<std::string> in = {"import", published, "--out", path("x")};
  const Outcome refused = run_lpmm(in);
  expect_failure(refused, 1, {published + ": its files say model.heads = 5000"});
  EXPECT_FALSE(fs::exists(path("x")));
  std::vector<std::string> mended = in, wrong = in;
  mended.insert(mended.end(), {"--set", "model.heads=4"});
  wrong.insert(wrong.end(), {"--set", "model.heads=6000"});
  EXPECT_EQ(run_lpmm(mended).code, 0);
  model("llama_tiny", json::object());
  wrong[3] = path("y");
  expect_failure(run_lpmm(wrong), 2, {"model.heads"});
}

TEST_F(Facts, NamesOfImagesComeAndGo) {
  fs::create_directories(path("vit"));
  fs::copy(LPMM_SOURCE_DIR "/tests/golden/vit_tiny.safetensors", path("vit/model.safetensors"));
  const json names = {"a", "b", "c", "d", "e"};
  write("vit/config.json", json({{"model_args", {{"num_heads", 2}}}, {"label_names", names}}).dump());
  import("vit", "run");
  EXPECT_EQ(exported("run")["label_names"], names);
  write("vit/config.json", R"({"label_names": ["a"]})");
  expect_failure(run_lpmm({"import", path("vit"), "--out", path("x")}), 1, {"label_names names 1 classes"});
}

}  // namespace
}  // namespace lpmm
