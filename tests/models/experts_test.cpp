// Qwen3-MoE: its settings, its config.json, and what of it is refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/stored_weights.h"
#include "models/families.h"
#include "models/published/published.h"
#include "tests/lpmm/said.h"
#include "tests/models/imported.h"
#include "tests/models/parameters.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;

std::string fixture_of(const std::string& name) {
  return LPMM_SOURCE_DIR "/tests/golden/" + name;
}

ModelConfig small_mixture() {
  ModelConfig c = families().config("llama");
  for (const char* key : {"heads", "layers", "experts_per_token"}) c.set(key, std::int64_t{2});
  for (const char* key : {"embedding", "mlp_width", "expert_width", "context", "vocabulary"})
    c.set(key, std::int64_t{8});
  c.set("experts", std::int64_t{4});
  c.set("qk_norm", true);
  return c;
}

TEST(Experts, HaveTheNamesOfPublishedTensors) {
  ModelConfig c = small_mixture();
  c.set("dense_layers", std::vector<std::int64_t>{0});
  const auto model = make_model(c);
  std::vector<std::string> names;
  for (const TensorInfo& t : model->tensors()) {
    if (t.name.find(".mlp.") != std::string::npos) names.push_back(t.name);
  }
  ASSERT_EQ(names.size(), 3 + 1 + 4 * 3U);
  EXPECT_EQ(names[0], "model.layers.0.mlp.gate_proj.weight");
  EXPECT_EQ(names[3], "model.layers.1.mlp.gate.weight");
  EXPECT_EQ(names[4], "model.layers.1.mlp.experts.0.gate_proj.weight");
  EXPECT_EQ(names.back(), "model.layers.1.mlp.experts.3.down_proj.weight");
}

TEST(Experts, SettingsThatDoNotGoTogetherAreRefused) {
  const auto told = [](const std::function<void(ModelConfig&)>& change) {
    ModelConfig c = small_mixture();
    change(c);
    return said([&] { make_model(c); });
  };
  const auto expect_told = [&](const char* key, const SettingValue& value, const char* part) {
    const std::string what = told([&](ModelConfig& c) { c.set(key, value); });
    EXPECT_NE(what.find(part), std::string::npos) << key << ": " << what;
  };
  EXPECT_EQ(told([](ModelConfig&) {}), "no error");
  expect_told("experts_per_token", std::int64_t{5}, "experts_per_token = 5, but must be 1 to 4");
  expect_told("experts_per_token", std::int64_t{0}, "experts_per_token = 0, but must be 1 to 4");
  expect_told("experts", std::int64_t{0}, "are for models that have experts");
  expect_told("experts", std::int64_t{5000}, "experts");
  expect_told("expert_width", std::int64_t{0}, "how many channels an expert has");
  expect_told("dense_layers", std::vector<std::int64_t>{2},
              "dense_layers has 2, but there are layers 0 to 1");
  expect_told("dense_layers", std::vector<std::int64_t>{0, 1}, "leave no layer with experts");
  expect_told("experts_every", std::int64_t{3}, "leave no layer with experts");
  expect_told("qk_norm", false, "go with model.qk_norm");
  expect_told("joined", true, "go alone");
  expect_told("mlp_bias", true, "mlp_bias");
}

class ExpertsFolder : public TemporaryFolderTest {
 protected:
  std::string changed(const std::string& key, const Json& value, const char* name = "qwen3_moe_tiny") const {
    const std::string folder = path("changed");
    fs::remove_all(folder);
    fs::create_directories(folder);
    fs::copy_file(fixture_of(name) + "/model.safetensors", folder + "/model.safetensors");
    Json config = parse_json(read_text(fixture_of(name) + "/config.json", 1 << 20));
    config[key] = value;
    write_text(folder + "/config.json", config.dump());
    return folder;
  }
  static ModelConfig read(const std::string& folder) {
    return published_family(folder).published->read(folder);
  }
};

TEST_F(ExpertsFolder, KeysAreRead) {
  const ModelConfig all = read(fixture_of("qwen3_moe_tiny")),
                    mixed = read(fixture_of("qwen3_moe_mixed_tiny"));
  EXPECT_EQ(all.integer("experts"), 7);
  EXPECT_EQ(all.integer("experts_per_token"), 2);
  EXPECT_EQ(all.integer("expert_width"), 6);
  EXPECT_TRUE(all.flag("experts_normed"));
  EXPECT_EQ(all.number("balance_loss"), 0.5);
  EXPECT_FALSE(mixed.flag("experts_normed"));
  EXPECT_EQ(mixed.integer("experts_every"), 2);
  EXPECT_EQ(mixed.integers("dense_layers"), std::vector<std::int64_t>{3});
  EXPECT_EQ(mixed.number("balance_loss"), 0);  // output_router_logits is false
  // transformers before version 5 calls them num_experts, and both are one number.
  EXPECT_EQ(read(changed("num_experts", 7)).integer("experts"), 7);
  EXPECT_EQ(read(changed("num_local_experts", nullptr)).integer("experts"), 128);
}

