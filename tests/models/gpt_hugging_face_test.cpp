// GPT-2 in Hugging Face's layout: what PyTorch computed with a small one (tests/golden/make_gpt2_tiny.py),
// and the way there and back.
#include "models/published/layouts.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "lpmm/files/safetensors.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/stored_weights.h"
#include "models/families.h"
#include "tests/models/imported.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;

const std::string kTinyGpt2 = LPMM_SOURCE_DIR "/tests/golden/gpt2_tiny.safetensors";
const std::string kExpected = LPMM_SOURCE_DIR "/tests/golden/gpt2_tiny_expected.safetensors";

ModelConfig tiny_gpt2() {
  ModelConfig config = gpt_hugging_face().read(kTinyGpt2);
  config.set("heads", 2);  // 16 channels: not to be seen from the tensors
  return config;
}

Imported import(const ModelConfig& config, const std::string& path = kTinyGpt2) {
  return {gpt_hugging_face(), config, path};
}

class HuggingFaceTest : public TemporaryFolderTest {};

// Theirs (rows, columns) at our place of the transposed matrix.
std::size_t turned(const TensorInfo& info, std::size_t i) {
  const auto columns = static_cast<std::size_t>(info.shape[1]),
             rows = static_cast<std::size_t>(info.shape[0]);
  return i % columns * rows + i / columns;
}
bool is_projection(const std::string& name) {
  return name.find(".c_") != std::string::npos && name.ends_with("weight");
}

TEST_F(HuggingFaceTest, LogitsAreThoseOfPyTorch) {
  Imported imported = import(tiny_gpt2());
  const SafetensorsFile expected(kExpected);
  std::vector<std::int32_t> text = values_of<std::int32_t>(expected, "text");
  text.pop_back();
  const std::vector<float> want = values_of<float>(expected, "logits"), got = imported.logits(text);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-4) << i;
}

TEST_F(HuggingFaceTest, GradientsOfEveryTensorAreThoseOfPyTorch) {
  Imported imported = import(tiny_gpt2());
  const SafetensorsFile expected(kExpected);
  const std::vector<std::int32_t> text = values_of<std::int32_t>(expected, "text");
  Batch batch;
  batch.count = 1;
  batch.tokens.assign(text.begin(), text.end() - 1);
  batch.labels.assign(text.begin() + 1, text.end());
  Buffers none({}, imported.device);
  Step step = imported.memory.begin_step({1});
  imported.model->build(1, ValueType::kFp32, imported.device)->train(imported.memory, step, none, batch, 0);
  for (int t = 0; t < imported.memory.tensors(); ++t) {
    const TensorInfo& info = imported.memory.info(t);
    const std::vector<float> want = values_of<float>(expected, info.name);
    std::vector<float> got(want.size());
    imported.device.decode(imported.memory.view(t, Role::kAccumulator), 0, info.elements(), got.data());
    double largest = 0;
    for (const float w : want) largest = std::max<double>(largest, std::abs(w));
    for (std::size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(got[i], want[is_projection(info.name) ? turned(info, i) : i], 1e-5 * largest + 1e-6)
          << info.name << " " << i;
    }
  }
}

