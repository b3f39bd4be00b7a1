// A newcomer's way: a published model, a file of their own, and no configuration.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lpmm/memory/optimizer_config.h"
#include "lpmm/run/config.h"
#include "models/families.h"
#include "tests/experiments/program.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;

constexpr const char* kGolden = LPMM_SOURCE_DIR "/tests/golden/";

class OwnData : public ProgramTest {
 protected:
  Outcome lpmm(const std::vector<std::string>& arguments) const {
    return run_lpmm(arguments, {.folder = path("")});
  }
  void expect_said(const Outcome& outcome, const char* part) const {
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  }
  std::string config_of(const std::string& run) const { return read_file(path(run + "/config.toml")); }
};

TEST_F(OwnData, ATableTrainsAnImportedModelInThreeCommands) {
  std::string lines = "id,text,mood,\n";
  for (int i = 0; i < 40; ++i)
    lines += fmt::format("{},\"a {}, at last\",{},\n", i, i % 2 ? "cat" : "dog", i % 2 ? "up" : "down");
  write("mine.csv", lines);
  ASSERT_EQ(lpmm({"import", kGolden + std::string("roberta_tiny"), "--out", "base"}).code, 0);
  const std::vector<std::string> train = {
      "train", "--init",         "base",  "--set", "data.path=mine.csv", "--set", "data.columns=text,mood",
      "--set", "train.epochs=1", "--out", "mine"};
  const Outcome plan =
      lpmm({"plan", "--init", "base", "--set", "data.path=mine.csv", "--set", "data.columns=text,mood"});
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_NE(plan.out.find("lpmm-compact"), std::string::npos) << plan.out;
  const Outcome trained = lpmm(train);
  expect_said(trained, "no CONFIG: the recipe tune_sentences");
  expect_said(trained, "mine.csv: reads text, tells mood; not used: id, a column without a name");
  expect_said(trained, "4 of 40 rows, drawn, are kept for tests");
  for (const char* line : {"rule = \"adamw\"", "decay_vectors = false", "kind = \"linear\"", "dropout = 0.1",
                           "layers = 2", "length = 24", "columns = \"text,mood\""}) {
    EXPECT_NE(config_of("mine").find(line), std::string::npos) << line;
  }
  write("asked.txt", "a cat\na dog\n");
  const Outcome told = lpmm({"classify", "mine", "--file", "asked.txt", "--json"});
  ASSERT_EQ(told.code, 0) << told.err;
  EXPECT_EQ(told.json()["labels"], nlohmann::json({"down", "up"}));
  // The test data may be a file of their own, which need not have every label.
  write("more.jsonl", "{\"text\": \"a cat\", \"mood\": \"up\"}\n");
  const Outcome scored = lpmm({"eval", "mine", "--data", "more.jsonl", "--json"});
  ASSERT_EQ(scored.code, 0) << scored.err;
  EXPECT_EQ(scored.json()["sentences"], 1);
  // Its columns may have other names, and rows that cannot be read are left out where that is asked for.
  write("named.csv", "body,kind\na cat,up\n");
  expect_failure(lpmm({"eval", "mine", "--data", "named.csv"}), 1,
                 {"named.csv: has no column", "(of `lpmm eval`: --columns)"});
  const Outcome named = lpmm({"eval", "mine", "--data", "named.csv", "--columns", "body,kind", "--json"});
  ASSERT_EQ(named.code, 0) << named.err;
  EXPECT_EQ(named.json()["test_loss"], scored.json()["test_loss"]);
  ProgramTest::train("drawn");
  expect_failure(lpmm({"eval", "drawn", "--columns", "body,kind"}), 2,
                 {"--columns is for tables, and data.set = drawn is none"});
  write("rare.csv", "text,mood\na cat,up\na dog,flat\n");
  expect_failure(lpmm({"eval", "mine", "--data", "rare.csv"}), 1,
                 {"line 3 has the label \"flat\"", "--skip-broken"});
  const Outcome rare = lpmm({"eval", "mine", "--data", "rare.csv", "--skip-broken", "--json"});
  expect_said(rare, "1 of 2 cannot be read and are left out");
  EXPECT_EQ(rare.json()["test_loss"], scored.json()["test_loss"]);
  // As another set, it has all of its rows tested, and those are of the classes that the run has.
  const Outcome other = lpmm({"eval", "mine", "--task", "sentences", "--data", "more.jsonl", "--json"});
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_EQ(other.json()["test_loss"], scored.json()["test_loss"]);
  EXPECT_TRUE(other.json().contains("f1")) << "two classes, of which one is there";
  write("less.jsonl", "{\"text\": \"a cat\", \"mood\": \"flat\"}\n");
  expect_failure(lpmm({"eval", "mine", "--task", "sentences", "--data", "less.jsonl"}), 2,
                 {"the model tells 2 classes (down, up)", "has 1 class (flat)"});
  // The run goes on without a configuration too, and without the model that it started from, and says what
  // more steps do to its schedule.
  fs::remove_all(path("base"));
  const Outcome longer =
      lpmm({"train", "--init", "base", "--resume", "--set", "train.epochs=2", "--out", "mine"});
  expect_said(longer, "train.epochs was 1 and is 2: the schedule is stretched");
  EXPECT_EQ(longer.err.find("stretched"), longer.err.rfind("stretched")) << longer.err;
  expect_failure(lpmm({"train", "--resume", "--set", "train.batch=8", "--out", "mine"}), 2,
                 {"train.batch is 16 there and 8 here", "--init mine with another --out"});
}

