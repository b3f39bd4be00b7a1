// Published models of text, of sentences and of pairs as a user takes them in, tunes them, asks them and
// gives them out.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/experiments/program.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;

class Zoo : public ProgramTest {
 protected:
  // A fixture with a WordPiece tokenizer of letters beside it.
  std::string model(const std::string& name) const {
    const std::string folder = path(name);
    fs::copy(LPMM_SOURCE_DIR "/tests/golden/" + name, folder);
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (char c = 'a'; c <= 'z'; ++c) vocabulary += std::string(1, c) + "\n##" + c + "\n";
    write(name + "/vocab.txt", vocabulary);
    return folder;
  }
  // Pairs that are alike, or not.
  void write_sentences() const {
    fs::create_directories(path("set"));
    std::string lines = "sentence1\tsentence2\tlabel\n", scores = "sentence1\tsentence2\tscore\n";
    for (int i = 0; i < 24; ++i) {
      const std::string first(1, static_cast<char>('a' + i % 13)), second = i % 2 == 0 ? first : "z";
      lines += first + " b\t" + second + " b\t" + (i % 2 == 0 ? "same" : "other") + "\n";
      scores += first + " b\t" + second + " b\t" + (i % 2 == 0 ? "5" : "0") + "\n";
    }
    write("set/train.tsv", lines);
    write("set/dev.tsv", lines);
    fs::create_directories(path("scores"));
    write("scores/train.tsv", scores);
    write("scores/dev.tsv", scores);
  }
};

constexpr const char* kTune =
    "[train]\nsteps = 2\nbatch = 4\ncompute = 'fp32'\n[optimizer]\nlearning_rate = 0.1\n[memory]\npreset = "
    "'lpmm-min'\n";

