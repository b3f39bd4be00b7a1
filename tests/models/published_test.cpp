// Published models: what transformers computed with small ones (tests/golden/make_llama_tiny.py), the way
// there and back, shards, and what does not fit.
#include "models/published/published.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <functional>

#include "lpmm/files/files.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/stored_weights.h"
#include "tests/lpmm/said.h"
#include "tests/models/imported.h"
#include "tests/models/through.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;

std::string golden(const std::string& name) {
  return LPMM_SOURCE_DIR "/tests/golden/" + name;
}

const Published& published_at(const std::string& path) {
  return *published_family(path).published;
}

Imported import(const std::string& path) {
  const Published& published = published_at(path);
  return {published, published.read(path), path};
}

class PublishedTest : public TemporaryFolderTest {
 protected:
  // A copy of a fixture whose config.json has another value.
  std::string changed(const std::string& name, const std::string& key, const Json& value) const {
    const std::string folder = path(key);
    fs::create_directories(folder);
    fs::copy_file(golden(name) + "/model.safetensors", folder + "/model.safetensors",
                  fs::copy_options::overwrite_existing);
    Json config = parse_json(read_text(golden(name) + "/config.json", 1 << 20));
    config[key] = value;
    write_text(folder + "/config.json", config.dump());
    return folder;
  }
};

class Fixture : public TemporaryFolderTest, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(, Fixture,
                         testing::Values("llama_tiny", "qwen2_tiny", "qwen3_tiny", "smollm3_tiny",
                                         "mistral_tiny", "llama_biased_tiny", "phi3_tiny", "phi3_long_tiny",
                                         "olmo2_tiny", "granite_tiny", "gemma3_tiny", "gpt2_wide_tiny",
                                         "qwen3_moe_tiny", "qwen3_moe_mixed_tiny"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Fixture, LogitsAreThoseOfTheirLibrary) {
  Imported model = import(golden(GetParam()));
  const SafetensorsFile expected(golden(GetParam()) + "/expected.safetensors");
  std::vector<std::int32_t> text = values_of<std::int32_t>(expected, "text");
  text.pop_back();
  const std::vector<float> want = values_of<float>(expected, "logits"), got = model.logits(text);
  expect_near_largest(got, want, 1e-5, "logits");
}

// Keys and values of what came before are kept, and positions go on.
TEST_P(Fixture, AReadTextGoesOn) {
  Imported model = import(golden(GetParam()));
  std::vector<std::int32_t> text =
      values_of<std::int32_t>(SafetensorsFile(golden(GetParam()) + "/expected.safetensors"), "text");
  const std::vector<float> want = model.logits(text);
  Inference state;
  state.all = true;
  state.whole = std::ssize(text);
  std::vector<float> got;
  for (std::size_t at = 0; at < text.size(); at += 5) {
    const std::vector<std::int32_t> piece(text.begin() + static_cast<std::ptrdiff_t>(at),
                                          text.begin() + static_cast<std::ptrdiff_t>(at + 5));
    model.model->build_inference(5, ValueType::kFp32, model.device)->infer(model.memory, piece, state);
    got.insert(got.end(), state.logits.begin(), state.logits.end());
  }
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-4) << i;
}

TEST_P(Fixture, GradientsOfEveryTensorAreThoseOfTheirLibrary) {
  for (const auto& [device, recompute] : {std::pair{"cpu", false}, {"cpu", true}, {"cuda-emulated", false}}) {
    const std::string path = golden(GetParam());
    const Published& published = published_at(path);
    ModelConfig config = published.read(path);
    config.set("recompute", recompute);
    config.length = 24;
    Imported model(published, config, path, device);
    const SafetensorsFile expected(path + "/expected.safetensors");
    const std::vector<std::int32_t> text = values_of<std::int32_t>(expected, "text");
    Batch batch;
    batch.count = 1;
    batch.tokens.assign(text.begin(), text.end() - 1);
    batch.labels.assign(text.begin() + 1, text.end());
    Buffers none({}, model.device);
    Step step = model.memory.begin_step({1});
    model.model->build(1, ValueType::kFp32, model.device)->train(model.memory, step, none, batch, 0);
    for (int t = 0; t < model.memory.tensors(); ++t) {
      const std::string& name = model.memory.info(t).name;
      const std::vector<float> want = values_of<float>(expected, name), got = model.gradient(t);
      expect_near_largest(got, want, 2e-5, device + (" " + name), 1e-6);
    }
  }
}