TEST_F(OwnData, RecipesForTrainedWeightsDecayNoVectors) {
  int found = 0;
  for (const auto& item : fs::directory_iterator(LPMM_SOURCE_DIR "/experiments/configs")) {
    const std::string name = item.path().stem(), text = read_file(item.path());
    if (text.find("--init ") == std::string::npos) continue;
    ++found;
    const std::string model = name == "tune_images"      ? "vit"
                              : name == "tune_pairs"     ? "transformer"
                              : name == "tune_sentences" ? "bert"
                                                         : "gpt";
    ConfigOptions options;
    if (text.find("[model]") == std::string::npos) options.settings = {"model.name=" + model};
    const OptimizerConfig optimizer = load_config(item.path(), with_families(options)).optimizer;
    for (const char* tensor : {"model.norm.weight", "distilbert.layer.0.sa_layer_norm.weight", "head.bias"})
      EXPECT_EQ(group_of(optimizer, {.name = tensor, .shape = {8}}).weight_decay, 0) << name << tensor;
  }
  EXPECT_GE(found, 8);
}

TEST_F(OwnData, ATextTrainsAnImportedModel) {
  write("mine.txt", std::string(600, 'a') + std::string(600, 'b'));
  write("words.txt", "");
  ASSERT_EQ(lpmm({"import", kGolden + std::string("llama_tiny"), "--out", "base"}).code, 0);
  const std::vector<std::string> train = {"train",
                                          "--init",
                                          "base",
                                          "--set",
                                          "data.path=mine.txt",
                                          "--set",
                                          "train.steps=2",
                                          "--set",
                                          "data.tokenizer=characters",
                                          "--out",
                                          "mine"};
  const Outcome trained = lpmm(train);
  expect_said(trained, "no CONFIG: the recipe tune_text for text");
  EXPECT_NE(config_of("mine").find("blocks = true"), std::string::npos);
  // A configuration of another Llama has the sizes of the one it starts from.
  write("other.toml",
        "[model]\nname = \"smollm2-135m\"\n[data]\nset = \"text\"\ntokenizer = \"characters\"\nlength = 16\n"
        "path = \"mine.txt\"\nvalidation_share = 0\n[train]\nsteps = 1\nbatch = 2\n");
  const Outcome other = lpmm({"train", "other.toml", "--init", "base", "--out", "other"});
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_NE(other.out.find("validation loss -"), std::string::npos) << other.out;
  EXPECT_NE(config_of("other").find("layers = 2"), std::string::npos) << config_of("other");
  expect_failure(lpmm({"eval", "other"}), 2, {"has nothing to test on (data.validation_share)"});
}

