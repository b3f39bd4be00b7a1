// Language models through the program: training, evaluation, sampling, token files, import and export, bad
// input.
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/experiments/program.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;
using nlohmann::json;

const std::string kTiny = LPMM_SOURCE_DIR "/tests/golden/gpt2_tiny.safetensors";

class TextProgram : public ProgramTest {
 protected:
  // A few thousand characters with something to learn.
  std::string text() const {
    constexpr const char* kWords[] = {"the ",   "code ", "of ",     "a ",  "block ",
                                      "step\n", "is ",   "packed ", "and "};
    std::mt19937 generator(1);
    std::string out;
    while (out.size() < 6000) out += kWords[generator() % std::size(kWords)];
    return write("text.txt", out);
  }
  std::string gpt(const std::string& path) const {
    return write("gpt.toml", R"(
[model]
name = "gpt"
layers = 1
heads = 2
embedding = 32
context = 16
[data]
set = "text"
path = ")" + path + R"("
[train]
steps = 40
batch = 8
compute = "fp32"
[optimizer]
rule = "adamw"
learning_rate = 0.01
beta2 = 0.99
clip_norm = 1.0
[memory]
preset = "lpmm"
)");
  }
  Outcome train_gpt(const std::string& out, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"train", gpt(text()), "--out", path(out), "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return run_lpmm(all);
  }
  std::string weights(const std::string& run, const std::string& step) const {
    return read_file(path(run) + "/checkpoints/step_" + step + "/model.safetensors");
  }
};

