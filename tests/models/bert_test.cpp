// BERT, RoBERTa, MPNet and DistilBERT: what transformers computed with small ones
// (tests/golden/make_bert_tiny.py, make_roberta_tiny.py), the way there and back, and heads that differ from
// those of the weights.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernels/cpu.h"
#include "lpmm/data/tokenizers/pipeline.h"
#include "lpmm/files/files.h"
#include "lpmm/files/json.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/stored_weights.h"
#include "models/families.h"
#include "models/published/layouts.h"
#include "tests/models/imported.h"

namespace lpmm {
namespace {

struct Fixture {
  const char *name, *prefix;
  std::vector<std::string> classifier;  // whose first dimension is of classes
  int types;
  const char* dense;       // the layer before the classifier
  const char* other_head;  // a tensor of what it was first trained with
  std::string path() const { return std::string(LPMM_SOURCE_DIR "/tests/golden/") + name + "_tiny"; }
};
const Fixture kBertFixture{"bert",
                           "bert.",
                           {"classifier.weight", "classifier.bias"},
                           2,
                           "pooler.dense.weight",
                           "cls.predictions.bias"};
const Fixture kRobertaFixture{"roberta",
                              "roberta.",
                              {"classifier.out_proj.weight", "classifier.out_proj.bias"},
                              1,
                              "classifier.dense.weight",
                              "lm_head.bias"};
const Fixture kXlmRobertaFixture{
    "xlm-roberta",         kRobertaFixture.prefix,    kRobertaFixture.classifier, 1,
    kRobertaFixture.dense, kRobertaFixture.other_head};
const Fixture kMpnetFixture{
    "mpnet", "mpnet.", kRobertaFixture.classifier, 0, kRobertaFixture.dense, kRobertaFixture.other_head};
const Fixture kDistilledFixture{"distilbert",
                                "distilbert.",
                                {"classifier.weight", "classifier.bias"},
                                0,
                                "pre_classifier.weight",
                                "vocab_projector.bias"};

struct Expected {
  SafetensorsFile file;
  Batch batch;
  explicit Expected(const Fixture& fixture) : file(fixture.path() + "/expected.safetensors") {
    batch.count = 3;
    batch.length = 16;
    batch.tokens = values_of<std::int32_t>(file, "ids");
    batch.types = values_of<std::int32_t>(file, "types");
    batch.lengths = values_of<std::int32_t>(file, "lengths");
    batch.labels = values_of<std::int32_t>(file, "labels");
  }
};

class BertTest : public TemporaryFolderTest, public testing::WithParamInterface<const Fixture*> {
 protected:
  const Fixture& fixture_ = *GetParam();
  const std::string published_ = fixture_.path();
  ModelConfig tiny(int classes = 3) const {
    ModelConfig config = bert_hugging_face().read(published_);
    config.classes = classes;
    return config;
  }
  std::vector<float> outputs(Imported& model, const Batch& batch) {
    const Buffers none({}, model.device);
    std::vector<float> out;
    model.model->build(3, ValueType::kFp32, model.device)->evaluate(model.memory, none, batch, &out);
    return out;
  }
  Expected expected_{fixture_};
};
INSTANTIATE_TEST_SUITE_P(Kinds, BertTest,
                         testing::Values(&kBertFixture, &kRobertaFixture, &kXlmRobertaFixture, &kMpnetFixture,
                                         &kDistilledFixture),
                         [](const auto& of) {
                           std::string name = of.param->name;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

constexpr double kFloor = 1e-6;

TEST_P(BertTest, LogitsAreThoseOfTransformers) {
  const ModelConfig config = bert_hugging_face().read(published_);
  EXPECT_EQ(config.classes, 3);
  EXPECT_EQ(config.name, fixture_.name);
  EXPECT_EQ(config.integer(kContext), 24);
  Imported model(bert_hugging_face(), tiny(), published_);
  expect_near_largest(outputs(model, expected_.batch), values_of<float>(expected_.file, "logits"), 1e-5,
                      "logits", kFloor);
  // Tokens behind a sentence do not matter, nor how far it is filled up.
  Batch longer;
  longer.count = 3;
  longer.length = 24;
  longer.lengths = expected_.batch.lengths;
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t t = 0; t < 24; ++t) {
      const bool is_there = t < static_cast<std::size_t>(longer.lengths[i]);
      longer.tokens.push_back(is_there ? expected_.batch.tokens[16 * i + t] : 7);
      longer.types.push_back(is_there ? expected_.batch.types[16 * i + t] : std::max(fixture_.types - 1, 0));
    }
  }
  longer.labels = expected_.batch.labels;
  expect_near_largest(outputs(model, longer), values_of<float>(expected_.file, "logits"), 1e-5, "longer",
                      kFloor);
}

TEST_P(BertTest, EmbeddingsAreTheMeansOfPositions) {
  // Saved with a head that an embedding has no use for.
  ModelConfig config = tiny(0);
  Imported model(bert_hugging_face(), tiny(), published_);
  const StoredWeights stored(
      save_checkpoint(path("c"), 0, fixture_.name, model.memory, Buffers({}, model.device), {{"x", 1}}, 0));
  CpuDevice device(2);
  const auto embeds = make_model(config);
  ModelMemory memory(embeds->tensors(), make_policy("fp32"), {}, 1, 1, device);
  EXPECT_TRUE(load_parameters(stored, memory, "classifier.").empty());
  const Buffers none({}, device);
  std::vector<float> out;
  embeds->build(3, ValueType::kFp32, device)->evaluate(memory, none, expected_.batch, &out);
  expect_near_largest(out, values_of<float>(expected_.file, "means"), 1e-5, "means", kFloor);
}

TEST_P(BertTest, GradientsOfEveryTensorAreThoseOfTransformers) {
  for (const auto& [device, recompute] : {std::pair{"cpu", false}, {"cpu", true}, {"cuda-emulated", false}}) {
    ModelConfig config = tiny();
    config.set("recompute", recompute);
    Imported model(bert_hugging_face(), config, published_, device);
    Buffers none({}, model.device);
    Step step = model.memory.begin_step({1});
    model.model->build(3, ValueType::kFp32, model.device)
        ->train(model.memory, step, none, expected_.batch, 0);
    for (int t = 0; t < model.memory.tensors(); ++t) {
      const std::string& name = model.memory.info(t).name;
      const bool is_of_head = name.find("classifier.") != std::string::npos;
      const std::string theirs = (is_of_head ? "" : fixture_.prefix) + name;
      expect_near_largest(model.gradient(t), values_of<float>(expected_.file, theirs), 3e-5,
                          device + (" " + name), kFloor);
    }
  }
}

TEST_P(BertTest, TheWayThereAndBackGivesTheSameFile) {
  const ModelConfig config = tiny();
  Imported model(bert_hugging_face(), config, published_);
  const StoredWeights stored(
      save_checkpoint(path("c"), 0, fixture_.name, model.memory, Buffers({}, model.device), {{"x", 1}}, 0));
  bert_hugging_face().save(stored, config, path("hf"), model.device);
  const SafetensorsFile first(published_ + "/model.safetensors"), second(path("hf/model.safetensors"));
  ASSERT_EQ(first.entries().size(), second.entries().size());
  for (const SafetensorsEntry& entry : first.entries()) {
    EXPECT_EQ(values_of<float>(first, entry.name), values_of<float>(second, entry.name)) << entry.name;
  }
  const ModelConfig again = bert_hugging_face().read(path("hf"));
  EXPECT_EQ(again.classes, 3);
  EXPECT_EQ(again.settings, config.settings);
  EXPECT_EQ(again.name, config.name);
}

// The first published BERTs: norms have the names of TensorFlow, and there are heads that were trained first.
TEST_P(BertTest, OldNamesAreReadAndOtherHeadsLeftOut) {
  const SafetensorsFile file(published_ + "/model.safetensors");
  std::vector<SafetensorsSource> tensors;
  const auto add = [&](std::string name, const std::vector<std::int64_t>& shape, std::vector<float> values) {
    for (const auto& [now, then] :
         {std::pair{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}}) {
      if (name.ends_with(now)) name.replace(name.rfind(now), std::string::npos, then);
    }
    tensors.push_back(
        {name, "F32", shape, [values](const auto& sink) { sink(std::as_bytes(std::span(values))); }});
  };
  for (const SafetensorsEntry& entry : file.entries()) {
    add(entry.name, entry.shape, values_of<float>(file, entry.name));
  }
  EXPECT_EQ(bert_hugging_face().remark(published_, tiny()), "");
  add(fixture_.other_head, {2}, {1, 2});
  std::filesystem::create_directories(path("old"));
  std::filesystem::copy_file(published_ + "/config.json", path("old/config.json"));
  write_safetensors(path("old/model.safetensors"), {}, tensors);
  EXPECT_NE(bert_hugging_face().remark(path("old"), tiny()).find("first trained with"), std::string::npos);
  Imported now(bert_hugging_face(), tiny(), published_), old(bert_hugging_face(), tiny(), path("old"));
  EXPECT_EQ(outputs(old, expected_.batch), outputs(now, expected_.batch));
}

// Fine-tuning for another task: the encoder is taken over, the head drawn.
TEST_P(BertTest, AHeadForOtherClassesIsDrawn) {
  Imported model(bert_hugging_face(), tiny(), published_);
  const std::string checkpoint =
      save_checkpoint(path("c"), 0, fixture_.name, model.memory, Buffers({}, model.device), {{"x", 1}}, 0);
  RunConfig config;
  config.model = tiny(2);
  config.train.init = checkpoint;
  const auto other = make_model(config.model);
  ModelMemory memory(other->tensors(), make_policy("fp32"), {}, 1, 1, model.device);
  Buffers none({}, model.device);
  const InitialParameters initial = set_initial_parameters(config, *other, memory, none);
  EXPECT_EQ(initial.drawn, fixture_.classifier);
  std::vector<float> drawn(2 * 16), kept(16 * 16);
  memory.decode(memory.find(fixture_.classifier[0]), 0, drawn);
  memory.decode(memory.find(fixture_.dense), 0, kept);
  EXPECT_NE(drawn, std::vector<float>(2 * 16));
  EXPECT_EQ(kept, model.parameter(model.memory.find(fixture_.dense)));
}

TEST_P(BertTest, WhatItCannotReadIsSaid) {
  Imported model(bert_hugging_face(), tiny(), published_);
  Batch batch = expected_.batch;
  batch.lengths[1] = 17;
  EXPECT_THROW(outputs(model, batch), RunError);
  batch = expected_.batch;
  batch.lengths[1] = 0;
  EXPECT_THROW(outputs(model, batch), RunError);
  batch = expected_.batch;
  batch.types[3] = fixture_.types;
  if (fixture_.types > 0) {
    EXPECT_THROW(outputs(model, batch), RunError);
  }
  batch = expected_.batch;
  batch.length = 20;  // no program is for it
  EXPECT_THROW(outputs(model, batch), std::logic_error);
  const auto embeds = make_model(tiny(0));
  ModelMemory memory(embeds->tensors(), make_policy("fp32"), {}, 1, 1, model.device);
  Buffers none({}, model.device);
  Step step = memory.begin_step({1});
  EXPECT_THROW(
      embeds->build(3, ValueType::kFp32, model.device)->train(memory, step, none, expected_.batch, 0),
      UsageError);
  EXPECT_THROW(embeds->build_inference(1, ValueType::kFp32, model.device), UsageError);
}

TEST(Roberta, HasThePublishedNumberOfParameters) {
  ModelConfig config = families().config("roberta-base");
  config.classes = 2;
  config.length = 512;
  std::int64_t parameters = 0;
  const auto model = make_model(config);
  for (const TensorInfo& t : model->tensors()) parameters += t.elements();
  // The encoder, and a head of 768 x 768 + 768 and 2 x 768 + 2.
  EXPECT_EQ(parameters, 124'055'040 + 768 * 769 + 2 * 769);
  ModelConfig both = families().config("bert-base");
  both.set("dense_head", true);
  EXPECT_THROW(make_model(both), UsageError);
}

TEST(Roberta, PairsAreReadAsTransformersReadsThem) {
  const Expected expected(kRobertaFixture);
  const auto tokenizer = load_tokenizer(kRobertaFixture.path() + "/tokenizer.json");
  const auto& pieces = dynamic_cast<const PipelineTokenizer&>(*tokenizer);
  EXPECT_EQ(pieces.encode_sentences("a dog sat").ids, values_of<std::int32_t>(expected.file, "sentence"));
  const Sentences pair = pieces.encode_sentences("a dog sat", "the cat, at last");
  EXPECT_EQ(pair.ids, values_of<std::int32_t>(expected.file, "pair"));
  EXPECT_EQ(pair.types, std::vector<std::int32_t>(pair.ids.size()));
}

// A CamemBERT is one by its name alone, and stays one.
TEST(Roberta, ACamembertIsExportedAsOne) {
  const Scratch scratch;
  Json config = Json::parse(read_text(kXlmRobertaFixture.path() + "/config.json", 1 << 20));
  config["model_type"] = "camembert";
  std::filesystem::copy(kXlmRobertaFixture.path() + "/model.safetensors", scratch / "model.safetensors");
  write_text(scratch / "config.json", config.dump());
  const ModelConfig read = bert_hugging_face().read(scratch.path());
  EXPECT_EQ(read.name, "camembert");
  Imported model(bert_hugging_face(), read, scratch.path());
  const StoredWeights stored(
      save_checkpoint(scratch / "c", 0, read.name, model.memory, Buffers({}, model.device), {{"x", 1}}, 0));
  bert_hugging_face().save(stored, read, scratch / "hf", model.device);
  const Json written = Json::parse(read_text(scratch / "hf/config.json", 1 << 20));
  EXPECT_EQ(written["model_type"], "camembert");
  EXPECT_EQ(written["architectures"][0], "CamembertForSequenceClassification");
}

TEST(DistilBert, HasThePublishedNumberOfParameters) {
  ModelConfig config = families().config("distilbert-base");
  config.classes = 2;
  std::int64_t parameters = 0;
  const auto model = make_model(config);
  for (const TensorInfo& t : model->tensors()) parameters += t.elements();
  EXPECT_EQ(parameters, 66'955'010);
  ModelConfig both = families().config("bert-base");
  both.set("distilled", true);
  EXPECT_THROW(make_model(both), UsageError);
}

TEST(DistilBert, WhatItsPublishersHaveNoPlaceForIsRefused) {
  const Scratch scratch;
  const ModelConfig tiny = bert_hugging_face().read(kDistilledFixture.path());
  Imported model(bert_hugging_face(), tiny, kDistilledFixture.path());
  const StoredWeights stored(save_checkpoint(scratch / "c", 0, "distilbert", model.memory,
                                             Buffers({}, model.device), {{"x", 1}}, 0));
  for (const auto& [key, value] :
       {std::pair<std::string, SettingValue>{"epsilon", 1e-5}, {std::string(kTypes), std::int64_t{1}}}) {
    ModelConfig other = tiny;
    other.set(key, value);
    EXPECT_THROW(bert_hugging_face().save(stored, other, scratch / "hf", model.device), UsageError) << key;
  }
  EXPECT_FALSE(std::filesystem::exists(scratch / "hf"));
  // A head without the layer before it tells something of every token.
  const SafetensorsFile file(kDistilledFixture.path() + "/model.safetensors");
  std::vector<SafetensorsSource> tensors;
  for (const SafetensorsEntry& entry : file.entries()) {
    if (entry.name.starts_with("pre_")) continue;
    const std::vector<float> values = values_of<float>(file, entry.name);
    tensors.push_back({entry.name, "F32", entry.shape,
                       [values](const auto& sink) { sink(std::as_bytes(std::span(values))); }});
  }
  std::filesystem::copy_file(kDistilledFixture.path() + "/config.json", scratch / "config.json");
  write_safetensors(scratch / "model.safetensors", {}, tensors);
  EXPECT_THROW(bert_hugging_face().read(scratch / "config.json"), RunError);
}

TEST(Mpnet, HasThePublishedNumberOfParameters) {
  ModelConfig config = families().config("mpnet-base");
  config.length = 384;
  const auto model = make_model(config);
  std::int64_t parameters = 0;
  for (const TensorInfo& t : model->tensors()) parameters += t.elements();
  EXPECT_EQ(parameters, 109'486'464);  // of all-mpnet-base-v2, with its pooler
  for (const auto& [key, value] :
       {std::pair<std::string, SettingValue>{"dense_head", false}, {std::string(kTypes), std::int64_t{1}}}) {
    ModelConfig other = families().config("mpnet-base");
    other.set(key, value);
    EXPECT_THROW(make_model(other), UsageError) << key;
  }
}

// As sentence models are published: without a prefix and a head, with a pooler that stays.
TEST(Mpnet, APoolerStaysWithAMakerOfVectors) {
  const Scratch scratch;
  const std::string tiny = kMpnetFixture.path();
  const SafetensorsFile file(tiny + "/model.safetensors");
  std::vector<SafetensorsSource> tensors;
  const auto add = [&](std::string name, const std::vector<std::int64_t>& shape, std::vector<float> values) {
    tensors.push_back({std::move(name), "F32", shape,
                       [values](const auto& sink) { sink(std::as_bytes(std::span(values))); }});
  };
  for (const SafetensorsEntry& entry : file.entries()) {
    if (entry.name.starts_with("mpnet."))
      add(entry.name.substr(6), entry.shape, values_of<float>(file, entry.name));
  }
  add("pooler.dense.weight", {16, 16}, std::vector<float>(256, 0.5F));
  add("pooler.dense.bias", {16}, std::vector<float>(16, 0.25F));
  std::filesystem::copy_file(tiny + "/config.json", scratch / "config.json");
  write_safetensors(scratch / "model.safetensors", {}, tensors);
  const ModelConfig config = bert_hugging_face().read(scratch.path());
  EXPECT_EQ(config.classes, 0);
  EXPECT_TRUE(config.flag("pooler"));
  Imported model(bert_hugging_face(), config, scratch.path());
  const StoredWeights stored(
      save_checkpoint(scratch / "c", 0, config.name, model.memory, Buffers({}, model.device), {{"x", 1}}, 0));
  bert_hugging_face().save(stored, config, scratch / "hf", model.device);
  const SafetensorsFile back(scratch / "hf/model.safetensors");
  ASSERT_EQ(back.entries().size(), tensors.size());
  EXPECT_EQ(values_of<float>(back, "pooler.dense.weight"), std::vector<float>(256, 0.5F));
  const Json written = Json::parse(read_text(scratch / "hf/config.json", 1 << 20));
  EXPECT_EQ(written["architectures"][0], "MPNetModel");
  EXPECT_EQ(written["relative_attention_num_buckets"], 32);
  EXPECT_FALSE(written.contains("type_vocab_size"));
  ModelConfig other = config;
  other.set("first_position", std::int64_t{3});
  EXPECT_THROW(bert_hugging_face().save(stored, other, scratch / "other", model.device), UsageError);
  // Its head has no use for the pooler, and is drawn.
  ModelConfig tuned = config;
  tuned.classes = 2;
  const auto with_head = make_model(tuned);
  ModelMemory memory(with_head->tensors(), make_policy("fp32"), {}, 1, 1, model.device);
  EXPECT_LT(memory.find("pooler.dense.weight"), 0);
  const Family& family = *tuned.family;
  EXPECT_EQ(load_parameters(stored, memory, family.head, false, family.other_head).size(), 4U);
  for (const auto& [key, value] :
       {std::pair<const char*, Json>{"pad_token_id", 0}, {"relative_attention_num_buckets", 64}}) {
    Json said = Json::parse(read_text(tiny + "/config.json", 1 << 20));
    said[key] = value;
    write_text(scratch / "config.json", said.dump());
    EXPECT_THROW(bert_hugging_face().read(scratch.path()), RunError) << key;
  }
}

// Settings that the name usually decides may be otherwise.
TEST(Roberta, AnotherOneHasItsOwnSettings) {
  const Scratch scratch;
  Json config = Json::parse(read_text(kRobertaFixture.path() + "/config.json", 1 << 20));
  config["type_vocab_size"] = 2;
  std::filesystem::copy(kRobertaFixture.path() + "/model.safetensors", scratch / "model.safetensors");
  write_text(scratch / "config.json", config.dump());
  const ModelConfig read = bert_hugging_face().read(scratch / "config.json");
  EXPECT_EQ(read.name, "roberta");
  EXPECT_EQ(read.integer(kTypes), 2);
  EXPECT_EQ(read.integer("first_position"), 2);
  EXPECT_EQ(complete(read).settings, read.settings);
  config["pad_token_id"] = 25;
  write_text(scratch / "config.json", config.dump());
  EXPECT_THROW(bert_hugging_face().read(scratch / "config.json"), RunError);
}

}  // namespace
}  // namespace lpmm
