// BERT: what transformers computed with a small one (tests/golden/make_bert_tiny.py), the way there and back,
// and heads that differ from those of the weights.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "kernels/cpu.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/stored_weights.h"
#include "models/bert_hugging_face.h"
#include "tests/models/imported.h"

namespace lpmm {
namespace {

const std::string kTinyBert = LPMM_SOURCE_DIR "/tests/golden/bert_tiny";

struct Expected {
  SafetensorsFile file{kTinyBert + "/expected.safetensors"};
  Batch batch;
  Expected() {
    batch.count = 3;
    batch.length = 16;
    batch.tokens = values_of<std::int32_t>(file, "ids");
    batch.types = values_of<std::int32_t>(file, "types");
    batch.lengths = values_of<std::int32_t>(file, "lengths");
    batch.labels = values_of<std::int32_t>(file, "labels");
  }
};

ModelConfig tiny_bert(int classes = 3) {
  ModelConfig config = bert_hugging_face().read(kTinyBert);
  config.classes = classes;
  return config;
}

class BertTest : public TemporaryFolderTest {
 protected:
  std::vector<float> outputs(Imported& model, const Batch& batch) {
    const Buffers none({}, model.device);
    std::vector<float> out;
    model.model->build(3, Compute::kFp32, model.device)->evaluate(model.memory, none, batch, &out);
    return out;
  }
  Expected expected_;
};

constexpr double kFloor = 1e-6;

TEST_F(BertTest, LogitsAreThoseOfTransformers) {
  EXPECT_EQ(bert_hugging_face().read(kTinyBert).classes, 3);
  Imported model(bert_hugging_face(), tiny_bert(), kTinyBert);
  expect_near_largest(outputs(model, expected_.batch), values_of<float>(expected_.file, "logits"), 1e-5,
                      "logits", kFloor);
  // What lies behind a sentence does not matter, nor how far it is filled up.
  Batch longer;
  longer.count = 3;
  longer.length = 24;
  longer.lengths = expected_.batch.lengths;
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t t = 0; t < 24; ++t) {
      const bool is_there = t < static_cast<std::size_t>(longer.lengths[i]);
      longer.tokens.push_back(is_there ? expected_.batch.tokens[16 * i + t] : 7);
      longer.types.push_back(is_there ? expected_.batch.types[16 * i + t] : 1);
    }
  }
  longer.labels = expected_.batch.labels;
  expect_near_largest(outputs(model, longer), values_of<float>(expected_.file, "logits"), 1e-5, "longer",
                      kFloor);
}

TEST_F(BertTest, EmbeddingsAreTheMeansOfPositions) {
  // Saved with a head that an embedding has no use for.
  ModelConfig config = tiny_bert(0);
  Imported model(bert_hugging_face(), tiny_bert(), kTinyBert);
  const StoredWeights stored(
      save_checkpoint(path("c"), 0, "bert", model.memory, Buffers({}, model.device), {{"x", 1}}, 0));
  CpuDevice device(2);
  const auto embeds = make_model(config);
  ModelMemory memory(embeds->tensors(), make_policy("fp32"), {}, 1, 1, device);
  EXPECT_TRUE(load_parameters(stored, memory, "classifier.").empty());
  const Buffers none({}, device);
  std::vector<float> out;
  embeds->build(3, Compute::kFp32, device)->evaluate(memory, none, expected_.batch, &out);
  expect_near_largest(out, values_of<float>(expected_.file, "means"), 1e-5, "means", kFloor);
}