TEST_F(HuggingFaceTest, TheWayThereAndBackGivesTheSameFile) {
  const ModelConfig config = tiny_gpt2();
  Imported imported = import(config);
  const std::string checkpoint =
      save_checkpoint(path("c"), 0, "gpt", imported.memory, Buffers({}, imported.device), {{"x", 1}}, 0);
  gpt_hugging_face().save(StoredWeights(checkpoint), config, path("hf"), imported.device);
  const SafetensorsFile first(kTinyGpt2), second(path("hf/model.safetensors"));
  ASSERT_EQ(first.entries().size(), second.entries().size());
  for (const SafetensorsEntry& entry : first.entries()) {
    EXPECT_EQ(values_of<float>(first, entry.name), values_of<float>(second, entry.name)) << entry.name;
    EXPECT_EQ(second.find(entry.name)->shape, entry.shape) << entry.name;
  }
  // Never into the checkpoint that is read.
  EXPECT_THROW(gpt_hugging_face().save(StoredWeights(checkpoint), config, checkpoint, imported.device),
               UsageError);
  EXPECT_EQ(StoredWeights(checkpoint).tensors().size(), first.entries().size());
  // The folder, with its config.json, knows the heads.
  const ModelConfig again = gpt_hugging_face().read(path("hf"));
  EXPECT_EQ(again.integer("heads"), 2);
  EXPECT_EQ(again.integer("layers"), 2);
  EXPECT_EQ(again.integer(kVocabulary), 61);
  EXPECT_EQ(again.integer(kContext), 18);
}

// With the prefix of a model saved with its head, with masks and the tied head, in half precision.
TEST_F(HuggingFaceTest, OtherSpellingsAreRead) {
  const SafetensorsFile file(kTinyGpt2);
  std::vector<SafetensorsSource> sources;
  for (const SafetensorsEntry& entry : file.entries()) {
    const std::vector<float> values = values_of<float>(file, entry.name);
    sources.push_back({"transformer." + entry.name, "BF16", entry.shape, [values](const auto& sink) {
                         std::vector<std::uint16_t> narrow;
                         for (const float v : values) narrow.push_back(float_to_bf16(v));
                         sink(std::as_bytes(std::span(narrow)));
                       }});
  }
  const auto zeros = [](const auto& sink) {
    const std::vector<float> some(4);
    sink(std::as_bytes(std::span(some)));
  };
  sources.push_back({"transformer.h.0.attn.bias", "F32", {1, 1, 2, 2}, zeros});
  const auto embedding = std::find_if(sources.begin(), sources.end(),
                                      [](const auto& s) { return s.name == "transformer.wte.weight"; });
  sources.push_back(*embedding);
  sources.back().name = "lm_head.weight";
  write_safetensors(path("b.safetensors"), {}, sources);
  // Another output matrix is another model.
  sources.back().emit = sources[1].emit;
  sources.back().shape = sources[1].shape;
  write_safetensors(path("untied.safetensors"), {}, sources);
  try {
    import(tiny_gpt2(), path("untied.safetensors"));
    FAIL();
  } catch (const RunError& e) {
    EXPECT_NE(std::string(e.what()).find("lm_head.weight is not wte.weight"), std::string::npos) << e.what();
  }
  const Imported exact = import(tiny_gpt2()), half = import(tiny_gpt2(), path("b.safetensors"));
  for (int t = 0; t < exact.memory.tensors(); ++t) {
    const std::vector<float> a = exact.parameter(t), b = half.parameter(t);
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(b[i], bf16_to_float(float_to_bf16(a[i])));
  }
}