TEST_F(ExpertsFolder, WhatDoesNotFitIsNamed) {
  const auto expect_said = [&](const std::string& folder, const char* part) {
    const std::string what = said([&] {
      const Published& published = *published_family(folder).published;
      Imported(published, published.read(folder), folder);
    });
    EXPECT_NE(what.find(part), std::string::npos) << what;
  };
  expect_said(changed("num_experts", 6), "num_experts is 6, but num_local_experts is 7");
  expect_said(changed("num_experts_per_tok", 8), "num_experts_per_tok is 8, but there are 7 experts");
  expect_said(changed("num_local_experts", 0), "num_local_experts is 0, expected a whole number from 1");
  expect_said(changed("num_local_experts", 8), "model.layers.0.mlp.gate.weight is 7 x 8, expected 8 x 8");
  expect_said(changed("shared_expert_intermediate_size", 16), "shared_expert_intermediate_size is 16");
  expect_said(changed("mlp_only_layers", {2}), "mlp_only_layers is [2], but lists layers, which are 0 to 1");
  expect_said(changed("mlp_only_layers", {-1}), "mlp_only_layers");
  expect_said(changed("mlp_only_layers", "all"), "mlp_only_layers");
  expect_said(changed("mlp_only_layers", {0}), "layers.0.mlp.");
  expect_said(changed("mlp_only_layers", {0, 1}), "leave no layer with experts");
  expect_said(changed("router_aux_loss_coef", -1), "router_aux_loss_coef is -1");
  expect_said(changed("mlp_bias", true), "mlp_bias");
  expect_said(changed("model_type", "qwen2_moe"), "the nearest is qwen3_moe");
}

// Written are keys that every version of transformers reads. A factor that counts for nothing stays in the
// files that the model came with.
TEST_F(ExpertsFolder, KeysAreWritten) {
  const auto written = [&](const std::string& name, const std::function<void(ModelConfig&)>& change) {
    const Published& published = *published_family(fixture_of(name)).published;
    ModelConfig config = published.read(fixture_of(name));
    Imported model(published, config, fixture_of(name));
    change(config);
    const StoredWeights stored(
        save_checkpoint(path(name), 0, config.name, model.memory, Buffers({}, model.device), {{"x", 1}}, 0));
    published.save(stored, config, path("hf"), model.device);
    return parse_json(read_text(path("hf/config.json"), 1 << 20));
  };
  const auto as_it_is = [](ModelConfig&) {};
  const Json all = written("qwen3_moe_tiny", as_it_is), mixed = written("qwen3_moe_mixed_tiny", as_it_is);
  EXPECT_EQ(all["model_type"], "qwen3_moe");
  EXPECT_EQ(all["architectures"], Json({"Qwen3MoeForCausalLM"}));
  EXPECT_EQ(all["num_experts"], 7);
  EXPECT_FALSE(all.contains("num_local_experts"));
  EXPECT_EQ(all["output_router_logits"], true);
  EXPECT_EQ(all["router_aux_loss_coef"], 0.5);
  EXPECT_EQ(mixed["output_router_logits"], false);
  EXPECT_EQ(mixed["decoder_sparse_step"], 2);
  EXPECT_EQ(mixed["mlp_only_layers"], Json({3}));
  EXPECT_EQ(mixed["norm_topk_prob"], false);
}

TEST_F(ExpertsFolder, JoinedExpertsAreRefused) {
  const std::string folder = changed("use_cache", true);
  const std::vector<float> values(7 * 12 * 8);
  const std::vector<SafetensorsSource> joined{
      {"model.layers.0.mlp.experts.gate_up_proj",
       "F32",
       {7, 12, 8},
       [&](const SafetensorsSource::Sink& sink) { sink(std::as_bytes(std::span(values))); }}};
  write_safetensors(folder + "/model.safetensors", {}, joined);
  const std::string what = said([&] {
    const Published& published = *published_family(folder).published;
    Imported(published, published.read(folder), folder);
  });
  EXPECT_NE(what.find("joins the experts of a layer"), std::string::npos) << what;
}

}  // namespace
}  // namespace lpmm
