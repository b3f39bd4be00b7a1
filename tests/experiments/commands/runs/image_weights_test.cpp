// Published weights of models that read images, as a user takes them in and gives them out.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "lpmm/files/safetensors.h"
#include "tests/experiments/program.h"

namespace lpmm {
namespace {
using nlohmann::json;

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

// ViTs and ResNets of transformers with other tensors than the fixtures have.
struct Tensor {
  json shape;
  std::string bytes, type = "F32";
};
using Tensors = std::map<std::string, Tensor>;

class OtherImageWeights : public ImageWeights {
 protected:
  // The fixture's tensors; its config.json is written with `more`.
  Tensors fixture(const std::string& name, const json& more) const {
    const std::string golden = LPMM_SOURCE_DIR "/tests/golden/" + name,
                      all = read_file(golden + "/model.safetensors");
    std::uint64_t length = 0;
    std::memcpy(&length, all.data(), sizeof length);
    const json header = json::parse(all.substr(8, length));
    Tensors tensors;
    for (const auto& [key, said] : header.items()) {
      if (key == "__metadata__") continue;
      const std::size_t from = said["data_offsets"][0], to = said["data_offsets"][1];
      tensors[key] = {said["shape"], all.substr(8 + length + from, to - from), said["dtype"]};
    }
    json config = json::parse(read_file(golden + "/config.json"));
    config.update(more);
    write("pub/config.json", config.dump());
    return tensors;
  }
  Outcome imported(const Tensors& tensors) const {
    json header;
    std::string bytes;
    for (const auto& [name, tensor] : tensors) {
      const std::size_t end = bytes.size() + tensor.bytes.size();
      header[name] = {{"dtype", tensor.type}, {"shape", tensor.shape}, {"data_offsets", {bytes.size(), end}}};
      bytes += tensor.bytes;
    }
    const std::string text = header.dump();
    const std::uint64_t length = text.size();
    write("pub/model.safetensors", std::string(reinterpret_cast<const char*>(&length), 8) + text + bytes);
    std::filesystem::remove_all(path("run"));
    return run_lpmm({"import", path("pub"), "--preset", "fp32", "--out", path("run")});
  }
};

TEST_F(OtherImageWeights, OfOneChannelGoOutWithIt) {
  const char* patches = "vit.embeddings.patch_embeddings.projection.weight";
  Tensors tensors = fixture("vit_transformers_tiny", {{"num_channels", 1}});
  tensors[patches] = {{8, 1, 4, 4}, tensors[patches].bytes.substr(0, 4 * 8 * 16)};
  const Outcome in = imported(tensors);
  ASSERT_EQ(in.code, 0) << in.err;
  ASSERT_EQ(run_lpmm({"export", path("run"), "--hf", "--out", path("out")}).code, 0);
  EXPECT_EQ(json::parse(read_file(path("out/config.json")))["num_channels"], 1);
  EXPECT_EQ(SafetensorsFile(path("out/model.safetensors")).find(patches)->shape,
            (std::vector<std::int64_t>{8, 1, 4, 4}));
  write("pub/preprocessor_config.json", R"({"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]})");
  expect_failure(imported(tensors), 1, {"the mean of 3 channels", "the model reads 1"});
}

TEST_F(OtherImageWeights, WhatAnImportDropsIsNamed) {
  const json names = {{"0", "owl"}, {"1", "cat"}, {"2", "dog"}};
  Tensors tensors = fixture("vit_transformers_tiny", {{"id2label", names}});
  std::erase_if(tensors, [](const auto& tensor) { return tensor.first.starts_with("classifier"); });
  for (const char* prefix : {"", "vit."}) {
    Tensors pooled = tensors;
    pooled[prefix + std::string("pooler.dense.weight")] = {{8, 8}, std::string(256, '\0')};
    pooled[prefix + std::string("pooler.dense.bias")] = {{8}, std::string(32, '\0')};
    const Outcome in = imported(pooled);
    ASSERT_EQ(in.code, 0) << in.err;
    for (const std::string words :
         {"has no head", "id2label names classes of no head", "its pooler (pooler.dense)"})
      EXPECT_NE(in.err.find(words), std::string::npos) << in.err;
  }
  EXPECT_EQ(imported(tensors).err.find("pooler"), std::string::npos);
  tensors = fixture("resnet_transformers_tiny", {{"id2label", names}});
  std::erase_if(tensors, [](const auto& tensor) { return tensor.first.starts_with("classifier"); });
  const Outcome in = imported(tensors);
  ASSERT_EQ(in.code, 0) << in.err;
  EXPECT_NE(in.err.find("id2label names classes of no head"), std::string::npos) << in.err;
  const auto exported = [&] {
    return run_lpmm({"export", path("run"), "--hf", "--overwrite", "--out", path("hf")}).err;
  };
  EXPECT_NE(exported().find("its head of 2 classes is new"), std::string::npos) << exported();
  ASSERT_EQ(imported(fixture("resnet_transformers_tiny", json::object())).code, 0);
  EXPECT_EQ(exported(), "");
}

// A setting of pictures that is not done is named by the import, not only where pictures are read.
TEST_F(OtherImageWeights, HowPicturesAreCutIsNamedWhereItIsNotDone) {
  const Tensors tensors = fixture("vit_transformers_tiny", json::object());
  write("pub/preprocessor_config.json", R"({"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
"size": {"height": 16, "width": 16}, "do_pad": true, "resample": 7})");
  const Outcome in = imported(tensors);
  ASSERT_EQ(in.code, 0) << in.err;
  for (const std::string words : {"do_pad is true, which is not done here", "resample is 7"})
    EXPECT_NE(in.err.find(words), std::string::npos) << in.err;
}

}  // namespace
}  // namespace lpmm
