// The classes that a model was trained on, and those that data has: what does not match is refused or drawn
// anew.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lpmm/files/safetensors.h"
#include "tests/experiments/program.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;

class Classes : public ProgramTest {
 protected:
  // Sentences, or pairs, of two labels.
  std::string sentences(const std::string& name, const std::string& first, const std::string& second) const {
    fs::create_directories(path(name));
    std::string lines = "sentence\tlabel\n";
    for (int i = 0; i < 8; ++i) lines += fmt::format("a b {}\t{}\n", i, i % 2 == 0 ? first : second);
    write(name + "/train.tsv", lines);
    write(name + "/dev.tsv", lines);
    return path(name);
  }
  // A small model of sentences, trained on cats and dogs.
  void train_on_animals() const {
    const Outcome in =
        run_lpmm({"import", LPMM_SOURCE_DIR "/tests/golden/roberta_tiny", "--out", path("published")});
    ASSERT_EQ(in.code, 0) << in.err;
    write("tune.toml", fmt::format(R"({}[data]
set = "sentences"
path = "{}"
[train]
steps = 2
batch = 4
compute = "fp32"
init = "{}"
[optimizer]
learning_rate = 0.1
)",
                                   kTinyRobertaModel, sentences("animals", "cat", "dog"), path("published")));
    const Outcome out = run_lpmm({"train", path("tune.toml"), "--out", path("animal_run")});
    ASSERT_EQ(out.code, 0) << out.err;
  }
  // Pictures in a file, of classes with these names.
  std::string images(const std::string& name, const std::vector<std::string>& classes) const {
    for (const char* split : {"train", "test"}) {
      for (const std::string& of : classes) {
        const fs::path folder = fs::path(path(name)) / split / of;
        fs::create_directories(folder);
        fs::copy(LPMM_SOURCE_DIR "/tests/golden/pictures/stripes.png", folder / "1.png");
      }
    }
    const std::string file = path(name + ".images");
    const Outcome packed = run_lpmm({"data", "pack-images", path(name), file, "--size", "8"});
    EXPECT_EQ(packed.code, 0) << packed.err;
    return file;
  }
  Outcome train(const std::string& data, const std::string& out, const std::string& init) const {
    return run_lpmm(
        {"train", path("tune.toml"), "--set", "data.path=" + data, "--init", path(init), "--out", path(out)});
  }
};

TEST_F(Classes, OfSentencesAreComparedByName) {
  train_on_animals();
  EXPECT_EQ(run_lpmm({"eval", path("animal_run")}).code, 0);
  const auto eval = [&](const std::string& data) {
    return run_lpmm({"eval", path("animal_run"), "--task", "sentences", "--data", data});
  };
  EXPECT_EQ(eval(sentences("others", "dog", "cat")).code, 0);
  const std::string colours = sentences("colours", "red", "blue");
  expect_failure(eval(colours), 2,
                 {"the model tells 2 classes (cat, dog), " + colours + " has 2 classes (blue, red)"});
  std::string lines = "sentence\tlabel\na\tcat\nb\tdog\nc\towl\n";
  fs::create_directories(path("three"));
  write("three/train.tsv", lines);
  write("three/dev.tsv", lines);
  expect_failure(eval(path("three")), 2, {"2 classes (cat, dog)", "has 3 classes (cat, dog, owl)"});
  lines = "sentence\tscore\na\t1\nb\t2\n";
  write("three/train.tsv", lines);
  write("three/dev.tsv", lines);
  expect_failure(eval(path("three")), 2, {"2 classes (cat, dog)", "has a number"});
  // Numbers as names are others than those a run was trained on.
  expect_failure(eval(sentences("numbers", "0", "1")), 2, {"2 classes (0, 1)"});
}

TEST_F(Classes, AHeadForOthersIsDrawnAnew) {
  train_on_animals();
  const Outcome same = train(sentences("more", "dog", "cat"), "same", "animal_run");
  ASSERT_EQ(same.code, 0) << same.err;
  EXPECT_EQ(same.err.find("drawn anew"), std::string::npos) << same.err;
  const Outcome other = train(sentences("colours", "red", "blue"), "other", "animal_run");
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_NE(other.err.find("the model tells 2 classes (cat, dog), " + path("colours") +
                           " has 2 classes (blue, red); drawn anew: classifier."),
            std::string::npos)
      << other.err;
  // Nothing is left of the old head: the run is the one that starts from a model without any.
  const auto head = [&](const std::string& run) {
    const Outcome out = run_lpmm({"export", path(run), "--out", path(run + ".safetensors")});
    EXPECT_EQ(out.code, 0) << out.err;
    const SafetensorsFile file(path(run + ".safetensors"));
    const SafetensorsEntry& entry = *file.find("classifier.out_proj.weight");
    std::vector<float> values(entry.bytes / sizeof(float));
    file.read(entry, 0, std::as_writable_bytes(std::span(values)));
    return values;
  };
  EXPECT_NE(head("other"), head("same"));
}

