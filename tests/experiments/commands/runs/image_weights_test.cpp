// Published weights of models that read images, as a user takes them in and gives them out.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "lpmm/files/safetensors.h"
#include "tests/experiments/program.h"

namespace lpmm {
namespace {

class ImageWeights : public ProgramTest {};

std::set<std::string> names_of(const std::string& path) {
  std::set<std::string> names;
  const SafetensorsFile file(path);
  for (const SafetensorsEntry& entry : file.entries()) names.insert(entry.name);
  return names;
}

TEST_F(ImageWeights, GoInAndOut) {
  for (const std::string model : {"resnet_basic", "vit_tiny"}) {
    const std::string given = LPMM_SOURCE_DIR "/tests/golden/" + model + ".safetensors";
    const Outcome in = run_lpmm({"import", given, "--out", path(model), "--preset", "fp32", "--json"});
    ASSERT_EQ(in.code, 0) << in.err;
    EXPECT_TRUE(in.json()["tokenizer"].is_null());
    const Outcome out = run_lpmm({"export", path(model), "--hf", "--out", path(model + "_out"), "--json"});
    ASSERT_EQ(out.code, 0) << out.err;
    EXPECT_EQ(names_of(path(model + "_out/model.safetensors")), names_of(given));
    EXPECT_EQ(nlohmann::json::parse(read_file(path(model + "_out/config.json")))["num_classes"], 5);
    expect_failure(run_lpmm({"eval", path(model)}), 2, {"data.set = images needs data.path"});
  }
}

TEST_F(ImageWeights, HeadsThatNoFileSaysAreToldAndGiven) {
  const std::string given = LPMM_SOURCE_DIR "/tests/golden/vit_tiny.safetensors";
  const Outcome assumed = run_lpmm({"import", given, "--out", path("one"), "--json"});
  ASSERT_EQ(assumed.code, 0) << assumed.err;
  EXPECT_NE(assumed.err.find("1 of 8 channels are assumed"), std::string::npos) << assumed.err;
  EXPECT_EQ(assumed.json()["heads"], 1);
  const Outcome said = run_lpmm({"import", given, "--set", "model.heads=2", "--out", path("two"), "--json"});
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(said.err.find("assumed"), std::string::npos) << said.err;
  EXPECT_EQ(said.json()["heads"], 2);
  expect_failure(run_lpmm({"import", given, "--set", "train.steps=2", "--out", path("x")}), 2,
                 {"train.steps=2"});
  expect_failure(run_lpmm({"import", given, "--set", "model.heads=3", "--out", path("x")}), 1, {"heads"});
}

// Imported weights on pictures of five classes; on ten classes they are refused by name.
TEST_F(ImageWeights, AreTrainedFurther) {
  const std::string golden = LPMM_SOURCE_DIR "/tests/golden/";
  ASSERT_EQ(run_lpmm({"import", golden + "resnet_basic.safetensors", "--out", path("published")}).code, 0);
  for (const char* split : {"train", "test"}) {
    for (const char* name : {"a", "b", "c", "d", "e"}) {
      const std::filesystem::path folder = path("set") + "/" + split + "/" + name;
      std::filesystem::create_directories(folder);
      std::filesystem::copy(golden + "pictures/stripes.png", folder / "1.png");
    }
  }
  const std::string images = path("five.images");
  ASSERT_EQ(run_lpmm({"data", "pack-images", path("set"), images, "--size", "16"}).code, 0);
  // The weights are tested as they came in, and refuse a set that has other classes.
  const Outcome tested = run_lpmm({"eval", path("published"), "--data", images, "--json"});
  ASSERT_EQ(tested.code, 0) << tested.err;
  EXPECT_EQ(tested.json()["images"], 5);
  expect_failure(run_lpmm({"eval", path("published"), "--data", "drawn"}), 2,
                 {"the model tells 5 classes, drawn has 10 classes"});
  expect_failure(run_lpmm({"eval", path("published"), "--data", path("nosuch")}), 1, {"nosuch"});
  const std::string config = write("tune.toml", R"(
[model]
name = "resnet18"
blocks = [1, 1, 1, 1]
width = 2
small_stem = true
[data]
set = "images"
[train]
steps = 1
batch = 5
[optimizer]
learning_rate = 0.1
)");
  const std::vector<std::string> tune = {"train",           config,  "--init",
                                         path("published"), "--out", path("tuned")};
  std::vector<std::string> five = tune, ten = tune;
  five.insert(five.end(), {"--set", "data.path=" + images, "--json"});
  ten.insert(ten.end(), {"--set", "data.set=drawn"});
  // Other classes: the last layer is drawn anew.
  const Outcome other = run_lpmm(ten);
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_NE(other.err.find("drawn anew: fc.weight, fc.bias"), std::string::npos) << other.err;
  std::filesystem::remove_all(path("tuned"));
  const Outcome tuned = run_lpmm(five);
  EXPECT_EQ(tuned.code, 0) << tuned.err;
}

}  // namespace
}  // namespace lpmm
