// Heads of texts on a Llama's kin and on a ModernBERT, of words and of several classes: what transformers
// computed with small models (tests/golden/make_heads_tiny.py), and the way there and back.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "lpmm/files/files.h"
#include "lpmm/files/json.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/stored_weights.h"
#include "models/families.h"
#include "models/published/published.h"
#include "tests/lpmm/said.h"
#include "tests/models/imported.h"
#include "tests/models/through.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;

std::string folder_of(const std::string& name) {
  return LPMM_SOURCE_DIR "/tests/golden/" + name;
}
const Published& layout_of(const std::string& path) {
  return *published_family(path).published;
}

// A fixture with the batch that its library was given.
struct Tiny {
  explicit Tiny(const std::string& name)
      : path(folder_of(name)),
        published(layout_of(path)),
        config(published.read(path)),
        expected(path + "/expected.safetensors") {
    batch.count = 3;
    batch.length = 16;
    batch.tokens = values_of<std::int32_t>(expected, "ids");
    batch.types.assign(batch.tokens.size(), 0);
    batch.lengths = values_of<std::int32_t>(expected, "lengths");
    batch.labels = values_of<std::int32_t>(expected, "labels");
    config.length = 16;
  }
  std::vector<float> outputs(const std::string& device, double* loss = nullptr) const {
    Imported model(published, config, path, device);
    const Buffers none({}, model.device);
    std::vector<float> out;
    const BatchResult told =
        model.model->build(3, ValueType::kFp32, model.device)->evaluate(model.memory, none, batch, &out);
    if (loss != nullptr) *loss = told.loss_sum / static_cast<double>(told.count);
    return out;
  }
  // The gradient of a step whose microbatches these are.
  std::vector<std::vector<float>> gradients(const std::string& on, const std::vector<Batch>& parts) const {
    const auto device = make_device(on, 2);
    const auto model = make_model(config);
    ModelMemory memory(model->tensors(), make_policy("fp32"), {}, 1, static_cast<int>(parts.size()), *device);
    published.load(path, memory);
    Buffers none({}, *device);
    Step step = memory.begin_step({1});
    const auto program = model->build(static_cast<int>(parts[0].count), ValueType::kFp32, *device);
    for (std::size_t k = 0; k < parts.size(); ++k)
      program->train(memory, step, none, parts[k], static_cast<int>(k));
    device->synchronize();
    std::vector<std::vector<float>> all;
    for (int t = 0; t < memory.tensors(); ++t) {
      all.emplace_back(static_cast<std::size_t>(memory.info(t).elements()));
      const DeviceMemory decoded = device->allocate(4 * std::ssize(all.back()));
      device->decode(memory.view(t, Role::kAccumulator), 0, std::ssize(all.back()),
                     reinterpret_cast<float*>(decoded.get()));
      device->download(all.back().data(), decoded.get(), 4 * std::ssize(all.back()));
    }
    return all;
  }
  std::string path;
  const Published& published;
  ModelConfig config;
  SafetensorsFile expected;
  Batch batch;
};

// What the file calls a tensor: of an encoder behind its prefix, of a head by its own name.
std::string theirs(const SafetensorsFile& file, const std::string& name) {
  for (const char* prefix : {"", "bert.", "model."}) {
    if (file.find(prefix + name) != nullptr) return prefix + name;
  }
  const std::string part = name.substr(name.find('.') + 1);  // of a ModernBERT's "classifier."
  return part.starts_with("out_proj.") ? "classifier." + part.substr(9) : "head." + part;
}

class HeadTest : public TemporaryFolderTest, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(, HeadTest,
                         testing::Values("qwen3_classes_tiny", "bert_words_tiny", "modernbert_tiny",
                                         "modernbert_words_tiny"),
                         [](const auto& of) { return std::string(of.param); });

