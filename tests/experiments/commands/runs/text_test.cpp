// Language models through the program: training, evaluation, sampling, token files, import and export, bad
// input.
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/experiments/program.h"
#include "tests/lpmm/data/tiny_bpe.h"

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
  EXPECT_LT(summary["final_validation_loss"], 2.5);  // there are 18 characters: a uniform guess has 2.9
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
  const std::string first = read_file(path("text.txt"));
  std::string other = first;
  for (char& c : other) c = c == 'e' ? 'E' : c;
  const std::string config = gpt(write("text.txt", other));
  expect_failure(run_lpmm({"train", config, "--out", path("run"), "--resume"}), 2, {"text.txt", "U+0045"});
  // The same characters, two of them exchanged.
  std::string turned = first;
  std::swap(turned[3000], turned[3000 + turned.substr(3000).find_first_not_of(turned[3000])]);
  write("text.txt", turned);
  expect_failure(run_lpmm({"train", config, "--out", path("run"), "--resume"}), 2,
                 {"was trained on other data", "text.txt"});
  expect_failure(run_lpmm({"eval", path("run")}), 2, {"text.txt: is not the text", "--data"});
  EXPECT_EQ(run_lpmm({"eval", path("run"), "--data", path("text.txt")}).code, 0);
  write("text.txt", first);
  const Outcome same = run_lpmm({"train", config, "--out", path("run"), "--resume"});
  EXPECT_EQ(same.code, 0) << same.err;
}

// A text without some of the characters is read by the tokenizer of the parameters, not by one of its own.
TEST_F(TextProgram, FineTuningKeepsTheTokenizer) {
  ASSERT_EQ(train_gpt("first").code, 0);
  std::string poor;
  for (int i = 0; i < 100; ++i) poor += "the code the step\n";
  const std::string config = gpt(write("poor.txt", poor));
  const Outcome tuned =
      run_lpmm({"train", config, "--init", path("first"), "--set", "train.steps=2", "--out", path("tuned")});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  const auto shape = [&](const char* run) {
    const std::string file = weights(run, run == std::string("tuned") ? "00000002" : "00000040");
    const std::size_t at = file.find("wte.weight.shape");
    return file.substr(at, file.find(',', at) - at);
  };
  EXPECT_EQ(shape("tuned"), shape("first"));
  // A token file made by another tokenizer means other characters.
  ASSERT_EQ(run_lpmm({"data", "tokenize", path("poor.txt"), path("poor.tokens")}).code, 0);
  expect_failure(run_lpmm({"train", gpt(path("poor.tokens")), "--init", path("first"), "--out", path("no")}),
                 2, {"poor.tokens", "another tokenizer"});
  // A text with a character that the parameters do not know.
  expect_failure(run_lpmm({"train", gpt(write("rich.txt", poor + "Quark")), "--init", path("first"), "--out",
                           path("no")}),
                 2, {"rich.txt", "U+0051"});
  // A run no longer needs the checkpoint it started from once it has one of its own.
  fs::rename(path("first"), path("away"));
  const Outcome gone = run_lpmm({"train", gpt(path("poor.txt")), "--init", path("first"), "--set",
                                 "train.steps=3", "--out", path("tuned"), "--resume"});
  EXPECT_EQ(gone.code, 0) << gone.err;
  expect_failure(run_lpmm({"train", gpt(path("poor.txt")), "--init", path("first"), "--out", path("no")}), 2,
                 {"first", "holds no checkpoint"});
  // The start is part of the run: going on without it is another run.
  expect_failure(run_lpmm({"train", gpt(path("poor.txt")), "--set", "train.steps=2", "--out", path("tuned"),
                           "--resume"}),
                 2, {"holds another run"});
}