TEST_F(HuggingFaceTest, WhatDoesNotFitIsNamed) {
  const auto message = [&](const std::function<void()>& body) -> std::string {
    try {
      body();
    } catch (const std::exception& e) {
      return e.what();
    }
    return "";
  };
  ModelConfig config = tiny_gpt2();
  config.set("layers", 3);
  std::string said = message([&] { import(config); });
  EXPECT_NE(said.find("h.2.ln_1.weight"), std::string::npos) << said;
  config = tiny_gpt2();
  config.set("layers", 1);
  said = message([&] { import(config); });
  EXPECT_NE(said.find("h.1."), std::string::npos) << said;
  config = tiny_gpt2();
  config.set(kContext, 17);
  said = message([&] { import(config); });
  EXPECT_NE(said.find("wpe.weight is 18 x 16, expected 17 x 16"), std::string::npos) << said;
  // A truncated file.
  fs::copy_file(kTinyGpt2, path("short.safetensors"));
  fs::resize_file(path("short.safetensors"), 20000);
  said = message([&] { gpt_hugging_face().read(path("short.safetensors")); });
  EXPECT_NE(said.find("short.safetensors"), std::string::npos) << said;
  // A ResNet's file.
  write_safetensors(path("other.safetensors"), {}, std::vector<SafetensorsSource>{});
  said = message([&] { gpt_hugging_face().read(path("other.safetensors")); });
  EXPECT_NE(said.find("wte.weight"), std::string::npos) << said;
  // A config.json that says nothing.
  fs::copy_file(kTinyGpt2, path("model.safetensors"));
  write_text(path("config.json"), "[1]");
  said = message([&] { gpt_hugging_face().read(folder_.path()); });
  EXPECT_NE(said.find("no object of a model's settings"), std::string::npos) << said;
  for (const char* wrong : {"{}", R"({"n_head": 3})", R"({"n_head": 2, "activation_function": "elu"})",
                            R"({"n_head": 2, "n_inner": -7})", "{"}) {
    write_text(path("config.json"), wrong);
    said = message([&] { gpt_hugging_face().read(path("model.safetensors")); });
    EXPECT_NE(said.find("config.json"), std::string::npos) << wrong << ": " << said;
  }
}

// Fine-tuning: a checkpoint's parameters in other specs; a model of another shape is refused.
// Neither way: their GPT-2 has no place for the norm, and one that was trained without must not get it.
TEST_F(HuggingFaceTest, AStableEmbeddingIsNotForPublishedWeights) {
  ModelConfig stable = tiny_gpt2();
  stable.set("stable_embedding", true);
  Imported imported = import(tiny_gpt2());
  const StoredWeights published(
      save_checkpoint(path("c"), 0, "gpt", imported.memory, Buffers({}, imported.device), {{"x", 1}}, 0));
  const auto said = [](const auto& act) -> std::string {
    try {
      act();
    } catch (const UsageError& e) {
      return e.what();
    }
    return "no error";
  };
  const auto check = families().find("gpt").check_start;
  EXPECT_EQ(said([&] { check(tiny_gpt2(), published); }), "no error");
  EXPECT_NE(said([&] { check(stable, published); }).find("trained without"), std::string::npos);
  CpuDevice device(1);
  const auto model = make_model(stable);
  const ModelMemory memory(model->tensors(), make_policy("fp32"), {}, 1, 1, device);
  const StoredWeights own(save_checkpoint(path("d"), 0, "gpt", memory, Buffers({}, device), {{"x", 1}}, 0));
  EXPECT_EQ(said([&] { check(stable, own); }), "no error");
  EXPECT_NE(said([&] { gpt_hugging_face().save(own, stable, path("hf"), device); }).find("without --hf"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(path("hf")));
}

TEST_F(HuggingFaceTest, ParametersAreTakenOver) {
  const ModelConfig config = tiny_gpt2();
  Imported imported = import(config);
  const std::string checkpoint =
      save_checkpoint(path("c"), 0, "gpt", imported.memory, Buffers({}, imported.device), {{"x", 1}}, 0);
  const auto model = make_model(config);
  ModelMemory packed(model->tensors(), make_policy("lpmm"), {}, 1, 1, imported.device);
  load_parameters(StoredWeights(checkpoint), packed);
  for (int t = 0; t < packed.tensors(); ++t) {
    std::vector<float> got(static_cast<std::size_t>(packed.info(t).elements()));
    packed.decode(t, 0, got);
    const std::vector<float> want = imported.parameter(t);
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-3);
  }
  ModelConfig longer = config;
  longer.set(kContext, 20);
  const auto other = make_model(longer);
  ModelMemory refused(other->tensors(), make_policy("lpmm"), {}, 1, 1, imported.device);
  try {
    load_parameters(StoredWeights(checkpoint), refused);
    FAIL();
  } catch (const RunError& e) {
    EXPECT_NE(std::string(e.what()).find("wpe.weight is 18 x 16, but this model's is 20 x 16"),
              std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace lpmm