TEST_P(Fixture, TheWayThereAndBackGivesTheSameFile) {
  const std::string path_of = golden(GetParam());
  const Published& published = published_at(path_of);
  const ModelConfig config = published.read(path_of);
  Imported model = import(path_of);
  const StoredWeights stored(
      save_checkpoint(path("c"), 0, config.name, model.memory, Buffers({}, model.device), {{"x", 1}}, 0));
  published.save(stored, config, path("hf"), model.device);
  const SafetensorsFile first(path_of + "/model.safetensors"), second(path("hf/model.safetensors"));
  ASSERT_EQ(first.entries().size(), second.entries().size());
  for (const SafetensorsEntry& entry : first.entries()) {
    EXPECT_EQ(values_of<float>(first, entry.name), values_of<float>(second, entry.name)) << entry.name;
    EXPECT_EQ(second.find(entry.name)->shape, entry.shape) << entry.name;
  }
  const ModelConfig again = published_at(path("hf")).read(path("hf"));
  EXPECT_EQ(again.name, config.name);
  for (const auto& [key, value] : config.settings) {
    EXPECT_TRUE(key == "head_width" || again.value(key) == value) << key;
  }
  EXPECT_EQ(import(path("hf")).logits({1, 2, 3}), model.logits({1, 2, 3}));
}

// Both spellings are read, as transformers wrote them before and since version 5; what is saved reads the
// same.
TEST_F(PublishedTest, ScaledFrequenciesComeAndGo) {
  for (const bool is_new : {true, false}) {
    const std::string key = is_new ? "rope_parameters" : "rope_scaling";
    const std::string folder = changed("llama_tiny", key,
                                       {{"rope_type", "llama3"},
                                        {"rope_theta", 5e5},
                                        {"factor", 8.0},
                                        {"low_freq_factor", 2.0},
                                        {"high_freq_factor", 5.0},
                                        {"original_max_position_embeddings", 48}});
    if (!is_new) {
      Json config = parse_json(read_text(folder + "/config.json", 1 << 20));
      config.erase("rope_parameters");
      config["rope_theta"] = 5e5;
      write_text(folder + "/config.json", config.dump());
    }
    const Published& published = published_at(folder);
    const ModelConfig config = published.read(folder);
    EXPECT_EQ(config.number("theta"), 5e5);
    EXPECT_EQ(config.number("rope_factor"), 8);
    EXPECT_EQ(config.integer("rope_context"), 48);
    EXPECT_EQ(config.number("rope_low"), 2);
    EXPECT_EQ(config.number("rope_high"), 5);
    Imported model(published, config, folder);
    const StoredWeights stored(save_checkpoint(path("c " + key), 0, config.name, model.memory,
                                               Buffers({}, model.device), {{"x", 1}}, 0));
    published.save(stored, config, path("saved " + key), model.device);
    const ModelConfig again = published_at(path("saved " + key)).read(path("saved " + key));
    for (const char* setting : {"theta", "rope_factor", "rope_context", "rope_low", "rope_high"}) {
      EXPECT_TRUE(again.value(setting) == config.value(setting)) << setting;
    }
  }
}

