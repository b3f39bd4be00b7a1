// ModernBERT beside what its heads tell (heads_test.cpp): vectors, what config.json says, in either version
// of transformers, and what is refused.
#include <gtest/gtest.h>

#include <filesystem>

#include "lpmm/files/files.h"
#include "lpmm/files/json.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/stored_weights.h"
#include "models/families.h"
#include "models/published/layouts.h"
#include "models/published/published.h"
#include "tests/lpmm/said.h"
#include "tests/models/imported.h"
#include "tests/models/through.h"

namespace lpmm {
namespace {

const std::string kTiny = LPMM_SOURCE_DIR "/tests/golden/modernbert_tiny";

class ModernBertTest : public TemporaryFolderTest {
 protected:
  ModernBertTest() { std::filesystem::copy(kTiny + "/model.safetensors", path("model.safetensors")); }
  ModelConfig read(const Json& json) const {
    write_text(path("config.json"), json.dump());
    return modernbert_hugging_face().read(folder_.path());
  }
  Json config_ = parse_json(read_text(kTiny + "/config.json", 1 << 20));
};

TEST_F(ModernBertTest, VectorsAreMadeInEachOfThreeWays) {
  const ModelConfig config = modernbert_hugging_face().read(kTiny);
  Imported whole(modernbert_hugging_face(), config, kTiny);
  const StoredWeights stored(
      save_checkpoint(path("c"), 0, config.name, whole.memory, Buffers({}, whole.device), {{"x", 1}}, 0));
  const SafetensorsFile expected(kTiny + "/expected.safetensors");
  Batch batch;
  batch.count = 3;
  batch.length = 16;
  batch.tokens = values_of<std::int32_t>(expected, "ids");
  batch.lengths = values_of<std::int32_t>(expected, "lengths");
  for (const auto& [flag, want] :
       {std::pair{"", "means"}, {"first_embeds", "firsts"}, {"weighted_embeds", "weighted"}}) {
    for (const char* on : {"cpu", "cuda-emulated"}) {
      ModelConfig vectors = config;
      vectors.classes = 0;
      if (*flag != 0) vectors.set(flag, true);
      const auto device = make_device(on, 2);
      const auto model = make_model(vectors);
      ModelMemory memory(model->tensors(), make_policy("fp32"), {}, 1, 1, *device);
      EXPECT_TRUE(load_parameters(stored, memory, "classifier.").empty());
      const Buffers none({}, *device);
      std::vector<float> out;
      model->build(3, ValueType::kFp32, *device)->evaluate(memory, none, batch, &out);
      expect_near_largest(out, values_of<float>(expected, want), 1e-5, want, 1e-6);
    }
  }
}

TEST_F(ModernBertTest, SettingsAreReadAsBothVersionsOfTransformersWriteThem) {
  const ModelConfig newer = read(config_);
  EXPECT_EQ(newer.integer("window"), 4);
  EXPECT_EQ(newer.integer("global_every"), 3);
  EXPECT_TRUE(newer.flag("mean_head"));
  Json older = config_;
  older.erase("layer_types");
  older.erase("rope_parameters");
  EXPECT_EQ(read(older).settings, newer.settings);
  older["global_rope_theta"] = 8e4;
  older["local_rope_theta"] = 2e4;
  older["global_attn_every_n_layers"] = 2;
  older["local_attention"] = 8;
  const ModelConfig other = read(older);
  EXPECT_EQ(other.number("theta"), 8e4);
  EXPECT_EQ(other.number("local_theta"), 2e4);
  EXPECT_EQ(other.integer("global_every"), 2);
  EXPECT_EQ(other.integer("window"), 5);
  // And come back.
  Imported model(modernbert_hugging_face(), other, folder_.path());
  const StoredWeights stored(
      save_checkpoint(path("c"), 0, other.name, model.memory, Buffers({}, model.device), {{"x", 1}}, 0));
  modernbert_hugging_face().save(Kept(stored, folder_.path()), other, path("hf"), model.device);
  EXPECT_EQ(modernbert_hugging_face().read(path("hf")).settings, other.settings);
  const Json written = parse_json(read_text(path("hf/config.json"), 1 << 20));
  EXPECT_EQ(written["local_attention"], 8);
  EXPECT_EQ(written["layer_types"],
            Json({"full_attention", "sliding_attention", "full_attention", "sliding_attention"}));
}

TEST_F(ModernBertTest, KeysOfNobodyAreKeptTwoObjectsDeep) {
  config_["rope_parameters"]["full_attention"]["key_inside"] = {1};
  const ModelConfig config = read(config_);
  Imported model(modernbert_hugging_face(), config, folder_.path());
  const StoredWeights stored(
      save_checkpoint(path("c"), 0, config.name, model.memory, Buffers({}, model.device), {{"x", 1}}, 0));
  modernbert_hugging_face().save(Kept(stored, folder_.path()), config, path("hf"), model.device);
  const Json written = parse_json(read_text(path("hf/config.json"), 1 << 20));
  EXPECT_EQ(written["rope_parameters"], config_["rope_parameters"]);
}

TEST_F(ModernBertTest, WhatItDoesNotHaveIsRefused) {
  const auto expect_said = [&](const char* key, const Json& value, const char* part) {
    Json other = config_;
    other[key] = value;
    const std::string what = said([&] { read(other); });
    EXPECT_NE(what.find(part), std::string::npos) << what;
  };
  for (const char* key : {"norm_bias", "attention_bias", "mlp_bias", "classifier_bias"})
    expect_said(key, true, key);
  expect_said("hidden_activation", "silu", "hidden_activation");
  expect_said("classifier_pooling", "max", "classifier_pooling");
  expect_said("rope_scaling", {{"rope_type", "linear"}}, "rope_scaling");
  expect_said("rope_parameters", {{"full_attention", {{"rope_type", "yarn"}}}}, "rope_type");
  expect_said("layer_types", {"sliding_attention", "full_attention", "sliding_attention", "full_attention"},
              "at equal distances");
}

TEST_F(ModernBertTest, AHeadOfMaskedWordsIsLeftOut) {
  const SafetensorsFile file(kTiny + "/model.safetensors");
  std::vector<SafetensorsSource> tensors;
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape,
                       const std::vector<float>& values) {
    tensors.push_back(
        {name, "F32", shape, [values](const auto& sink) { sink(std::as_bytes(std::span(values))); }});
  };
  for (const SafetensorsEntry& entry : file.entries()) {
    if (!entry.name.starts_with("classifier."))
      add(entry.name, entry.shape, values_of<float>(file, entry.name));
  }
  add("decoder.bias", {61}, std::vector<float>(61));
  std::filesystem::create_directories(path("masked"));
  write_safetensors(path("masked/model.safetensors"), {}, tensors);
  write_text(path("masked/config.json"), config_.dump());
  const Published& published = *published_family(path("masked")).published;
  const ModelConfig config = published.read(path("masked"));
  EXPECT_EQ(config.classes, 0);
  EXPECT_NE(published.remark(path("masked"), config).find("first trained with"), std::string::npos);
  EXPECT_EQ(published.remark(kTiny, published.read(kTiny)), "");
  const Imported model(published, config, path("masked"));
}

TEST(ModernBert, HasThePublishedNumberOfParameters) {
  const auto count = [](const char* name) {
    std::int64_t parameters = 0;
    const auto model = make_model(families().config(name));
    for (const TensorInfo& t : model->tensors()) parameters += t.elements();
    return parameters;
  };
  EXPECT_EQ(count("modernbert-base"), 149'014'272);
  EXPECT_EQ(count("modernbert-large"), 394'781'696);
}

}  // namespace
}  // namespace lpmm