TEST_P(HeadTest, LogitsAndGradientsAreThoseOfTransformers) {
  const Tiny tiny(GetParam());
  EXPECT_EQ(tiny.config.classes, 3);
  const auto model = make_model(tiny.config);
  for (const char* device : {"cpu", "cuda-emulated"}) {
    expect_near_largest(tiny.outputs(device), values_of<float>(tiny.expected, "logits"), 1e-5, device, 1e-6);
    Batch batch = tiny.batch;
    batch.step_labels = std::ranges::count_if(batch.labels, [](std::int32_t label) { return label >= 0; });
    const auto got = tiny.gradients(device, {batch});
    for (std::size_t t = 0; t < got.size(); ++t) {
      const std::string& name = model->tensors()[t].name;
      expect_near_largest(got[t], values_of<float>(tiny.expected, theirs(tiny.expected, name)), 3e-5,
                          device + (" " + name), 1e-6);
    }
  }
}

// A batch that is not full: the gradient is that of its own examples.
TEST_P(HeadTest, ExamplesThatFillABatchUpDoNotCount) {
  const Tiny tiny(GetParam());
  const bool has_words = tiny.config.has(kOfWords) && tiny.config.flag(kOfWords);
  const auto part = [&](std::size_t first, std::size_t counted) {
    Batch out;
    out.count = 2;
    out.length = 16;
    out.step_labels = has_words ? std::ranges::count_if(tiny.batch.labels, [](auto l) { return l >= 0; }) : 3;
    for (std::size_t i = 0; i < 2; ++i) {
      const std::size_t from = i < counted ? first + i : 0;
      const auto row = [&](const std::vector<std::int32_t>& all) {
        return all.begin() + 16 * static_cast<std::ptrdiff_t>(from);
      };
      out.tokens.insert(out.tokens.end(), row(tiny.batch.tokens), row(tiny.batch.tokens) + 16);
      out.types.resize(out.tokens.size(), 0);
      out.lengths.push_back(tiny.batch.lengths[from]);
      if (has_words && i < counted) {
        out.labels.insert(out.labels.end(), row(tiny.batch.labels), row(tiny.batch.labels) + 16);
      } else if (has_words) {
        out.labels.resize(out.labels.size() + 16, -1);
      } else if (i < counted) {
        out.labels.push_back(tiny.batch.labels[from]);
      }
    }
    return out;
  };
  for (const char* device : {"cpu", "cuda-emulated"}) {
    // Two, one and a filler, and none.
    const auto whole = tiny.gradients(device, {tiny.batch}),
               parts = tiny.gradients(device, {part(0, 2), part(2, 1), part(0, 0)});
    Batch counted = tiny.batch;
    counted.step_labels = part(0, 2).step_labels;
    const auto want = has_words ? tiny.gradients(device, {counted}) : whole;
    for (std::size_t t = 0; t < want.size(); ++t) {
      expect_near_largest(parts[t], want[t], 3e-6, std::to_string(t), 1e-6);
    }
  }
}

TEST_P(HeadTest, TheWayThereAndBackGivesTheSameFile) {
  const Tiny tiny(GetParam());
  Imported model(tiny.published, tiny.config, tiny.path);
  const StoredWeights stored(save_checkpoint(path("c"), 0, tiny.config.name, model.memory,
                                             Buffers({}, model.device), {{"x", 1}}, 0));
  tiny.published.save(Kept(stored, tiny.path), tiny.config, path("hf"), model.device);
  const SafetensorsFile first(tiny.path + "/model.safetensors"), second(path("hf/model.safetensors"));
  ASSERT_EQ(first.entries().size(), second.entries().size());
  for (const SafetensorsEntry& entry : first.entries()) {
    EXPECT_EQ(values_of<float>(first, entry.name), values_of<float>(second, entry.name)) << entry.name;
  }
  const ModelConfig again = layout_of(path("hf")).read(path("hf"));
  EXPECT_EQ(again.classes, 3);
  EXPECT_EQ(again.settings, tiny.config.settings);
  const Json config = parse_json(read_text(path("hf/config.json"), 1 << 20));
  EXPECT_EQ(config["architectures"][0],
            parse_json(read_text(tiny.path + "/config.json", 1 << 20))["architectures"][0]);
}