// A Gemma 3 of before version 5, whose rotary positions lie beside each other and whose layers are counted.
TEST_F(PublishedTest, AnOlderGemma3IsTheSame) {
  Json config = parse_json(read_text(golden("gemma3_tiny") + "/config.json", 1 << 20));
  for (const char* key : {"rope_parameters", "layer_types", "_sliding_window_pattern"}) config.erase(key);
  config["rope_theta"] = 1e4;
  config["rope_local_base_freq"] = 100.0;
  config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 4.0}};
  config["sliding_window_pattern"] = 2;
  const std::string folder = changed("gemma3_tiny", "query_pre_attn_scalar", 6);
  write_text(folder + "/config.json", config.dump());
  const ModelConfig older = published_at(folder).read(folder),
                    newer = published_at(folder).read(golden("gemma3_tiny"));
  EXPECT_EQ(older.settings, newer.settings);
  EXPECT_EQ(newer.integer("global_every"), 2);
  EXPECT_EQ(newer.number("local_theta"), 100);
  // The scale of its scores is another where it says so, and comes back.
  const std::string other = changed("gemma3_tiny", "query_pre_attn_scalar", 10);
  const ModelConfig scaled = published_at(other).read(other);
  EXPECT_NEAR(scaled.number("attention_scale"), 1 / std::sqrt(10.0), 1e-12);
  Imported model(published_at(other), scaled, other);
  const StoredWeights stored(
      save_checkpoint(path("c"), 0, scaled.name, model.memory, Buffers({}, model.device), {{"x", 1}}, 0));
  published_at(other).save(stored, scaled, path("hf"), model.device);
  EXPECT_EQ(parse_json(read_text(path("hf/config.json"), 1 << 20))["query_pre_attn_scalar"], 10);
}

// It begins behind the model's positions, which are all that there are here, and is kept for an export.
TEST_F(PublishedTest, DynamicScalingChangesNothingAndIsKept) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const std::string folder = changed("mistral_tiny", key, {{"rope_type", "dynamic"}, {"factor", 4.0}});
    const Published& published = published_at(folder);
    const ModelConfig config = published.read(folder);
    EXPECT_EQ(config.settings, published.read(golden("mistral_tiny")).settings);
    Imported model(published, config, folder);
    const std::string made = path(fmt::format("of {}", key));
    const StoredWeights stored(
        save_checkpoint(made, 0, config.name, model.memory, Buffers({}, model.device), {{"x", 1}}, 0));
    published.save(Kept(stored, folder), config, made + "/hf", model.device);
    const Json written = parse_json(read_text(made + "/hf/config.json", 1 << 20));
    EXPECT_EQ(written["rope_scaling"], Json({{"rope_type", "dynamic"}, {"factor", 4.0}})) << key;
  }
}

// Whatever else a library says of rotary positions comes back, beside their scaling or without one.
TEST_F(PublishedTest, UnknownKeysOfRotaryPositionsAreKept) {
  const Json scaled = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 1e4}, {"novel", {1, 2}}},
             plain = {{"rope_type", "default"}, {"rope_theta", 1e4}, {"novel", {1, 2}}};
  for (const auto& [said, want] :
       {std::pair{scaled, Json({{"rope_type", "linear"}, {"factor", 2.0}, {"novel", {1, 2}}})},
        {plain, Json({{"rope_type", "default"}, {"novel", {1, 2}}})}}) {
    const std::string folder = changed("llama_tiny", "rope_parameters", said);
    const Published& published = published_at(folder);
    const ModelConfig config = published.read(folder);
    Imported model(published, config, folder);
    const std::string made = path(said["rope_type"].get<std::string>());
    const StoredWeights stored(
        save_checkpoint(made, 0, config.name, model.memory, Buffers({}, model.device), {{"x", 1}}, 0));
    published.save(Kept(stored, folder), config, made + "/hf", model.device);
    EXPECT_EQ(parse_json(read_text(made + "/hf/config.json", 1 << 20))["rope_scaling"], want);
    EXPECT_EQ(published_at(made + "/hf").read(made + "/hf").settings, config.settings);
  }
}