// Data that numbers the classes of a published model leaves it their names, says so, and is gone on with.
TEST_F(Classes, ThatDataNumbersKeepTheirNames) {
  const std::string from = LPMM_SOURCE_DIR "/tests/golden/roberta_tiny";
  fs::copy(from, path("pub"), fs::copy_options::recursive);
  nlohmann::json config = nlohmann::json::parse(read_file(from + "/config.json"));
  config["id2label"] = {{"0", "zeta"}, {"1", "alpha"}, {"2", "mid"}};
  config["label2id"] = {{"zeta", 0}, {"alpha", 1}, {"mid", 2}};
  write("pub/config.json", config.dump());
  ASSERT_EQ(run_lpmm({"import", path("pub"), "--out", path("published")}).code, 0);
  std::string lines = "text,label\n";
  for (int i = 0; i < 24; ++i) lines += fmt::format("a b {},{}\n", i, i % 3);
  const std::string data = write("numbers.csv", lines);
  const std::string said = data + ": its labels are numbers of the model's classes: 0 is zeta, 2 is mid\n";
  const auto expect_said = [&](const Outcome& out) {
    EXPECT_EQ(out.code, 0) << out.err;
    EXPECT_NE(out.err.find(said), std::string::npos) << out.err;
    EXPECT_EQ(out.err.find("drawn anew"), std::string::npos) << out.err;
  };
  const auto train = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "--set", "data.path=" + data, "--set", "data.length=24"});
    return run_lpmm(more);
  };
  expect_said(run_lpmm({"eval", path("published"), "--data", data}));
  expect_said(train({"--init", path("published"), "--set", "train.epochs=1", "--out", path("run")}));
  expect_said(run_lpmm({"eval", path("run")}));
  expect_said(
      train({"--init", path("published"), "--set", "train.epochs=2", "--resume", "--out", path("run")}));
  expect_said(train({"--init", path("run"), "--set", "train.epochs=1", "--out", path("again")}));
  ASSERT_EQ(run_lpmm({"export", path("again"), "--hf", "--out", path("hf")}).code, 0);
  EXPECT_EQ(nlohmann::json::parse(read_file(path("hf/config.json")))["id2label"], config["id2label"]);
}

// A file whose labels are called otherwise is not gone on with.
TEST_F(Classes, ARunGoesOnWithItsOwnOnly) {
  train_on_animals();
  sentences("animals", "red", "tan");  // in the same order
  const Outcome out = run_lpmm(
      {"train", path("tune.toml"), "--set", "train.steps=4", "--resume", "--out", path("animal_run")});
  expect_failure(out, 2, {"2 classes (cat, dog)", "2 classes (red, tan)"});
}

TEST_F(Classes, OfImageFilesAreKeptAndCompared) {
  const std::string animals = images("animals", {"cat", "dog"}), colours = images("colours", {"blue", "red"});
  write("tune.toml",
        "[model]\nname = 'mlp'\nhidden = [4]\n[data]\nset = 'images'\npath = '" + animals +
            "'\naugment = false\n[train]\nsteps = 2\nbatch = 2\n[optimizer]\nlearning_rate = 0.01\n");
  ASSERT_EQ(run_lpmm({"train", path("tune.toml"), "--out", path("run")}).code, 0);
  EXPECT_EQ(run_lpmm({"eval", path("run"), "--data", animals}).code, 0);
  expect_failure(run_lpmm({"eval", path("run"), "--data", colours}), 2,
                 {"the model tells 2 classes (cat, dog)", "has 2 classes (blue, red)"});
  expect_failure(run_lpmm({"eval", path("run"), "--data", "drawn"}), 2, {"(cat, dog), drawn has 10 classes"});
  const Outcome other = train(colours, "other", "run");
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_NE(other.err.find("drawn anew: head.weight, head.bias"), std::string::npos) << other.err;
  // Among many classes, the first that differs is named.
  std::vector<std::string> many, one_other;
  for (int i = 10; i < 30; ++i) many.push_back(fmt::format("c{}", i));
  one_other = many;
  one_other[14] = "c24b";
  ASSERT_EQ(train(images("many", many), "many_run", "run").code, 0);
  expect_failure(
      run_lpmm({"eval", path("many_run"), "--data", images("one_other", one_other)}), 2,
      {"20 classes (c10, c11, c12, c13, c14, c15, c16, c17, ...)", "class 14 is c24 there, c24b here"});
}

}  // namespace
}  // namespace lpmm