TEST_F(TemporaryFolderTest, SeveralLabelsOfATextAreThoseOfTransformers) {
  Tiny tiny("qwen3_classes_tiny");
  tiny.config.set(kMultiLabel, true);
  tiny.batch.targets = values_of<float>(tiny.expected, "targets");
  const auto made = make_model(tiny.config);
  const auto head = static_cast<std::size_t>(
      std::ranges::find(made->tensors(), "score.weight", &TensorInfo::name) - made->tensors().begin());
  for (const char* device : {"cpu", "cuda-emulated"}) {
    double loss = 0;
    tiny.outputs(device, &loss);
    EXPECT_NEAR(loss, values_of<float>(tiny.expected, "several_loss")[0], 1e-5 * loss) << device;
    expect_near_largest(tiny.gradients(device, {tiny.batch})[head],
                        values_of<float>(tiny.expected, "several"), 3e-5, device, 1e-6);
  }
  // config.json says that there are several.
  Imported model(tiny.published, tiny.config, tiny.path);
  const StoredWeights stored(save_checkpoint(path("c"), 0, tiny.config.name, model.memory,
                                             Buffers({}, model.device), {{"x", 1}}, 0));
  tiny.published.save(Kept(stored, tiny.path), tiny.config, path("hf"), model.device);
  EXPECT_TRUE(layout_of(path("hf")).read(path("hf")).flag(kMultiLabel));
  // The flag is gone once the head is of one class again.
  tiny.config.set(kMultiLabel, false);
  tiny.published.save(Kept(stored, path("hf")), tiny.config, path("one"), model.device);
  EXPECT_FALSE(layout_of(path("one")).read(path("one")).flag(kMultiLabel));
  // Sizes of classes may not be smoothed there.
  tiny.config.set(kMultiLabel, true);
  tiny.config.set("label_smoothing", 0.1);
  EXPECT_NE(said([&] { make_model(tiny.config); }).find("examples of one class each"), std::string::npos);
}

// As older files have them: a pooler that the head of words does not use, and no word of what it tells.
TEST_F(TemporaryFolderTest, AHeadOfWordsMayComeWithAPooler) {
  const std::string tiny = folder_of("bert_words_tiny");
  const SafetensorsFile file(tiny + "/model.safetensors");
  std::vector<SafetensorsSource> tensors;
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape,
                       const std::vector<float>& values) {
    tensors.push_back(
        {name, "F32", shape, [values](const auto& sink) { sink(std::as_bytes(std::span(values))); }});
  };
  for (const SafetensorsEntry& entry : file.entries())
    add(entry.name, entry.shape, values_of<float>(file, entry.name));
  add("bert.pooler.dense.weight", {16, 16}, std::vector<float>(256));
  add("bert.pooler.dense.bias", {16}, std::vector<float>(16));
  write_safetensors(path("model.safetensors"), {}, tensors);
  Json config = parse_json(read_text(tiny + "/config.json", 1 << 20));
  write_text(path("config.json"), config.dump());
  const Published& published = layout_of(path("config.json"));
  const ModelConfig model = published.read(path("config.json"));
  EXPECT_TRUE(model.flag(kOfWords));
  EXPECT_NE(published.remark(path("config.json"), model).find("its pooler is left out"), std::string::npos);
  const Imported imported(published, model, path("config.json"));
  // Without `architectures`, a pooler means a model of sentences.
  config.erase("architectures");
  write_text(path("config.json"), config.dump());
  EXPECT_FALSE(published.read(path("config.json")).flag(kOfWords));
  EXPECT_TRUE(published.read(tiny).flag(kOfWords));
}