// A Mistral is a Llama that attends to a window, where it has one.
TEST_F(PublishedTest, AMistralIsALlamaWithAWindow) {
  const std::string folder = changed("llama_tiny", "model_type", "mistral");
  const ModelConfig whole = published_at(golden("llama_tiny")).read(golden("llama_tiny"));
  EXPECT_EQ(import(folder).logits({1, 2, 3}), import(golden("llama_tiny")).logits({1, 2, 3}));
  const auto with_window = [&](const Json& window) {
    Json config = parse_json(read_text(folder + "/config.json", 1 << 20));
    config["sliding_window"] = window;
    write_text(folder + "/config.json", config.dump());
    return published_at(folder).read(folder);
  };
  for (const Json& none : {Json(nullptr), Json(1 << 20), Json(64)}) {
    EXPECT_EQ(with_window(none).settings, whole.settings);
  }
  EXPECT_EQ(with_window(12).integer("window"), 12);
  EXPECT_EQ(with_window(12).integer(kContext), 64);
  // Without the key transformers takes 4,096.
  Json config = parse_json(read_text(folder + "/config.json", 1 << 20));
  config.erase("sliding_window");
  config["max_position_embeddings"] = 8192;
  write_text(folder + "/config.json", config.dump());
  EXPECT_EQ(published_at(folder).read(folder).integer("window"), 4096);
}

// The second position sees itself and the first within a window of 2, the third no more the first.
TEST_F(PublishedTest, AWindowIsOfSoManyPositions) {
  const std::string folder = golden("llama_tiny");
  const Published& published = published_at(folder);
  ModelConfig config = published.read(folder);
  const auto last = [&](int window, const std::vector<std::int32_t>& tokens) {
    config.set("layers", std::int64_t{2});
    config.set("window", std::int64_t{window});
    const std::vector<float> logits = Imported(published, config, folder).logits(tokens);
    return std::vector<float>(logits.end() - 61, logits.end());
  };
  EXPECT_NE(last(2, {1, 2, 3}), last(0, {1, 2, 3}));
  EXPECT_EQ(last(2, {2, 3}), last(0, {2, 3}));
  EXPECT_EQ(last(2, {7, 1, 2, 3}), last(2, {8, 1, 2, 3}));  // two layers see three positions
  EXPECT_NE(last(2, {1, 2, 3}), last(2, {9, 2, 3}));
}

TEST_F(PublishedTest, RotaryWithoutATypeIsTheDefault) {
  const std::string folder = changed("llama_tiny", "rope_parameters", {{"rope_theta", 5e5}});
  const ModelConfig config = published_at(folder).read(folder);
  EXPECT_EQ(config.number("theta"), 5e5);
  EXPECT_EQ(config.number("rope_factor"), 1);
}

// Splits a fixture into two files and an index.
void write_shards(const std::string& folder, const std::function<void(Json& map)>& change = {}) {
  fs::create_directories(folder);
  fs::copy_file(golden("llama_tiny/config.json"), folder + "/config.json",
                fs::copy_options::overwrite_existing);
  const SafetensorsFile whole(golden("llama_tiny/model.safetensors"));
  std::vector<SafetensorsSource> shards[2];
  Json map = Json::object();
  for (const SafetensorsEntry& entry : whole.entries()) {
    const std::vector<float> values = values_of<float>(whole, entry.name);
    const std::size_t shard = map.size() % 2;
    shards[shard].push_back({entry.name, "F32", entry.shape,
                             [values](const auto& sink) { sink(std::as_bytes(std::span(values))); }});
    map[entry.name] = shard == 0 ? "a.safetensors" : "b.safetensors";
  }
  write_safetensors(folder + "/a.safetensors", {}, shards[0]);
  write_safetensors(folder + "/b.safetensors", {}, shards[1]);
  if (change) change(map);
  write_text(folder + "/model.safetensors.index.json", Json{{"weight_map", map}}.dump());
}