TEST_F(Zoo, ALlamaIsTunedSampledAndGivenBack) {
  ASSERT_EQ(run_lpmm({"import", model("llama_tiny"), "--preset", "fp32", "--out", path("run")}).code, 0);
  const std::string config =
      write("tune.toml",
            std::string("[model]\nname = 'llama'\nlayers = 2\nheads = 4\nkv_heads = 2\nembedding = 16\n"
                        "mlp_width = 20\ncontext = 64\nvocabulary = 61\nepsilon = 1e-6\nrope_factor = 4.0\n"
                        "rope_context = 16\n[data]\nset = 'text'\nlength = 8\npath = '") +
                write("text.txt",
                      [] {
                        std::string text;
                        for (int i = 0; i < 300; ++i)
                          text += std::string(1, static_cast<char>('a' + i % 7)) + " ";
                        return text;
                      }()) +
                "'\n" + kTune);
  // The tokenizer is that of the weights, wherever its file lies.
  const Outcome tuned = run_lpmm({"train", config, "--init", path("run"), "--out", path("tuned"), "--json"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  const Outcome sampled = run_lpmm({"sample", path("tuned"), "--prompt", "a b", "--tokens", "4"});
  EXPECT_EQ(sampled.code, 0) << sampled.err;
  const Outcome given = run_lpmm({"export", path("tuned"), "--hf", "--out", path("hf")});
  ASSERT_EQ(given.code, 0) << given.err;
  EXPECT_TRUE(fs::exists(path("hf/vocab.txt")));
  const Outcome again =
      run_lpmm({"import", path("hf"), "--preset", "fp32", "--out", path("again"), "--json"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.json()["tokenizer"], "vocab.txt");
  // The same but for the rounding of bf16, in which an import computes.
  const auto logits = [&](const char* run) {
    const Outcome outcome = run_lpmm({"logits", path(run), "--ids", "5,6", "--json"});
    return outcome.json()["logits"][1].get<std::vector<double>>();
  };
  const std::vector<double> was = logits("tuned"), is = logits("again");
  ASSERT_EQ(is.size(), 61U);
  for (std::size_t i = 0; i < is.size(); ++i) EXPECT_NEAR(is[i], was[i], 0.05) << i;
}

TEST_F(Zoo, ABertEmbedsAndIsTunedForATask) {
  write_sentences();
  // Without its head it only embeds.
  const std::string published = model("bert_tiny");
  ASSERT_EQ(run_lpmm({"import", published, "--preset", "fp32", "--out", path("run")}).code, 0);
  const Outcome embeds =
      run_lpmm({"eval", path("run"), "--task", "sentences", "--data", path("scores"), "--json"});
  expect_failure(embeds, 2,
                 {"the model tells 3 classes", "has a number"});  // it was saved with a head of three classes
  const std::string config =
      write("tune.toml", std::string("[model]\nname = 'bert'\nlayers = 2\nheads = 4\n"
                                     "embedding = 16\nmlp_width = 20\ncontext = 24\n"
                                     "vocabulary = 61\n[data]\nset = 'sentences'\nlength = 16\n"
                                     "path = '") +
                             path("set") + "'\n" + kTune);
  const Outcome tuned = run_lpmm({"train", config, "--init", path("run"), "--out", path("tuned"), "--json"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_TRUE(tuned.json()["scores"].contains("accuracy"));
  EXPECT_NE(tuned.err.find("drawn anew: classifier.weight, classifier.bias"), std::string::npos) << tuned.err;
  const Outcome scored = run_lpmm({"eval", path("tuned"), "--json"});
  ASSERT_EQ(scored.code, 0) << scored.err;
  for (const char* score : {"accuracy", "f1", "matthews"}) {
    EXPECT_EQ(scored.json().at(score), tuned.json()["scores"].at(score)) << score;
  }
  ASSERT_EQ(run_lpmm({"export", path("tuned"), "--hf", "--out", path("hf")}).code, 0);
  const auto exported = nlohmann::json::parse(read_file(path("hf/config.json")));
  EXPECT_EQ(exported["architectures"][0], "BertForSequenceClassification");
  EXPECT_EQ(exported["num_labels"], 2);
  EXPECT_EQ(run_lpmm({"import", path("hf"), "--preset", "fp32", "--out", path("again")}).code, 0);
  // The same command goes on, while the sentences are the same.
  const std::vector<std::string> longer = {"train",       config,  "--init",        path("run"), "--out",
                                           path("tuned"), "--set", "train.steps=4", "--resume"};
  const Outcome resumed = run_lpmm(longer);
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  std::vector<std::string> other = longer;
  other[7] = "train.steps=6";
  std::string lines = read_file(path("set/train.tsv"));
  write("set/train.tsv", lines.replace(lines.find("same"), 4, "other"));
  expect_failure(run_lpmm(other), 2, {"was trained on other data"});
  // A number to tell, and the cosine of two embeddings.
  const std::vector<std::string> scores = {"train",     config,  "--init",
                                           path("run"), "--set", "data.path=" + path("scores")};
  std::vector<std::string> number = scores, cosine = scores;
  number.insert(number.end(), {"--out", path("number"), "--json"});
  cosine.insert(cosine.end(), {"--set", "data.cosine=true", "--out", path("cosine")});
  const Outcome told = run_lpmm(number);
  ASSERT_EQ(told.code, 0) << told.err;
  EXPECT_TRUE(told.json()["scores"].contains("spearman"));
  EXPECT_TRUE(told.json()["scores"].contains("pearson"));
  expect_failure(run_lpmm(cosine), 2, {"only embeds"});
  // Numbers that are none have no ranks.
  std::vector<std::string> lost = scores;
  lost.insert(lost.end(), {"--set", "optimizer.learning_rate=1e30", "--set", "memory.preset=fp32", "--out",
                           path("lost"), "--json"});
  const Outcome diverged = run_lpmm(lost);
  EXPECT_EQ(diverged.code, 1) << diverged.err;
  // Wrong ways in.
  expect_failure(run_lpmm({"train", config, "--set", "data.set=text", "--out", path("x")}), 2,
                 {"reads sentences"});
  expect_failure(run_lpmm({"train", config, "--set", "data.set=sst2", "--set", "data.test_file=test", "--out",
                           path("x")}),
                 2, {"not public"});
  expect_failure(run_lpmm({"train", config, "--out", path("x")}), 2, {"data.tokenizer"});
  expect_failure(run_lpmm({"train", config, "--init", path("run"), "--set", "data.tokenizer=nosuch/vocab.txt",
                           "--out", path("x")}),
                 1, {"nosuch/vocab.txt"});
  expect_failure(run_lpmm({"eval", path("tuned"), "--task", "sst3"}), 2, {"sst2"});
  expect_failure(run_lpmm({"sample", path("tuned")}), 2, {"reads sentences"});
}

TEST_F(Zoo, ATranslatorIsTrainedAskedAndGivenBack) {
  fs::create_directories(path("pairs"));
  std::string source, target;
  for (int i = 0; i < 48; ++i) {
    for (int k = 0; k < 2 + i % 5; ++k) {
      const char letter = static_cast<char>('a' + (i * 5 + k * 3) % 8);
      source += std::string(k > 0 ? " " : "") + letter;
      target += std::string(k > 0 ? " " : "") + static_cast<char>(letter - 'a' + 'A');
    }
    source += '\n';
    target += '\n';
  }
  write("pairs/train.en", source);
  write("pairs/train.de", target);
  write("pairs/dev.en", "a b c d e\nh g f e d c b a\n");
  write("pairs/dev.de", "A B C D E\nH G F E D C B A\n");
  const Outcome pieces = run_lpmm({"data", "tokenizer", path("pairs/train.en"), path("pairs/train.de"),
                                   "--train", "bpe", "--vocabulary", "22", "--output", path("joint.model")});
  if (pieces.err.find("built without SentencePiece") != std::string::npos) GTEST_SKIP() << pieces.err;
  ASSERT_EQ(pieces.code, 0) << pieces.err;
  const std::string config =
      write("translate.toml",
            "[model]\nname = 'transformer'\nlayers = 1\ndecoder_layers = 1\nheads = 2\n"
            "embedding = 16\nmlp_width = 24\ncontext = 64\ndropout = 0.1\n"
            "label_smoothing = 0.1\n[data]\nset = 'pairs'\nlength = 32\npath = '" +
                path("pairs") + "'\ntokenizer = '" + path("joint.model") +
                "'\n[train]\nsteps = 40\nbatch = 16\nmicrobatches = 2\ncompute = 'fp32'\n"
                "[optimizer]\nrule = 'adam'\nlearning_rate = 0.02\n[memory]\npreset = "
                "'lpmm-compact'\n");
  const Outcome trained = run_lpmm({"train", config, "--out", path("run"), "--json"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_LT(trained.json()["test_loss"].get<double>(), 2.5) << trained.out;  // log 22 = 3.1 at first
  const Outcome scored = run_lpmm({"eval", path("run"), "--json"});
  ASSERT_EQ(scored.code, 0) << scored.err;
  EXPECT_EQ(scored.json()["sentences"], 2);
  EXPECT_GE(scored.json()["bleu"].get<double>(), 0);
  EXPECT_EQ(scored.json()["bleu"], trained.json()["scores"]["bleu"]);
  EXPECT_EQ(scored.json()["test_loss"], trained.json()["test_loss"]);
  const Outcome planned = run_lpmm({"plan", config, "--json"}),
                without = run_lpmm({"plan", config, "--set", "data.bleu=false", "--json"});
  EXPECT_GT(planned.json()["translation_bytes"], 0);
  EXPECT_EQ(without.json()["translation_bytes"], 0);
  const auto peak = [](const Outcome& outcome) { return outcome.json()["peak_bytes"].get<double>(); };
  // The heap, which a plan counts too, is not the same to the last block in two processes.
  const auto translations = planned.json()["translation_bytes"].get<double>();
  EXPECT_NEAR(peak(planned) - peak(without), translations, 0.01 * translations);
  // A model may have more tokens than its tokenizer. Scores may be switched on when a run goes on.
  const Outcome padded =
      run_lpmm({"train", config, "--set", "model.vocabulary=64", "--set", "train.steps=2", "--set",
                "optimizer.learning_rate=0.001", "--out", path("padded"), "--json"});
  ASSERT_EQ(padded.code, 0) << padded.err;
  EXPECT_TRUE(padded.json()["scores"].contains("bleu")) << padded.err;
  const Outcome plain = run_lpmm({"train", config, "--set", "train.steps=2", "--set", "data.bleu=false",
                                  "--out", path("plain"), "--json"});
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_FALSE(plain.json().contains("scores"));
  EXPECT_TRUE(run_lpmm({"eval", path("plain"), "--json"}).json().contains("bleu"));
  const Outcome on = run_lpmm({"train", path("plain/config.toml"), "--set", "train.steps=3", "--set",
                               "data.bleu=true", "--out", path("plain"), "--resume", "--json"});
  ASSERT_EQ(on.code, 0) << on.err;
  EXPECT_TRUE(on.json()["scores"].contains("bleu"));
  const Outcome told = run_lpmm({"translate", path("run"), "--file", path("pairs/dev.en"), "--json"});
  ASSERT_EQ(told.code, 0) << told.err;
  ASSERT_EQ(told.json()["target"].size(), 2U);
  const Outcome one = run_lpmm({"translate", path("run"), "--text", "h g f e d c b a"});
  EXPECT_EQ(one.out, told.json()["target"][1].get<std::string>() + "\n");
  EXPECT_EQ(run_lpmm({"translate", path("run"), "--text", "a b", "--beams", "1", "--most", "4"}).code, 0);
  // There and back, with its pieces.
  ASSERT_EQ(run_lpmm({"export", path("run"), "--hf", "--out", path("hf")}).code, 0);
  EXPECT_EQ(read_file(path("hf/tokenizer.model")), read_file(path("joint.model")));
  const Outcome again =
      run_lpmm({"import", path("hf"), "--preset", "fp32", "--out", path("again"), "--json"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.json()["tokenizer"], "sentencepiece");
  EXPECT_EQ(run_lpmm({"translate", path("again"), "--text", "h g f e d c b a"}).code, 0);
  const Outcome gap = run_lpmm({"translate", path("run"), "--file", write("gap.en", "a b\n\nc\n"), "--json"});
  ASSERT_EQ(gap.code, 0) << gap.err;
  ASSERT_EQ(gap.json()["target"].size(), 3U);
  EXPECT_EQ(gap.json()["target"][1], "");
  EXPECT_EQ(run_lpmm({"translate", path("run"), "--text", ""}).out, "\n");
  // Wrong ways in.
  expect_failure(run_lpmm({"translate", path("run"), "--text", std::string(200, 'a')}), 2,
                 {"the model reads 64"});
  expect_failure(run_lpmm({"import", path("hf"), "--vocab", path("none.model"), "--out", path("x")}), 2,
                 {"--vocab", "no such file"});
  expect_failure(run_lpmm({"import", path("hf"), "--vocab", path("pairs"), "--out", path("x")}), 2,
                 {"--vocab", "no tokenizer"});
  fs::remove(path("hf/tokenizer.model"));
  expect_failure(run_lpmm({"import", path("hf"), "--out", path("x")}), 1, {"sentencepiece", "--vocab"});
  expect_failure(run_lpmm({"translate", path("run"), "--text", "a", "--file", "b"}), 2, {"one of them"});
  expect_failure(run_lpmm({"sample", path("run")}), 2, {"two languages"});
  expect_failure(run_lpmm({"train", config, "--set", "data.set=text", "--out", path("x")}), 2,
                 {"two languages"});
  expect_failure(run_lpmm({"train", config, "--set", "data.tokenizer=characters", "--out", path("x")}), 2,
                 {"data.tokenizer"});
  expect_failure(run_lpmm({"train", config, "--set", "data.length=8", "--out", path("x")}), 1,
                 {"the model reads 8"});
}

// With its own tokenizer: two SentencePiece models and a vocab.json.
TEST_F(Zoo, AMarianComesWithItsTokenizerAndGoesWithIt) {
  const std::string published = LPMM_SOURCE_DIR "/tests/golden/marian_text";
  const Outcome imported =
      run_lpmm({"import", published, "--preset", "fp32", "--out", path("run"), "--json"});
  if (imported.err.find("built without SentencePiece") != std::string::npos) GTEST_SKIP() << imported.err;
  ASSERT_EQ(imported.code, 0) << imported.err;
  EXPECT_EQ(imported.json()["tokenizer"], "marian");
  const std::vector<std::string> ask = {"translate", path("run"), "--text", ">>deu<< a man is riding"};
  const Outcome told = run_lpmm(ask);
  ASSERT_EQ(told.code, 0) << told.err;
  EXPECT_GT(told.out.size(), 1U);
  // Given back as it came, file by file.
  ASSERT_EQ(run_lpmm({"export", path("run"), "--hf", "--out", path("hf")}).code, 0);
  for (const char* name : {"source.spm", "target.spm", "vocab.json", "tokenizer_config.json"})
    EXPECT_EQ(read_file(path("hf/") + name), read_file(published + "/" + name)) << name;
  ASSERT_EQ(run_lpmm({"import", path("hf"), "--preset", "fp32", "--out", path("again")}).code, 0);
  EXPECT_EQ(run_lpmm({"translate", path("again"), "--text", ask[3]}).out, told.out);
  // Scored, and trained further, in the languages that its files name.
  fs::create_directories(path("pairs"));
  std::string source, target;
  for (int i = 0; i < 8; ++i) {
    source += "the man walks\na dog plays in the snow\n";
    target += "der Mann geht\nein Hund spielt im Schnee\n";
  }
  const auto write_pairs = [&](const std::string& name) {
    write("pairs/" + name + ".en", source);
    write("pairs/" + name + ".de", target);
  };
  write_pairs("test");
  const Outcome scored = run_lpmm({"eval", path("run"), "--data", path("pairs"), "--test", "--json"});
  ASSERT_EQ(scored.code, 0) << scored.err;
  EXPECT_EQ(scored.json()["sentences"], 16);
  write_pairs("train");
  write_pairs("dev");
  const std::string config =
      write("tune.toml",
            "[model]\nname = 'transformer'\nlayers = 1\ndecoder_layers = 1\nheads = 2\nembedding = 16\n"
            "mlp_width = 20\ncontext = 40\nswish = true\n[data]\nset = 'pairs'\npath = '" +
                path("pairs") +
                "'\n[train]\nsteps = 30\nbatch = 8\ncompute = 'fp32'\n[optimizer]\nrule = "
                "'adam'\nlearning_rate = 0.01\n[memory]\npreset = 'fp32'\n");
  const Outcome tuned = run_lpmm({"train", config, "--init", path("run"), "--out", path("tuned"), "--json"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_LT(tuned.json()["test_loss"].get<double>(), scored.json()["test_loss"].get<double>() / 2);
  ASSERT_EQ(run_lpmm({"export", path("tuned"), "--hf", "--out", path("given")}).code, 0);
  const auto given = nlohmann::json::parse(read_file(path("given/config.json")));
  EXPECT_EQ(given["decoder_start_token_id"], 211);  // as the tokenizer says
  EXPECT_EQ(given["eos_token_id"], 0);
  EXPECT_EQ(read_file(path("given/target.spm")), read_file(published + "/target.spm"));
  // An error in its files is reported, and nothing is made.
  fs::remove(path("hf/target.spm"));
  expect_failure(run_lpmm({"import", path("hf"), "--out", path("x")}), 1, {"target.spm"});
  write("hf/target.spm", read_file(published + "/target.spm"));
  write("hf/tokenizer_config.json", R"({"separate_vocabs": true})");
  expect_failure(run_lpmm({"import", path("hf"), "--out", path("x")}), 1, {"separate_vocabs"});
  EXPECT_FALSE(fs::exists(path("x")));
  // The ids of what lies beside it are those of the folder.
  expect_failure(run_lpmm({"import", published, "--vocab", published + "/target.spm", "--out", path("x")}), 1,
                 {"target.spm", "<pad>", "211"});
  // A run has its own copy of them, and needs that.
  fs::remove(path("hf/vocab.json"));
  EXPECT_EQ(run_lpmm({"translate", path("again"), "--text", "a"}).code, 0);
  fs::remove(path("again/model_files/vocab.json"));
  expect_failure(run_lpmm({"translate", path("again"), "--text", "a"}), 1, {"vocab.json"});
}

}  // namespace
}  // namespace lpmm