// Bytes of another text, read by the run's tokenizer although --config names another.
TEST_F(TextProgram, EvaluationReadsAsTheRunDid) {
  ASSERT_EQ(train_gpt("run", {"--set", "data.tokenizer=bytes", "--set", "train.steps=2"}).code, 0);
  const std::string other = write("other.txt", std::string(200, '\xE9'));  // no UTF-8, but bytes
  const Outcome eval = run_lpmm({"eval", path("run"), "--data", other, "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_EQ(eval.json()["tokens"], 199 / 16 * 16);
  std::string config = read_file(path("run") + "/config.toml");
  const std::size_t at = config.find("tokenizer = \"bytes\"");
  ASSERT_NE(at, std::string::npos);
  config.replace(at, 19, "tokenizer = \"gpt2\"");
  const Outcome again =
      run_lpmm({"eval", path("run"), "--config", write("other.toml", config), "--data", other, "--json"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out, eval.out);
}

// A start that fails leaves nothing that a resume would take for a run.
TEST_F(TextProgram, AFailedInitCanBeRepeated) {
  ASSERT_EQ(train_gpt("first").code, 0);
  EXPECT_NE(train_gpt("next", {"--init", path("first"), "--set", "model.embedding=64"}).code, 0);
  const Outcome again = train_gpt("next", {"--init", path("first"), "--set", "train.steps=1"});
  EXPECT_EQ(again.code, 0) << again.err;
}

// A sweep compares language models by the validation loss of pairs.
TEST_F(TextProgram, SweepsCompareTheValidationLoss) {
  const std::vector<std::string> command = {
      "sweep", "--config",      gpt(text()),  "--presets", "fp32,lpmm-min", "--seeds",    "1,2",
      "--set", "train.steps=3", "--baseline", "fp32",      "--out",         path("sweep")};
  const Outcome table = run_lpmm(command);
  ASSERT_EQ(table.code, 0) << table.err;
  EXPECT_NE(table.out.find("valid. loss"), std::string::npos) << table.out;
  EXPECT_EQ(table.out.find("accuracy"), std::string::npos) << table.out;
  std::vector<std::string> again = command;
  again.push_back("--json");
  const json answer = run_lpmm(again).json();
  double gap = 0;
  for (const json& cell : answer["cells"]) {
    const double loss = cell["summary"]["final_validation_loss"];
    gap += (cell["group"].get<std::string>().ends_with("fp32") ? -loss : loss) / 2;
  }
  const json& group = answer["groups"][1];
  EXPECT_NEAR(group["test_loss_gap"]["mean"].get<double>(), gap, 1e-12);
  EXPECT_GT(group["test_loss_gap"]["upper_95"], group["test_loss_gap"]["mean"]);
}

TEST_F(TextProgram, ATokenFileTrainsTheSame) {
  const Outcome made =
      run_lpmm({"data", "tokenize", text(), path("t.tokens"), "--tokenizer", "characters", "--json"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_GE(made.json()["tokens"], 6000);
  ASSERT_EQ(train_gpt("text").code, 0);
  ASSERT_EQ(run_lpmm({"train", gpt(path("t.tokens")), "--out", path("file"), "--quiet"}).code, 0);
  EXPECT_TRUE(weights("text", "00000040") == weights("file", "00000040"));
  // An error names only the argument that is wrong.
  const auto err = [&](const std::string& in, const std::string& tokenizer) {
    const Outcome out = run_lpmm({"data", "tokenize", in, path("x.tokens"), "--tokenizer", tokenizer});
    EXPECT_EQ(out.code, 2);
    return out.err;
  };
  const std::string unknown = err(text(), "caracters");
  EXPECT_NE(unknown.find("unknown tokenizer \"caracters\""), std::string::npos) << unknown;
  EXPECT_EQ(unknown.find(text()), std::string::npos) << unknown;
  const std::string none = err(write("none.txt", ""), "bytes");
  EXPECT_NE(none.find("none.txt: is empty"), std::string::npos) << none;
  EXPECT_EQ(none.find("x.tokens"), std::string::npos) << none;
}

// A run is told the file of its tokenizer; its checkpoints and its files of tokens know which one that was.
TEST_F(TextProgram, TokenizersOfFilesAndWords) {
  const json stored = json::parse(read_file(LPMM_SOURCE_DIR "/tests/golden/tokenizer_encodings.json"));
  fs::create_directory(path("published"));
  const std::string file = write("published/tokenizer.json", stored["bases"]["bytes"].dump());
  const Outcome made =
      run_lpmm({"data", "tokenize", "--tokenizer", file, text(), path("t.tokens"), "--json"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(made.json()["vocabulary"], 320);
  const std::string tokens = "data.path=" + path("t.tokens"), two = "train.steps=2";
  expect_failure(train_gpt("lost", {"--set", tokens}), 1, {"data.tokenizer names the file (tokenizer.json)"});
  struct Case {
    std::string name;
    std::vector<std::string> set;
  };
  const std::vector<Case> cases = {{"text", {"data.tokenizer=" + file}},
                                   {"tokens", {"data.tokenizer=" + path("published"), tokens}},
                                   {"words", {"data.tokenizer=words", "data.words=7"}}};
  for (const Case& c : cases) {
    std::vector<std::string> more = {"--set", two};
    for (const std::string& one : c.set) more.insert(more.end(), {"--set", one});
    const Outcome run = train_gpt(c.name, more);
    ASSERT_EQ(run.code, 0) << run.err;
    const Outcome sample =
        run_lpmm({"sample", path(c.name), "--prompt", "the code", "--tokens", "5", "--temperature", "0"});
    EXPECT_EQ(sample.code, 0) << sample.err;
    EXPECT_EQ(sample.out.substr(0, 8), "the code");
    const Outcome eval =
        run_lpmm({"eval", path(c.name), "--data",
                  write("other.txt",
                        "the code is of a step\n the block "
                        "and the code of the step is packed and a block is a step of the code and\n")});
    EXPECT_EQ(eval.code, 0) << eval.err;
  }
  EXPECT_TRUE(weights("text", "00000002") == weights("tokens", "00000002"));
  json other = stored["bases"]["bytes"];
  other["model"]["merges"].erase(5);
  write("published/tokenizer.json", other.dump());
  EXPECT_EQ(run_lpmm({"sample", path("text"), "--tokens", "2"}).code, 0);  // by its own copy
  const Outcome borrows =
      train_gpt("borrows", {"--set", "data.tokenizer=" + path("text/model_files/tokenizer")});
  ASSERT_EQ(borrows.code, 0) << borrows.err;
  fs::remove_all(path("text/model_files"));
  EXPECT_EQ(run_lpmm({"sample", path("borrows"), "--tokens", "2"}).code, 0);
  expect_failure(run_lpmm({"sample", path("text")}), 1, {"state.json", "checksum", file});
  expect_failure(train_gpt("none", {"--set", "data.tokenizer=" + path("none.json")}), 2,
                 {"none.json", "words"});
}

TEST_F(TextProgram, TrainsATokenizer) {
  const Outcome made = run_lpmm({"data", "tokenizer", "--train", "bpe", "--vocabulary", "40", text(),
                                 "--output", path("t.model"), "--json"});
  if (made.code == 1 && made.err.find("built without SentencePiece") != std::string::npos)
    GTEST_SKIP() << made.err;
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(made.json()["vocabulary"], 40);
  ASSERT_EQ(train_gpt("run", {"--set", "data.tokenizer=" + path("t.model"), "--set", "train.steps=2"}).code,
            0);
  EXPECT_EQ(run_lpmm({"sample", path("run"), "--prompt", "the code", "--tokens", "5"}).code, 0);
  expect_failure(run_lpmm({"data", "tokenizer", text(), "--output", path("t.txt")}), 2, {"ends in .model"});
  expect_failure(run_lpmm({"data", "tokenizer", text(), "--output", path("u.model")}), 2,
                 {"tokenizer of 8000 pieces", "Vocabulary size too high"});
  EXPECT_FALSE(fs::exists(path("u.model")));
}

// A model that goes out and comes back brings its tokenizer, wherever GPT-2's lies.
TEST_F(TextProgram, ImportOfOnesOwnExportKnowsItsTokenizer) {
  for (const std::string tokenizer : {"characters", "bytes"}) {
    ASSERT_EQ(train_gpt(tokenizer, {"--set", "data.tokenizer=" + tokenizer, "--set", "train.steps=2"}).code,
              0);
    ASSERT_EQ(run_lpmm({"export", path(tokenizer), "--hf", "--out", path(tokenizer + "_hf")}).code, 0);
    const Outcome back = run_lpmm({"import", path(tokenizer + "_hf"), "--preset", "fp32", "--out",
                                   path(tokenizer + "_back"), "--json"});
    ASSERT_EQ(back.code, 0) << back.err;
    EXPECT_EQ(back.json()["tokenizer"], tokenizer);
    const Outcome text = run_lpmm({"sample", path(tokenizer + "_back"), "--tokens", "5", "--prompt", "a"});
    EXPECT_EQ(text.code, 0) << text.err;
  }
}

// Its files go out under the names that Hugging Face's programs read.
TEST_F(TextProgram, ExportBringsTheFilesOfGpt2sTokenizer) {
  const std::string folder = path("bpe");
  fs::create_directory(folder);
  tiny_bpe(folder, {"t h", "th e", "\u0120 b"});
  ASSERT_EQ(train_gpt("run", {"--set", "data.tokenizer=gpt2", "--set", "data.tokenizer_folder=" + folder,
                              "--set", "train.steps=2"})
                .code,
            0);
  const auto exported = [&](const std::string& to) {
    return run_lpmm({"export", path("run"), "--hf", "--out", path(to)});
  };
  const Outcome out = exported("hf");
  ASSERT_EQ(out.code, 0) << out.err;
  EXPECT_EQ(out.err, "");
  EXPECT_EQ(read_file(path("hf/vocab.json")), read_file(folder + "/encoder.json"));
  EXPECT_EQ(read_file(path("hf/merges.txt")), read_file(folder + "/vocab.bpe"));
  // They come back from there, or from a folder that is named.
  for (const std::string& from : {path("hf"), folder}) {
    const std::string to = path(from == folder ? "named" : "back");
    std::vector<std::string> command = {"import", path("hf"), "--preset", "fp32", "--out", to, "--json"};
    if (from == folder) command.insert(command.end(), {"--vocab", folder});
    const Outcome back = run_lpmm(command);
    ASSERT_EQ(back.code, 0) << back.err;
    EXPECT_EQ(back.json()["tokenizer"], "gpt2");
    EXPECT_EQ(run_lpmm({"sample", to, "--tokens", "3", "--prompt", "th"}).code, 0);
  }

  // Others than the run's, or none: said, and left out.
  tiny_bpe(folder, {"t h"});
  for (const std::string to : {"changed", "missing"}) {
    const Outcome without = exported(to);
    EXPECT_EQ(without.code, 0);
    EXPECT_NE(without.err.find("files are not written"), std::string::npos) << without.err;
    EXPECT_FALSE(fs::exists(path(to + "/vocab.json")) || fs::exists(path(to + "/merges.txt")));
    EXPECT_TRUE(fs::exists(path(to + "/lpmm_tokenizer.json")));
    fs::remove(folder + "/encoder.json");
  }
}

TEST_F(TextProgram, ImportFineTuneExport) {
  const Outcome made = run_lpmm({"import", kTiny, "--preset", "fp32", "--out", path("hf"), "--json"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(made.json()["vocabulary"], 61);
  EXPECT_NE(made.err.find("no tokenizer"), std::string::npos);
  const Outcome logits = run_lpmm({"logits", path("hf"), "--ids", "0,60", "--json"});
  ASSERT_EQ(logits.code, 0) << logits.err;
  EXPECT_EQ(logits.json()["logits"][1].size(), 61U);
  expect_failure(run_lpmm({"sample", path("hf")}), 1, {"state.json", "no tokenizer"});
  const Outcome out = run_lpmm({"export", path("hf"), "--hf", "--out", path("again"), "--json"});
  ASSERT_EQ(out.code, 0) << out.err;
  const Outcome back = run_lpmm({"import", path("again"), "--preset", "fp32", "--out", path("hf2")});
  ASSERT_EQ(back.code, 0) << back.err;
  EXPECT_TRUE(weights("hf", "00000000") == weights("hf2", "00000000"));
  expect_failure(run_lpmm({"import", kTiny, "--out", path("hf")}), 2, {"holds a run already"});
  const std::string inside = path("hf") + "/checkpoints/step_00000000";
  expect_failure(run_lpmm({"export", path("hf"), "--hf", "--out", inside}), 2, {"is part of the run"});
  fs::copy(inside, path("moved"), fs::copy_options::recursive);
  expect_failure(run_lpmm({"export", path("moved"), "--out", path("moved/x.safetensors")}), 2,
                 {"lies in the checkpoint"});

  // Training that begins with a checkpoint begins at its loss.
  ASSERT_EQ(train_gpt("first").code, 0);
  const Outcome tuned = train_gpt("tuned", {"--init", path("first"), "--set", "train.steps=1", "--preset",
                                            "lpmm-compact", "--set", "optimizer.learning_rate=0"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  const double before = run_lpmm({"eval", path("first"), "--json"}).json()["loss"];
  EXPECT_NEAR(tuned.json()["final_validation_loss"], before, 0.02);
  expect_failure(train_gpt("stable", {"--init", path("first"), "--set", "model.stable_embedding=true"}), 2,
                 {"model.stable_embedding", "trained without", "turn it off"});
  EXPECT_FALSE(fs::exists(path("stable")));
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
  refuse({"model.context=0"}, 2, {"model.context = 0"});
  refuse({"model.heads=3"}, 2, {"model.embedding = 32", "model.heads = 3"});
  refuse({"data.tokenizer=charaters"}, 2, {"did you mean characters?"});
  refuse({"model.label_smoothing=0.5"}, 2, {"label_smoothing"});
  expect_failure(
      run_lpmm({"plan", gpt(text()), "--set", "data.validation_share=0.5", "--set", "model.context=2000",
                "--set", "model.embedding=65536", "--set", "train.batch=1048576"}),
      2, {"train.batch = 1048576 is more than the"});
  refuse({"data.set=drawn"}, 2, {"model.name = gpt reads text", "data.set = drawn"});
  refuse({"model.name=mlp"}, 2, {"model.layers is no setting of mlp"});
  train("mlp");
  expect_failure(run_lpmm({"sample", path("mlp")}), 2, {"mlp, which reads images"});
  expect_failure(run_lpmm({"eval", path("mlp"), "--data", path("text.txt")}), 1,
                 {"text.txt", "holds no images"});
  ASSERT_EQ(train_gpt("run").code, 0);
  expect_failure(run_lpmm({"logits", path("run"), "--ids", "1,99"}), 1, {"token 99", "vocabulary"});
  expect_failure(run_lpmm({"logits", path("run"), "--ids", "1,-1"}), 1, {"token -1"});
  expect_failure(run_lpmm({"logits", path("run"), "--ids", ""}), 2, {"--ids", "is empty"});
  expect_failure(run_lpmm({"sample", path("run"), "--prompt", "QUEUE"}), 2, {"U+0051"});
  expect_failure(run_lpmm({"sample", path("run"), "--prompt", ""}), 2, {"--prompt is empty"});
  expect_failure(run_lpmm({"sample", path("run"), "--temperature", "nan"}), 2, {"nan"});
  expect_failure(run_lpmm({"data", "tokenize", path("text.txt"), path("t.bin")}), 2, {"t.bin", ".tokens"});
  expect_failure(run_lpmm({"data", "tokenize", path("latin.txt"), path("t.tokens")}), 2,
                 {"latin.txt", "UTF-8"});
  // A tensor of the import that is not finite; the first of the file starts after the header.
  std::string broken = read_file(kTiny);
  const std::size_t data = 8 + static_cast<std::size_t>(static_cast<unsigned char>(broken[0])) +
                           256 * static_cast<std::size_t>(static_cast<unsigned char>(broken[1]));
  broken.replace(data, 4, std::string("\0\0\xC0\x7F", 4));
  expect_failure(run_lpmm({"import", write("broken.safetensors", broken), "--out", path("hf")}), 1,
                 {"broken.safetensors", "NaN"});
}

}  // namespace
}  // namespace lpmm