TEST_F(PublishedTest, ShardsAreOneModel) {
  write_shards(path("sharded"));
  EXPECT_EQ(import(path("sharded")).logits({1, 2, 3}), import(golden("llama_tiny")).logits({1, 2, 3}));
  EXPECT_EQ(import(path("sharded/model.safetensors.index.json")).logits({7}),
            import(golden("llama_tiny")).logits({7}));
}

// An export that is stopped between two shards leaves no index, even where one of another model was.
TEST_F(PublishedTest, ShardsOfTwoExportsAreNeverOneModel) {
  class Stopped : public Through {
   public:
    Stopped(const StoredWeights& whole, int files) : Through(whole), left_(files) {}
    void write(const std::string& output, const Metadata& metadata,
               std::span<const SafetensorsSource> sources) const override {
      if (left_-- == 0) throw RunError("stopped");
      Through::write(output, metadata, sources);
    }

   private:
    mutable int left_;
  };
  const std::string fixture = golden("llama_tiny");
  Imported model = import(fixture);
  const ModelConfig config = published_at(fixture).read(fixture);
  const StoredWeights stored(
      save_checkpoint(path("c"), 0, config.name, model.memory, Buffers({}, model.device), {{"x", 1}}, 0));
  const PublishedLayout layout{.model = "Llama"};
  const Json described = Json::parse(read_text(fixture + "/config.json", 1 << 20));
  constexpr std::int64_t kShard = 4096;
  const auto save = [&](int files) {
    save_published(Stopped(stored, files), layout, described, path("hf"), model.device, kShard);
  };
  save(1000);
  EXPECT_TRUE(fs::exists(path("hf/model.safetensors.index.json")));
  EXPECT_EQ(import(path("hf")).logits({1, 2, 3}), model.logits({1, 2, 3}));
  for (const int files : {0, 1, 2}) {
    EXPECT_THROW(save(files), RunError);
    EXPECT_FALSE(fs::exists(path("hf/model.safetensors.index.json"))) << files;
    EXPECT_THROW(import(path("hf")), RunError);
    save(1000);
  }
}

TEST_F(PublishedTest, AnIndexThatLiesIsRefused) {
  static constexpr const char* kTensor = "model.norm.weight";
  const auto told = [&](const char* name, const std::function<void(Json&)>& change) {
    write_shards(path(name), change);
    return said([&] { import(path(name)); });
  };
  const auto expect_said = [](const std::string& what, const char* part) {
    EXPECT_NE(what.find(part), std::string::npos) << what;
  };
  expect_said(told("gone", [](Json& map) { map[kTensor] = "c.safetensors"; }), "c.safetensors");
  expect_said(told("other", [](Json& map) { map["made.up"] = "a.safetensors"; }), "no such tensor");
  expect_said(told("fewer", [](Json& map) { map.erase(kTensor); }), "the index says");
  expect_said(told("outside", [](Json& map) { map[kTensor] = "../a.safetensors"; }),
              "no file of this folder");
  expect_said(told("number", [](Json& map) { map[kTensor] = 3; }), "has no file");
  write_text(path("gone/model.safetensors.index.json"), "[]");
  expect_said(said([&] { import(path("gone")); }), "weight_map");
}