TEST_F(BertTest, GradientsOfEveryTensorAreThoseOfTransformers) {
  for (const auto& [device, recompute] : {std::pair{"cpu", false}, {"cpu", true}, {"cuda-emulated", false}}) {
    ModelConfig config = tiny_bert();
    config.set("recompute", recompute);
    Imported model(bert_hugging_face(), config, kTinyBert, device);
    Buffers none({}, model.device);
    model.memory.begin_step(1);
    model.model->build(3, Compute::kFp32, model.device)->train(model.memory, none, expected_.batch, 0);
    for (int t = 0; t < model.memory.tensors(); ++t) {
      const std::string& name = model.memory.info(t).name;
      const std::string theirs = (name.starts_with("classifier.") ? "" : "bert.") + name;
      expect_near_largest(model.gradient(t), values_of<float>(expected_.file, theirs), 3e-5,
                          device + (" " + name), kFloor);
    }
  }
}

TEST_F(BertTest, TheWayThereAndBackGivesTheSameFile) {
  const ModelConfig config = tiny_bert();
  Imported model(bert_hugging_face(), config, kTinyBert);
  const StoredWeights stored(
      save_checkpoint(path("c"), 0, "bert", model.memory, Buffers({}, model.device), {{"x", 1}}, 0));
  bert_hugging_face().save(stored, config, path("hf"), model.device);
  const SafetensorsFile first(kTinyBert + "/model.safetensors"), second(path("hf/model.safetensors"));
  ASSERT_EQ(first.entries().size(), second.entries().size());
  for (const SafetensorsEntry& entry : first.entries()) {
    EXPECT_EQ(values_of<float>(first, entry.name), values_of<float>(second, entry.name)) << entry.name;
  }
  const ModelConfig again = bert_hugging_face().read(path("hf"));
  EXPECT_EQ(again.classes, 3);
  EXPECT_EQ(again.settings, config.settings);
}

// Fine-tuning for another task: the encoder is taken over, the head drawn.
TEST_F(BertTest, AHeadForOtherClassesIsDrawn) {
  Imported model(bert_hugging_face(), tiny_bert(), kTinyBert);
  const std::string checkpoint =
      save_checkpoint(path("c"), 0, "bert", model.memory, Buffers({}, model.device), {{"x", 1}}, 0);
  RunConfig config;
  config.model = tiny_bert(2);
  config.train.init = checkpoint;
  const auto other = make_model(config.model);
  ModelMemory memory(other->tensors(), make_policy("fp32"), {}, 1, 1, model.device);
  Buffers none({}, model.device);
  const InitialParameters initial = set_initial_parameters(config, *other, memory, none);
  EXPECT_EQ(initial.drawn, (std::vector<std::string>{"classifier.weight", "classifier.bias"}));
  std::vector<float> drawn(2 * 16), kept(16 * 16);
  memory.decode(memory.find("classifier.weight"), 0, drawn);
  memory.decode(memory.find("pooler.dense.weight"), 0, kept);
  EXPECT_NE(drawn, std::vector<float>(2 * 16));
  EXPECT_EQ(kept, model.parameter(model.memory.find("pooler.dense.weight")));
}

TEST_F(BertTest, WhatItCannotReadIsSaid) {
  Imported model(bert_hugging_face(), tiny_bert(), kTinyBert);
  Batch batch = expected_.batch;
  batch.lengths[1] = 17;
  EXPECT_THROW(outputs(model, batch), RunError);
  batch = expected_.batch;
  batch.lengths[1] = 0;
  EXPECT_THROW(outputs(model, batch), RunError);
  batch = expected_.batch;
  batch.types[3] = 2;
  EXPECT_THROW(outputs(model, batch), RunError);
  batch = expected_.batch;
  batch.length = 20;  // no program is for it
  EXPECT_THROW(outputs(model, batch), std::logic_error);
  const auto embeds = make_model(tiny_bert(0));
  ModelMemory memory(embeds->tensors(), make_policy("fp32"), {}, 1, 1, model.device);
  Buffers none({}, model.device);
  memory.begin_step(1);
  EXPECT_THROW(embeds->build(3, Compute::kFp32, model.device)->train(memory, none, expected_.batch, 0),
               UsageError);
  EXPECT_THROW(embeds->build_inference(1, Compute::kFp32, model.device), UsageError);
}

}  // namespace
}  // namespace lpmm