TEST_F(TextProgram, TrainEvalSampleAndLogitsAgree) {
  const Outcome run = train_gpt("run");
  ASSERT_EQ(run.code, 0) << run.err;
  const json summary = run.json();
  EXPECT_LT(summary["final_validation_loss"], 2.5);  // of 18 characters: a uniform guess has 2.9
  EXPECT_EQ(summary["final_validation_loss"], summary["test_loss"]);
  EXPECT_GT(summary["tokens_per_second"], 0);
  EXPECT_FALSE(summary.contains("images_per_second"));
  EXPECT_NE(run.err.find("tokens/s"), std::string::npos);

  const Outcome eval = run_lpmm({"eval", path("run"), "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_EQ(eval.json()["loss"], summary["test_loss"]);
  EXPECT_DOUBLE_EQ(eval.json()["perplexity"], std::exp(summary["test_loss"].get<double>()));
  EXPECT_EQ(eval.json()["tokens"], 600 / 16 * 16);
  // Another text, all of it; what trained it may be gone.
  const std::string other =
      write("other.txt", "the code of a block and the step\nis packed and packed and of a step");
  fs::remove(path("text.txt"));
  const Outcome more = run_lpmm({"eval", path("run"), "--data", other, "--json"});
  ASSERT_EQ(more.code, 0) << more.err;
  EXPECT_EQ(more.json()["tokens"], 66 / 16 * 16);
  EXPECT_LT(more.json()["loss"], 3);

  const auto sample = [&](const char* seed) {
    return run_lpmm({"sample", path("run"), "--prompt", "the ", "--tokens", "60", "--seed", seed, "--json"});
  };
  const Outcome first = sample("1");
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.json()["ids"].size(), 64U);  // past the context of 16 too
  EXPECT_EQ(first.json()["text"].get<std::string>().size(), 60U);
  EXPECT_EQ(sample("1").out, first.out);
  EXPECT_NE(sample("2").json()["text"], first.json()["text"]);
  const Outcome plain =
      run_lpmm({"sample", path("run"), "--prompt", "the ", "--tokens", "60", "--seed", "1"});
  EXPECT_EQ(plain.out, "the " + first.json()["text"].get<std::string>() + "\n");

  const Outcome logits = run_lpmm({"logits", path("run"), "--ids", "1,2,3", "--json"});
  ASSERT_EQ(logits.code, 0) << logits.err;
  ASSERT_EQ(logits.json()["logits"].size(), 3U);
  // The likeliest next token is what sampling at temperature 0 takes.
  const auto row = logits.json()["logits"][0].get<std::vector<double>>();
  const Outcome one = run_lpmm({"logits", path("run"), "--ids", "1", "--json"});
  const auto alone = one.json()["logits"][0].get<std::vector<double>>();
  for (std::size_t i = 0; i < row.size(); ++i) EXPECT_NEAR(alone[i], row[i], 1e-4);
}

TEST_F(TextProgram, ThreadsAndResumingChangeNoBit) {
  ASSERT_EQ(train_gpt("one", {"--threads", "1"}).code, 0);
  ASSERT_EQ(train_gpt("two", {"--threads", "2"}).code, 0);
  EXPECT_TRUE(weights("one", "00000040") == weights("two", "00000040"));
  ASSERT_EQ(train_gpt("cut", {"--set", "train.steps=23"}).code, 0);
  ASSERT_EQ(train_gpt("cut", {"--resume"}).code, 0);
  EXPECT_TRUE(weights("one", "00000040") == weights("cut", "00000040"));
}

// A run never goes on with a text whose characters have other numbers.
TEST_F(TextProgram, ResumingWithAnotherTextIsRefused) {
  ASSERT_EQ(train_gpt("run", {"--set", "train.steps=3"}).code, 0);
  std::string other = read_file(path("text.txt"));
  for (char& c : other) c = c == 'e' ? 'E' : c;
  const std::string config = gpt(write("text.txt", other));
  expect_failure(run_lpmm({"train", config, "--out", path("run"), "--resume"}), 2,
                 {"another tokenizer", "text.txt"});
}

// A start that fails leaves nothing that a resume would take for a run.
TEST_F(TextProgram, AFailedInitCanBeRepeated) {
  ASSERT_EQ(train_gpt("first").code, 0);
  EXPECT_NE(train_gpt("next", {"--init", path("first"), "--set", "model.embedding=64"}).code, 0);
  const Outcome again = train_gpt("next", {"--init", path("first"), "--set", "train.steps=1"});
  EXPECT_EQ(again.code, 0) << again.err;
}

TEST_F(TextProgram, ATokenFileTrainsTheSame) {
  const Outcome made =
      run_lpmm({"data", "tokenize", text(), path("t.tokens"), "--tokenizer", "characters", "--json"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_GE(made.json()["tokens"], 6000);
  ASSERT_EQ(train_gpt("text").code, 0);
  ASSERT_EQ(run_lpmm({"train", gpt(path("t.tokens")), "--out", path("file"), "--quiet"}).code, 0);
  EXPECT_TRUE(weights("text", "00000040") == weights("file", "00000040"));
}

TEST_F(TextProgram, ImportFineTuneExport) {
  const Outcome made =
      run_lpmm({"import", kTiny, "--preset", "fp32", "--vocab", path("none"), "--out", path("hf"), "--json"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(made.json()["vocabulary"], 61);
  EXPECT_NE(made.err.find("no tokenizer"), std::string::npos);
  const Outcome logits = run_lpmm({"logits", path("hf"), "--ids", "0,60", "--json"});
  ASSERT_EQ(logits.code, 0) << logits.err;
  EXPECT_EQ(logits.json()["logits"][1].size(), 61U);
  expect_failure(run_lpmm({"sample", path("hf")}), 1, {"state.json", "no tokenizer"});
  const Outcome out = run_lpmm({"export", path("hf"), "--hf", "--out", path("again"), "--json"});
  ASSERT_EQ(out.code, 0) << out.err;
  const Outcome back =
      run_lpmm({"import", path("again"), "--preset", "fp32", "--vocab", path("none"), "--out", path("hf2")});
  ASSERT_EQ(back.code, 0) << back.err;
  EXPECT_TRUE(weights("hf", "00000000") == weights("hf2", "00000000"));
  expect_failure(run_lpmm({"import", kTiny, "--out", path("hf")}), 2, {"holds a run already"});
  const std::string inside = path("hf") + "/checkpoints/step_00000000";
  expect_failure(run_lpmm({"export", path("hf"), "--hf", "--out", inside}), 2, {"lies in the checkpoint"});
  expect_failure(run_lpmm({"export", path("hf"), "--hf", "--type", "bf16", "--out", path("x")}), 2,
                 {"--hf writes fp32"});

  // Training that begins with a checkpoint begins at its loss.
  ASSERT_EQ(train_gpt("first").code, 0);
  const Outcome tuned = train_gpt("tuned", {"--init", path("first"), "--set", "train.steps=1", "--preset",
                                            "lpmm-compact", "--set", "optimizer.learning_rate=0"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  const double before = run_lpmm({"eval", path("first"), "--json"}).json()["loss"];
  EXPECT_NEAR(tuned.json()["final_validation_loss"], before, 0.02);
  expect_failure(train_gpt("other", {"--init", path("hf")}), 1,
                 {"h.1.ln_1.weight", "which this model has not"});
}

TEST_F(TextProgram, BadInputIsNamed) {
  const auto refuse = [&](const std::vector<std::string>& set, int code,
                          const std::vector<std::string>& words) {
    std::vector<std::string> more;
    for (const std::string& s : set) more.insert(more.end(), {"--set", s});
    expect_failure(train_gpt("bad", more), code, words);
  };
  refuse({"data.path=" + path("none.txt")}, 1, {"none.txt"});
  refuse({"data.path=" + write("empty.txt", "")}, 2, {"empty.txt", "empty"});
  refuse({"data.path=" + write("latin.txt", std::string(500, 'a') + "\xE9" + std::string(500, 'b'))}, 2,
         {"latin.txt", "UTF-8", "500"});
  refuse({"data.path=" + write("short.txt", "abcdefghijklmnopqrst")}, 2,
         {"short.txt", "a sequence takes 17"});
  refuse({"data.path=" + write("no.tokens", "lpmmtok\nbut no more of it")}, 1, {"no.tokens"});
  refuse({"model.vocabulary=5"}, 2, {"model.vocabulary = 5"});
  refuse({"data.length=17"}, 2, {"data.length = 17", "model.context = 16"});
  refuse({"model.heads=3"}, 2, {"model.embedding = 32", "model.heads = 3"});
  refuse({"data.tokenizer=charaters"}, 2, {"did you mean \"characters\""});
  refuse({"model.label_smoothing=0.5"}, 2, {"label_smoothing"});
  expect_failure(
      run_lpmm({"plan", gpt(text()), "--set", "data.validation_share=0.5", "--set", "model.context=2000",
                "--set", "model.embedding=65536", "--set", "train.batch=1048576"}),
      2, {"too large"});
  refuse({"data.set=drawn"}, 2, {"model.name = gpt reads text", "data.set = drawn"});
  refuse({"model.name=mlp"}, 2, {"model.name = mlp reads images"});
  train("mlp");
  expect_failure(run_lpmm({"sample", path("mlp")}), 2, {"mlp, which reads images"});
  expect_failure(run_lpmm({"eval", path("mlp"), "--data", path("text.txt")}), 2,
                 {"--data is for models of text"});
  ASSERT_EQ(train_gpt("run").code, 0);
  expect_failure(run_lpmm({"logits", path("run"), "--ids", "1,99"}), 1, {"token 99", "vocabulary"});
  expect_failure(run_lpmm({"logits", path("run"), "--ids", "1,-1"}), 1, {"token -1"});
  expect_failure(run_lpmm({"sample", path("run"), "--prompt", "QUEUE"}), 2, {"U+0051"});
  expect_failure(run_lpmm({"sample", path("run"), "--prompt", ""}), 2, {"--prompt is empty"});
  expect_failure(run_lpmm({"sample", path("run"), "--temperature", "nan"}), 2, {"nan"});
  expect_failure(run_lpmm({"data", "tokenize", path("text.txt"), path("t.bin")}), 2, {"t.bin", ".tokens"});
}

}  // namespace
}  // namespace lpmm