TEST_F(PublishedTest, WhatIsNoModelOfOursIsNamed) {
  const auto expect_said = [&](const std::string& folder, const char* part) {
    const std::string what = said([&] { import(folder); });
    EXPECT_NE(what.find(part), std::string::npos) << what;
  };
  expect_said(
      changed("llama_tiny", "model_type", "yolos"),
      ": is a yolos of transformers, which cannot be imported; there are resnet (torchvision), vit (timm), "
      "gpt2, gemma3_text, granite, llama, mistral, olmo2, phi3, qwen2, qwen3, qwen3_moe, smollm3, bert, "
      "camembert, "
      "distilbert, "
      "mpnet, roberta, xlm-roberta, modernbert, marian (transformers)");
  for (const auto& [type, why] :
       {std::pair{"t5", "a bias of relative positions, which is not here; the nearest is marian"},
        {"nomic_bert", "the nearest is modernbert"},
        {"mixtral", "experts"},
        {"deit",
         "their names in transformers, are otherwise, which is not here; the nearest is vit or resnet"},
        {"vit_mae", "the nearest is vit"},
        {"siglip_vision_model", "the nearest is vit"},
        {"gemma2", "the nearest is gemma3_text"}}) {
    expect_said(changed("llama_tiny", "model_type", type), why);
  }
  fs::create_directories(path("bare"));
  fs::copy_file(golden("bert_tiny/model.safetensors"), path("bare/model.safetensors"));
  expect_said(path("bare"), "there is no config.json");
  expect_said(changed("llama_tiny", "hidden_act", "gelu"), "hidden_act");
  for (const char* key : {"attention_bias", "mlp_bias", "use_sliding_window"}) {
    expect_said(changed("qwen2_tiny", key, true), key);
  }
  expect_said(changed("llama_tiny", "attention_bias", true),
              "has no tensor model.layers.0.self_attn.q_proj.bias");
  expect_said(changed("llama_tiny", "partial_rotary_factor", 0.5), "partial_rotary_factor");
  expect_said(changed("smollm3_tiny", "no_rope_layers", {0, 1}), "no_rope_layers");
  expect_said(changed("smollm3_tiny", "no_rope_layer_interval", 3), "no_rope_layers");
  expect_said(
      changed("gemma3_tiny", "layer_types", {"full_attention", "full_attention", "sliding_attention"}),
      "at equal distances");
  expect_said(changed("gemma3_tiny", "final_logit_softcapping", 30.0), "final_logit_softcapping");
  expect_said(changed("gemma3_tiny", "hidden_activation", "silu"), "hidden_activation");
  expect_said(changed("gemma3_tiny", "sliding_window", nullptr), "has no sliding_window");
  expect_said(changed("llama_tiny", "quantization_config", {{"bits", 4}}), "quantization_config");
  expect_said(changed("llama_tiny", "num_hidden_layers", 3), "model.layers.2.input_layernorm.weight");
  expect_said(changed("llama_tiny", "vocab_size", -4), "vocab_size is -4, expected a whole number from 1");
  expect_said(changed("llama_tiny", "num_attention_heads", "four"),
              "num_attention_heads is \"four\", expected a whole number from 1 to 16777216");
  const std::string pad = changed("roberta_tiny", "pad_token_id", "one");
  expect_said(pad, (pad + "/config.json: pad_token_id is \"one\"").c_str());
  expect_said(changed("llama_tiny", "rms_norm_eps", -1),
              "config.json: rms_norm_eps is -1, expected more than 0");
  expect_said(changed("llama_tiny", "intermediate_size", 21),
              "gate_proj.weight is 20 x 16, expected 21 x 16");
  expect_said(changed("llama_tiny", "rope_parameters", {{"rope_type", "longrope"}}),
              "there are default, dynamic, linear, llama3 and yarn");
  expect_said(changed("phi3_tiny", "rope_parameters", {{"rope_type", "linear"}, {"factor", 2.0}}),
              "is not known of a Phi-3; there are default and longrope");
  expect_said(
      changed("llama_tiny", "rope_parameters", {{"rope_type", "yarn"}, {"factor", 2.0}, {"truncate", false}}),
      "truncate");
  expect_said(changed("llama_tiny", "num_key_value_heads", 3), "kv_heads");
  expect_said(changed("llama_tiny", "tie_word_embeddings", true),
              "lm_head.weight is not model.embed_tokens.weight");
  expect_said(changed("qwen2_tiny", "tie_word_embeddings", false), "has no tensor lm_head.weight");
  expect_said(path("nowhere"), "there is no such file or folder");
  expect_said("owner/Model-1B", "hf download owner/Model-1B");
  fs::create_directory(path("adapter"));
  write_text(path("adapter/adapter_config.json"), "{}");
  expect_said(path("adapter"), "LoRA adapter");
  fs::create_directory(path("pointer"));
  write_text(path("pointer/model.safetensors"), "version https://git-lfs.github.com/spec/v1\n");
  expect_said(path("pointer"), "git lfs pull");
  // A number that JSON does not have counts where it is asked for.
  for (const std::string key : {"time_step_limit", "rms_norm_eps"}) {
    const std::string folder = changed("llama_tiny", key, 123.5);
    std::string config = read_text(folder + "/config.json", 1 << 20);
    write_text(folder + "/config.json", config.replace(config.find("123.5"), 5, "Infinity"));
    const std::string what = said([&] { import(folder); });
    EXPECT_EQ(what == "no error", key == "time_step_limit") << what;
  }
}