TEST_F(OwnData, ConversationsTuneAModel) {
  std::string lines;
  for (int i = 0; i < 90; ++i) {
    lines += fmt::format("{{\"text\": \"{} said the {}\"}}\n", i,
                         std::string(5 + static_cast<std::size_t>(i) % 9, 'a'));
  }
  write("my.jsonl", lines);
  write("base.toml",
        "[model]\nname = \"gpt\"\nlayers = 1\nheads = 2\nembedding = 16\ncontext = 64\n[data]\nset = "
        "\"conversations\"\npath = \"my.jsonl\"\n[train]\nsteps = 1\nbatch = 2\n");
  ASSERT_EQ(lpmm({"train", "base.toml", "--out", "base"}).code, 0);
  const std::vector<std::string> start = {"--init", "base",         "--set", "data.path=my.jsonl",
                                          "--set",  "train.steps=2"};
  const auto with = [&](std::vector<std::string> command) {
    command.insert(command.end(), start.begin(), start.end());
    return command;
  };
  const Outcome plan = lpmm(with({"plan"}));
  EXPECT_NE(plan.out.find("tokens are learnt"), std::string::npos) << plan.out << plan.err;
  const Outcome trained = lpmm(with({"train", "--out", "mine"}));
  expect_said(trained, "no CONFIG: the recipe chat_tune for text");
  expect_said(trained, "81 documents to train on");
  EXPECT_NE(config_of("mine").find("set = \"conversations\""), std::string::npos);
  const Outcome eval = lpmm({"eval", "mine", "--data", "my.jsonl"});
  EXPECT_NE(eval.out.find("perplexity"), std::string::npos) << eval.err;
  EXPECT_EQ(lpmm({"sample", "mine", "--prompt", "a", "--tokens", "3"}).code, 0);
  expect_failure(
      lpmm(with({"train", "--set", "data.set=text", "--set", "data.too_long=drop", "--out", "other"})), 2,
      {"data.too_long is for data.set = conversations"});
}

// A table has columns: none of its commas and names of columns are learnt, as those of a text would be.
TEST_F(OwnData, ATableOfALanguageModelHoldsConversations) {
  std::string lines = ",prompt,completion\n";
  for (int i = 0; i < 90; ++i) lines += fmt::format("{},ask {},\"said, {}\"\n", i, i, i);
  write("my.csv", lines);
  write("MY.CSV", lines);
  write("mine.txt", std::string(900, 'a'));
  write(
      "base.toml",
      "[model]\nname = \"gpt\"\nlayers = 1\nheads = 2\nembedding = 16\ncontext = 64\n[data]\nset = \"text\"\n"
      "path = \"mine.txt\"\ntokenizer = \"bytes\"\n[train]\nsteps = 1\nbatch = 2\n");
  ASSERT_EQ(lpmm({"train", "base.toml", "--out", "base"}).code, 0);
  const auto train = [&](const std::string& setting, const std::string& out) {
    return lpmm({"train", "--init", "base", "--set", setting, "--set", "train.steps=1", "--out", out});
  };
  const Outcome trained = train("data.path=my.csv", "mine");
  expect_said(trained, "no CONFIG: the recipe chat_tune for text");
  expect_said(trained, "81 documents to train on");
  expect_said(trained, "columns that are not read: a column without a name");
  expect_failure(train("data.path=MY.CSV", "other"), 1, {"MY.CSV: the name of a file of conversations ends"});
  expect_failure(
      train("data.set=sentences", "other"), 2,
      {"take another data.set (text, conversations, preferences), or a model that reads sentences: "
       "llama-sentences, bert"});
}