// Without its head the text's last position is its vector, whatever token it is.
TEST_F(TemporaryFolderTest, ALlamasVectorIsItsEnd) {
  Tiny tiny("qwen3_classes_tiny");
  Imported whole(tiny.published, tiny.config, tiny.path);
  const StoredWeights stored(save_checkpoint(path("c"), 0, tiny.config.name, whole.memory,
                                             Buffers({}, whole.device), {{"x", 1}}, 0));
  tiny.config.classes = 0;
  const auto embeds = make_model(tiny.config);
  ModelMemory memory(embeds->tensors(), make_policy("fp32"), {}, 1, 1, whole.device);
  EXPECT_TRUE(load_parameters(stored, memory, "score.").empty());
  const Buffers none({}, whole.device);
  std::vector<float> out;
  embeds->build(3, ValueType::kFp32, whole.device)->evaluate(memory, none, tiny.batch, &out);
  expect_near_largest(out, values_of<float>(tiny.expected, "ends"), 1e-5, "ends", 1e-6);
  // Saved without a head, tensors have the names of a bare model, as embedders are published.
  const StoredWeights bare(
      save_checkpoint(path("b"), 0, tiny.config.name, memory, Buffers({}, whole.device), {{"x", 1}}, 0));
  tiny.published.save(bare, tiny.config, path("hf"), whole.device);
  EXPECT_NE(SafetensorsFile(path("hf/model.safetensors")).find("layers.0.mlp.up_proj.weight"), nullptr);
  const auto say = [&](const std::string& mode) {
    fs::create_directories(path("hf/1_Pooling"));
    write_text(path("hf/modules.json"),
               R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
                   {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}])");
    write_text(path("hf/1_Pooling/config.json"), "{\"pooling_mode_" + mode + "\": true}");
    return layout_of(path("hf")).read(path("hf"));
  };
  EXPECT_EQ(say("lasttoken").name, "llama-sentences");
  EXPECT_FALSE(say("lasttoken").flag("mean_embeds"));
  EXPECT_TRUE(say("mean_tokens").flag("mean_embeds"));
  EXPECT_FALSE(say("weightedmean_tokens").flag("mean_embeds"));
  EXPECT_TRUE(say("weightedmean_tokens").flag("weighted_embeds"));
  write_text(path("hf/sentence_bert_config.json"), R"({"modality_config": {"text": {}, "message": {}}})");
  EXPECT_NE(said([&] { say("lasttoken"); }).find("chat template, which is not done here"), std::string::npos);
  fs::remove(path("hf/sentence_bert_config.json"));
  EXPECT_NE(said([&] { say("cls_token"); }).find("made by \"cls\", which is not here for a qwen3"),
            std::string::npos);
}

// A model of text becomes one of classes: its sizes and weights, and a new head.
TEST_F(TemporaryFolderTest, AHeadStartsFromAModelOfText) {
  const std::string text = folder_of("mistral_tiny");  // with an output of its own
  const Published& published = layout_of(text);
  ModelConfig config = published.read(text);
  Imported model(published, config, text);
  const StoredWeights stored(
      save_checkpoint(path("c"), 0, config.name, model.memory, Buffers({}, model.device), {{"x", 1}}, 0));
  const RunConfig run = parse_config("[model]\nname = \"llama-sentences\"\n[train]\nsteps = 1\n", "a test",
                                     {.families = &families(), .start = &config});
  ModelConfig with_head = run.model;
  EXPECT_EQ(with_head.integer("window"), 7);
  EXPECT_EQ(with_head.integer("embedding"), 16);
  with_head.classes = 4;
  const auto made = make_model(with_head);
  ModelMemory memory(made->tensors(), make_policy("fp32"), {}, 1, 1, model.device);
  EXPECT_EQ(load_parameters(stored, memory, "score.", false, with_head.family->other_head),
            std::vector<std::string>{"score.weight"});
}

}  // namespace
}  // namespace lpmm