TEST_F(PublishedTest, PicklesAreNamedWhereverTheyAre) {
  const auto expect_pickle = [&](const std::string& given, const std::string& file, const char* hint) {
    const std::string what = said([&] { import(given); });
    EXPECT_TRUE(what.starts_with(file + ": is a PyTorch pickle")) << what;
    EXPECT_NE(what.find(hint), std::string::npos) << what;
  };
  constexpr const char *kTransformers = "save_pretrained", *kTorch = "save_file(model.state_dict()";
  const auto folder = [&](const std::string& name, bool has_config) {
    fs::create_directories(path(name));
    if (has_config) fs::copy_file(golden("llama_tiny/config.json"), path(name) + "/config.json");
    return path(name);
  };
  const std::string one = folder("one", true), bare = folder("bare", false), vision = folder("vision", false),
                    sharded = folder("sharded", true), index = folder("index", true);
  write_text(one + "/pytorch_model.bin", "PK");
  expect_pickle(one, one + "/pytorch_model.bin", kTransformers);
  write_text(bare + "/pytorch_model.bin", "PK and weights");
  write_text(bare + "/training_args.bin", "PK");
  expect_pickle(bare, bare + "/pytorch_model.bin", kTransformers);
  write_text(vision + "/resnet50.pth", "PK");
  expect_pickle(vision, vision + "/resnet50.pth", kTorch);
  expect_pickle(vision + "/resnet50.pth", vision + "/resnet50.pth", kTorch);
  for (const char* shard : {"1", "2"})
    write_text(fmt::format("{}/pytorch_model-0000{}-of-00002.bin", sharded, shard), "PK");
  write_text(sharded + "/pytorch_model.bin.index.json",
             R"({"weight_map": {"a": "pytorch_model-00001-of-00002.bin"}})");
  expect_pickle(sharded, sharded + "/pytorch_model-00001-of-00002.bin", kTransformers);
  expect_pickle(sharded + "/pytorch_model.bin.index.json", sharded + "/pytorch_model-00001-of-00002.bin",
                kTransformers);
  // An index of safetensors that names one, and one that is called as what it is not.
  write_text(index + "/m.bin", "PK\x03\x04 a header of many bytes");
  write_text(index + "/model.safetensors.index.json", R"({"weight_map": {"a": "m.bin"}})");
  expect_pickle(index, index + "/m.bin", kTransformers);
  write_text(index + "/model.safetensors", "PK\x03\x04 a header of many bytes");
  expect_pickle(index, index + "/model.safetensors", kTorch);
  write_text(index + "/model.safetensors", "\x80\x02 a header of many bytes");
  expect_pickle(index, index + "/model.safetensors", kTorch);
  // A header of 640 bytes begins as an old pickle does.
  std::string begin;
  for (std::size_t pad = 560; pad < 640 && begin != "\x80\x02"; ++pad) {
    write_safetensors(index + "/model.safetensors", {{"x", std::string(pad, 'x')}}, {});
    begin = read_text(index + "/model.safetensors", 1 << 20).substr(0, 2);
  }
  ASSERT_EQ(begin, "\x80\x02");
  EXPECT_TRUE(PublishedTensors(index).all().empty());
}

}  // namespace
}  // namespace lpmm