TEST_F(OwnData, PairsOfAnswersAreTrainedOnByTheirOwnRecipe) {
  std::string lines;
  for (int i = 0; i < 60; ++i) {
    lines += fmt::format("{{\"prompt\": \"{}? \", \"chosen\": \"aei\", \"rejected\": \"kmn\"}}\n", i);
  }
  write("pairs.jsonl", lines);
  write("base.toml",
        "[model]\nname = \"gpt\"\nlayers = 1\nheads = 2\nembedding = 16\ncontext = 64\n[data]\nset = "
        "\"text\"\npath = \"pairs.jsonl\"\ntokenizer = \"bytes\"\n[train]\nsteps = 1\nbatch = 2\n");
  ASSERT_EQ(lpmm({"train", "base.toml", "--out", "base"}).code, 0);
  const std::vector<std::string> start = {
      "--init", "base",          "--set", "data.set=preferences", "--set", "data.path=pairs.jsonl",
      "--set",  "train.steps=3", "--set", "train.batch=4",        "--set", "train.microbatches=2"};
  const auto with = [&](std::vector<std::string> command) {
    command.insert(command.end(), start.begin(), start.end());
    return command;
  };
  const Outcome plan = lpmm(with({"plan"}));
  EXPECT_NE(plan.out.find("tokens are learnt"), std::string::npos) << plan.out << plan.err;
  const Outcome trained = lpmm(with({"train", "--out", "mine"}));
  expect_said(trained, "no CONFIG: the recipe dpo_tune for text");
  expect_said(trained, "54 pairs of answers to train on");
  EXPECT_NE(trained.out.find("margin"), std::string::npos) << trained.out;
  EXPECT_TRUE(fs::exists(path("mine/reference.safetensors")));
  const Outcome eval = lpmm({"eval", "mine", "--json"});
  for (const char* key : {"\"pairs\": 6", "\"accuracy\"", "\"margin\"", "\"loss\""}) {
    EXPECT_NE(eval.out.find(key), std::string::npos) << eval.out << eval.err;
  }
  EXPECT_EQ(eval.out.find("perplexity"), std::string::npos) << eval.out;
  const Outcome shown = lpmm({"data", "show", "pairs.jsonl"});
  EXPECT_NE(shown.out.find("60 pairs of answers"), std::string::npos) << shown.out << shown.err;
  EXPECT_NE(shown.out.find("chosen, 6 tokens"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("0? [[kmn]]"), std::string::npos) << shown.out;
  const Outcome piped =
      run_lpmm({"data", "show", "-"},
               {.folder = path(""), .launcher = {"sh", "-c", "head -n 2 pairs.jsonl | \"$@\"", "sh"}});
  EXPECT_NE(piped.out.find("2 rows: 2 pairs of answers"), std::string::npos) << piped.out << piped.err;
  expect_failure(lpmm({"data", "show", "pairs.jsonl", "--set", "conversations"}), 1,
                 {"line 1", "data.set = \"preferences\" reads pairs of answers"});
  fs::remove(path("mine/reference.safetensors"));
  std::vector<std::string> longer = with({"train", "--out", "mine", "--resume"});
  longer.insert(longer.end(), {"--set", "train.steps=4"});
  expect_failure(lpmm(longer), 1, {"reference.safetensors", "is not there", "--init"});
}

// Its tokenizer puts no tokens around a sentence, as those of Llamas do not.
TEST_F(OwnData, AnEmptyLineKeepsItsPlaceAmongTheAnswers) {
  nlohmann::json tokenizer =
      nlohmann::json::parse(read_file(kGolden + std::string("roberta_tiny/tokenizer.json")));
  tokenizer["post_processor"] = nullptr;
  write("tokenizer.json", tokenizer.dump());
  std::string lines = "text,label\n";
  for (int i = 0; i < 20; ++i) lines += fmt::format("cat {},{}\n", i, i % 2 ? "up" : "down");
  write("mine.csv", lines);
  write(
      "judge.toml",
      "[model]\nname = \"llama-sentences\"\nlayers = 1\nheads = 2\nkv_heads = 1\nembedding = 16\nmlp_width = "
      "16\ncontext = 32\nvocabulary = 280\n[data]\nset = \"sentences\"\npath = \"mine.csv\"\ntokenizer = "
      "\"tokenizer.json\"\n[train]\nsteps = 1\nbatch = 2\n");
  const Outcome trained = lpmm({"train", "judge.toml", "--out", "judge"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  write("asked.txt", "a cat\n\na dog\n");
  const Outcome told = lpmm({"classify", "judge", "--file", "asked.txt"});
  ASSERT_EQ(told.code, 0) << told.err;
  EXPECT_EQ(std::ranges::count(told.out, '\n'), 3);
  EXPECT_NE(told.out.find("\n-\n"), std::string::npos) << told.out;
  write("asked.txt", "\n");
  EXPECT_EQ(lpmm({"classify", "judge", "--file", "asked.txt", "--json"}).json()["answers"],
            nlohmann::json::array({nullptr}));
  // Where words have labels, it is a sentence of none.
  ASSERT_EQ(lpmm({"import", kGolden + std::string("roberta_tiny"), "--out", "base"}).code, 0);
  write("words.jsonl",
        "{\"tokens\": [\"a\"], \"tags\": [\"x\"]}\n{\"tokens\": [\"b\"], \"tags\": [\"y\"]}\n");
  const Outcome words = lpmm({"train", "--init", "base", "--set", "data.path=words.jsonl", "--set",
                              "data.test_path=words.jsonl", "--set", "train.batch=1", "--out", "words"});
  ASSERT_EQ(words.code, 0) << words.err;
  write("asked.txt", "a b\n\nb\n");
  const Outcome labels = lpmm({"classify", "words", "--file", "asked.txt"});
  EXPECT_EQ(std::ranges::count(labels.out, '\n'), 6) << labels.out << labels.err;
}

// A run keeps the tokenizer that its configuration names, with the files beside it.
TEST_F(OwnData, ARunIsUsedFromAnyFolder) {
  fs::create_directories(path("d"));
  fs::create_directories(path("elsewhere"));
  write("d/mine.txt", "[UNK]\n[PAD]\n[CLS]\n[SEP]\n[MASK]\nA\na\ncat\ndog\n");
  write("d/tokenizer_config.json", R"({"do_lower_case": false})");
  write("d/mine.csv", "text,label\nA cat,up\na dog,down\nA dog,up\na cat,down\nA cat dog,up\na a,down\n");
  const std::vector<std::string> from = {
      "train", "tune_sentences",       "--set", "model.name=bert",
      "--set", "model.layers=1",       "--set", "model.heads=2",
      "--set", "model.embedding=16",   "--set", "model.context=16",
      "--set", "data.path=d/mine.csv", "--set", "data.tokenizer=d/mine.txt",
      "--set", "train.batch=2",        "--out", "mine"};
  const Outcome trained = lpmm(from);
  ASSERT_EQ(trained.code, 0) << trained.err;
  write("asked.txt", "A cat\na dog\n");
  const std::vector<std::string> classify = {"classify", path("mine"), "--file", path("asked.txt"), "--json"};
  const Outcome here = lpmm(classify);
  ASSERT_EQ(here.code, 0) << here.err;
  const auto there = [&](const std::vector<std::string>& arguments) {
    return run_lpmm(arguments, {.folder = path("elsewhere")});
  };
  EXPECT_EQ(there(classify).out, here.out);
  expect_failure(
      there({"eval", path("mine")}), 1,
      {"d/mine.csv", "in the current folder and in LPMM_DATA", "where the training ran", "--data"});
  const Outcome named = there({"eval", path("mine"), "--data", path("d/mine.csv")});
  EXPECT_EQ(named.code, 0) << named.err;
  const Outcome exported = there({"export", path("mine"), "--hf", "--out", "hf"});
  ASSERT_EQ(exported.code, 0) << exported.err;
  EXPECT_EQ(read_file(path("elsewhere/hf/vocab.txt")), read_file(path("d/mine.txt")));
  EXPECT_EQ(read_file(path("elsewhere/hf/tokenizer_config.json")),
            read_file(path("d/tokenizer_config.json")));
  // What starts from it keeps the tokenizer too.
  const Outcome next = there({"train", "--init", path("mine"), "--set", "data.path=" + path("d/mine.csv"),
                              "--set", "train.batch=2", "--set", "train.steps=1", "--out", "next"});
  ASSERT_EQ(next.code, 0) << next.err;
  fs::remove_all(path("mine"));
  EXPECT_EQ(there({"classify", "next", "--file", path("asked.txt"), "--json"}).code, 0);
  // Another tokenizer that a user names is not passed over.
  write("elsewhere/model_files/other.txt", "[UNK]\n[PAD]\n[CLS]\n[SEP]\n[MASK]\nA\na\ncat\nbird\n");
  expect_failure(there({"train", "--init", "next", "--set", "data.path=" + path("d/mine.csv"), "--set",
                        "data.tokenizer=model_files/other.txt", "--out", "x"}),
                 1, {"other.txt", "is another tokenizer"});
}

TEST_F(OwnData, WhatIsLeftOpenIsAskedFor) {
  ASSERT_EQ(lpmm({"import", kGolden + std::string("roberta_tiny"), "--out", "base"}).code, 0);
  expect_failure(lpmm({"train", "--init", "base", "--out", "mine"}), 2,
                 {"say what to train on: --set data.path=PATH", "reads sentences"});
  expect_failure(lpmm({"train", "--out", "mine"}), 2, {"name a CONFIG", "--init"});
  expect_failure(lpmm({"train", "--init", "nowhere", "--set", "data.path=x.csv", "--out", "mine"}), 2,
                 {"nowhere"});
  fs::remove(path("base/config.toml"));
  expect_failure(lpmm({"train", "--init", "base", "--set", "data.path=x.csv", "--out", "mine"}), 2,
                 {"has no config.toml beside its checkpoints", "name a CONFIG"});
  const Outcome alone = lpmm({"sample", "base", "--prompt", "a"});
  expect_failure(alone, 2,
                 {"has no config.toml of its run", "copy that whole, with config.toml and model_files"});
  EXPECT_EQ(alone.err.find("--config"), std::string::npos) << alone.err;
}

TEST_F(OwnData, WhatIsNamedInAWrongPlaceIsToldTheRightOne) {
  const std::string published = kGolden + std::string("roberta_tiny");
  write("mine.csv", "text,label\na cat,x\na dog,y\n");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"train", "--init", published, "--set", "data.path=mine.csv", "--out", "x"},
        {"eval", published},
        {"classify", published, "--file", "mine.csv"},
        {"sample", kGolden + std::string("gpt2_tiny.safetensors"), "--prompt", "a"}}) {
    expect_failure(lpmm(command), 2, {"is a published model, no run", "lpmm import /", "--out RUN"});
  }
  write("story.TXT", "a cat");
  for (const char* data : {"mine.csv", "story.TXT", "."}) {
    expect_failure(lpmm({"train", data, "--out", "x"}), 2,
                   {", no configuration", std::string("lpmm train --init RUN --set data.path=") + data});
  }
  for (const char* recipe : {"tune_text", "tune_sentences", "chat_tune"}) {
    expect_failure(lpmm({"train", recipe, "--set", "data.path=mine.csv", "--out", "x"}), 2,
                   {recipe, "names no model", "add --init RUN"});
  }
  write(
      "other.toml",
      "[model]\nname = \"gpt\"\nlayers = 1\nheads = 2\nembedding = 16\ncontext = 16\n[data]\nset = \"text\"\n"
      "path = \"text.txt\"\ntokenizer = \"characters\"\n[train]\nsteps = 1\nbatch = 2\n");
  write("text.txt", std::string(600, 'a') + std::string(600, 'b'));
  ASSERT_EQ(lpmm({"import", kGolden + std::string("llama_tiny"), "--out", "base"}).code, 0);
  expect_failure(lpmm({"train", "other.toml", "--init", "base", "--out", "x"}), 1,
                 {"of the family llama, the configuration one of gpt", "--init RUN without a CONFIG"});
  expect_failure(lpmm({"import", "gpt2", "--out", "x"}), 1, {"hf download gpt2 --local-dir FOLDER"});
}

TEST_F(OwnData, FewExamplesGetABatchThatFits) {
  ASSERT_EQ(lpmm({"import", kGolden + std::string("roberta_tiny"), "--out", "base"}).code, 0);
  std::string lines = "text,label\n";
  for (int i = 0; i < 12; ++i) lines += fmt::format("cat {},{}\n", i, i % 2 ? "up" : "down");
  write("few.csv", lines);
  write("one.csv", "text,score\na cat,1.5\n");
  write("same.csv", "text,label\na cat,up\na dog,up\n");
  const auto train = [&](std::vector<std::string> settings) {
    std::vector<std::string> command = {"train",          "--init", "base", "--set",
                                        "train.epochs=1", "--out",  "mine"};
    for (const std::string& setting : settings) command.insert(command.end(), {"--set", setting});
    return lpmm(command);
  };
  expect_failure(train({"data.path=few.csv", "train.batch=32"}), 2, {"train.batch = 32", "train.batch=4"});
  expect_failure(train({"data.path=few.csv", "data.validation_share=1"}), 2, {"data.validation_share=0.1"});
  expect_failure(train({"data.path=one.csv"}), 2,
                 {"nothing is left to train on", "or other data to test on"});
  expect_failure(train({"data.path=same.csv", "data.test_path=same.csv", "data.validation_share=1"}), 1,
                 {"its lines have one label, there must be two"});
  expect_said(train({"data.path=few.csv"}), "the recipe takes train.batch = 4 for 11 training examples");
  EXPECT_NE(config_of("mine").find("batch = 4\n"), std::string::npos);
}

TEST_F(OwnData, WordsFindWhatTheyAreAbout) {
  const auto expect_found = [&](const std::vector<std::string>& words,
                                const std::vector<std::string>& parts) {
    std::vector<std::string> command = {"help"};
    command.insert(command.end(), words.begin(), words.end());
    const Outcome found = lpmm(command);
    EXPECT_EQ(found.code, 0) << found.err;
    for (const std::string& part : parts) {
      EXPECT_NE(found.out.find(part), std::string::npos) << part << " in\n" << found.out;
    }
  };
  expect_found({"resume"}, {"lpmm train --resume"});
  expect_found({"CSV"}, {"data.path", "tune_sentences"});
  expect_found({"finetune"}, {"lpmm train --init"});
  expect_found({"lr"}, {"optimizer.learning_rate"});
  expect_found({"early", "stopping"}, {"train.patience"});
  expect_found({"parquet"}, {"data.path"});
  expect_found({"xlsx"}, {"data.path"});
  expect_found({"own text"}, {"tune_text"});
  expect_found({"weight", "decay"}, {"optimizer.decay_vectors"});
  expect_found({"train"}, {"Usage"});  // a command's own help
  expect_failure(lpmm({"help", "xyzzy"}), 2, {"nothing has xyzzy in it"});
}

}  // namespace
}  // namespace lpmm
