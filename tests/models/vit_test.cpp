// ViTs: timm's sizes and names, and what its code computes with a small one
// (tests/golden/make_vit_fixture.py).
#include <gtest/gtest.h>

#include <map>

#include "lpmm/program/ops/sequence/grid_positions.h"
#include "lpmm/run/stored_weights.h"
#include "models/families.h"
#include "models/published/layouts.h"
#include "tests/models/parameters.h"
#include "tests/models/published_images.h"

namespace lpmm {
namespace {

const std::string kTinyVit = LPMM_SOURCE_DIR "/tests/golden/vit_tiny.safetensors";

TEST(Vit, HasTimmsNumbersOfParameters) {
  const std::map<std::string, std::int64_t> counts = {
      {"vit-tiny", 5717416}, {"vit-small", 22050664}, {"vit-base", 86567656}};
  for (const auto& [name, count] : counts)
    EXPECT_EQ(parameters(*make_model(of_imagenet(name))), count) << name;
}

TEST(Vit, HasTimmsNamesAndShapes) {
  using Shape = std::vector<std::int64_t>;
  std::map<std::string, Shape> shapes;
  const auto model = make_model(of_imagenet("vit-tiny"));
  for (const TensorInfo& t : model->tensors()) shapes[t.name] = t.shape;
  EXPECT_EQ(shapes.size(), 152U);
  EXPECT_EQ(shapes.at("cls_token"), (Shape{1, 1, 192}));
  EXPECT_EQ(shapes.at("pos_embed"), (Shape{1, 197, 192}));
  EXPECT_EQ(shapes.at("patch_embed.proj.weight"), (Shape{192, 3, 16, 16}));
  EXPECT_EQ(shapes.at("blocks.11.attn.qkv.weight"), (Shape{576, 192}));
  EXPECT_EQ(shapes.at("blocks.0.mlp.fc2.weight"), (Shape{192, 768}));
  EXPECT_EQ(shapes.at("head.bias"), (Shape{1000}));
}

TEST(Vit, RefusesPatchesThatDoNotFit) {
  ModelConfig config = of_imagenet("vit-tiny");
  config.height = 225;
  EXPECT_THROW(make_model(config), UsageError);
  config = of_imagenet("vit-tiny");
  config.set("heads", 5);
  EXPECT_THROW(make_model(config), UsageError);
}

ModelConfig tiny_vit() {
  ModelConfig config = vit_timm().read(kTinyVit);
  EXPECT_EQ(config.integer("layers"), 2);
  EXPECT_EQ(config.integer("embedding"), 8);
  EXPECT_EQ(config.integer("patch"), 4);
  EXPECT_EQ(config.height, 16);
  EXPECT_EQ(config.classes, 5);
  config.set("heads", 2);  // not to be told from the tensors
  return config;
}

TEST(Vit, ComputesWhatTimmDoes) {
  for (const bool again : {false, true}) {
    ModelConfig config = tiny_vit();
    config.set("recompute", again);
    PublishedImages tiny(vit_timm(), kTinyVit, config, "cpu");
    const SafetensorsFile expected(LPMM_SOURCE_DIR "/tests/golden/vit_tiny_expected.safetensors");
    tiny.expect_logits(published_values(expected, "logits"));
    tiny.train(published_values(expected, "loss")[0]);
    EXPECT_EQ(tiny.expect_gradients(expected, "gradient."), 9);
  }
}

// The same of another one of timm's, in tests/golden/NAME.safetensors, of which `gradients` are compared.
ModelConfig expect_timms(const std::string& name, int gradients) {
  const std::string path = LPMM_SOURCE_DIR "/tests/golden/" + name;
  const SafetensorsFile expected(path + "_expected.safetensors");
  ModelConfig config = vit_timm().read(path + ".safetensors");
  EXPECT_EQ(config.height, 16);
  config.set("heads", 2);
  for (const char* device : {"cpu", "cuda-emulated"}) {
    PublishedImages tiny(vit_timm(), path + ".safetensors", config, device);
    tiny.expect_logits(published_values(expected, "logits"));
    tiny.train(published_values(expected, "loss")[0]);
    if (std::string_view(device) == "cpu") {
      EXPECT_EQ(tiny.expect_gradients(expected, "gradient."), gradients);
    }
  }
  expect_round_trip(vit_timm(), path + ".safetensors", config);
  return config;
}

// DeiT's second token, and the mean of two heads.
TEST(Vit, ADistilledOneComputesWhatTimmDoes) {
  EXPECT_TRUE(expect_timms("deit_tiny", 11).flag("distilled"));
}

TEST(Vit, OneWithoutAClassTokenComputesWhatTimmDoes) {
  EXPECT_TRUE(expect_timms("vit_mean_tiny", 9).flag("mean_pooled"));
}

// DINOv2's registers and factors; and registers that have positions, which the mean leaves out.
TEST(Vit, OnesWithRegistersComputeWhatTimmDoes) {
  const ModelConfig tokens = expect_timms("vit_registers_tiny", 12),
                    mean = expect_timms("vit_registers_mean_tiny", 10);
  EXPECT_EQ(tokens.integer("registers"), 3);
  EXPECT_EQ(tokens.number("layer_scale"), 1e-5);
  EXPECT_TRUE(tokens.flag("patch_positions"));
  EXPECT_EQ(mean.integer("registers"), 3);
  EXPECT_EQ(mean.number("layer_scale"), 0);
  EXPECT_FALSE(mean.flag("patch_positions"));
}

// DINO, MAE: a head of zeros stands in, and the rest is read.
TEST(Vit, ABackboneWithoutAHeadIsRead) {
  const Scratch scratch;
  const SafetensorsFile file(kTinyVit);
  const auto write = [&](const std::string& more) {
    std::vector<SafetensorsSource> tensors;
    const auto add = [&](const std::string& name, const SafetensorsEntry& entry) {
      const Floats values = published_values(file, entry.name);
      tensors.push_back(
          {name, "F32", entry.shape, [values](const auto& sink) { sink(std::as_bytes(std::span(values))); }});
    };
    for (const SafetensorsEntry& entry : file.entries()) {
      if (!entry.name.starts_with("head.")) add(entry.name, entry);
    }
    if (!more.empty()) add(more, *file.find("norm.bias"));
    write_safetensors(scratch / "model.safetensors", {}, tensors);
  };
  write("");
  ModelConfig config = vit_timm().read(scratch / "model.safetensors");
  EXPECT_EQ(config.classes, 2);
  EXPECT_NE(vit_timm().remark(scratch / "model.safetensors", config).find("has no head"), std::string::npos);
  config.set("heads", 2);
  const PublishedImages in(vit_timm(), scratch / "model.safetensors", config, "cpu");
  Floats head(std::size_t{2} * 8);
  in.memory.decode(in.memory.find("head.weight"), 0, head);
  EXPECT_EQ(head, Floats(head.size()));
  for (const char* other : {"norm_pre.weight", "blocks.0.gamma_1", "fc_norm.weight"}) {
    write(other);
    try {
      vit_timm().read(scratch / "model.safetensors");
      ADD_FAILURE() << other;
    } catch (const RunError& error) {
      EXPECT_NE(std::string(error.what()).find("is a ViT with"), std::string::npos) << error.what();
    }
  }
}

TEST(Vit, ComputesTheSameOnTheEmulatedDevice) {
  PublishedImages tiny(vit_timm(), kTinyVit, tiny_vit(), "cuda-emulated");
  const SafetensorsFile expected(LPMM_SOURCE_DIR "/tests/golden/vit_tiny_expected.safetensors");
  tiny.expect_logits(published_values(expected, "logits"));
  tiny.train(published_values(expected, "loss")[0]);
}

TEST(Vit, GoesOutAsItCameIn) {
  expect_round_trip(vit_timm(), kTinyVit, tiny_vit());
}

TEST(Vit, SaysWhichHeadsItAssumes) {
  const ModelConfig config = vit_timm().read(kTinyVit);
  EXPECT_NE(vit_timm().remark(kTinyVit, config).find("1 of 8 channels are assumed"), std::string::npos);
  const PublishedImages in(vit_timm(), kTinyVit, tiny_vit(), "cpu");
  const Scratch scratch;
  const StoredWeights stored(save_checkpoint(scratch / "c", 0, "vit", in.memory, in.buffers, {{"x", 1}}, 0));
  vit_timm().save(stored, tiny_vit(), scratch / "out", *in.device);
  const ModelConfig again = vit_timm().read(scratch / "out");
  EXPECT_EQ(again.integer("heads"), 2);
  EXPECT_EQ(vit_timm().remark(scratch / "out", again), "");
}

// The expected values are timm.layers.resample_abs_pos_embed of this table: the first and a later channel.
TEST(Vit, PositionsAreResampledAsTimmDoes) {
  const std::pair<std::int64_t, std::pair<std::int64_t, Floats>> cases[] = {
      {4, {6, {-1.032895F, -1.074013F, -0.987906F, -0.738777F, -0.854532F, -0.082324F}}},
      {5, {3, {-0.848166F, -0.559615F, -0.293927F, 0.02822F, 0.313136F, -0.353846F}}}};
  const std::pair<float, float> last[] = {{-1.098014F, 1.106908F}, {-0.184941F, 0.364734F}};
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    const auto& [from, wanted] = cases[i];
    const auto& [to, begin] = wanted;
    Floats table = {7, 9};
    for (std::int64_t y = 0; y < from; ++y) {
      for (std::int64_t x = 0; x < from; ++x) {
        for (std::int64_t c = 0; c < 2; ++c)
          table.push_back(static_cast<float>((x * x + 3 * y + 5 * c * x) % 17 - 8) / 8);
      }
    }
    const auto grid = resampled_grid({1, 1 + from * from, 2}, {1, 1 + to * to, 2});
    ASSERT_TRUE(grid);
    EXPECT_EQ(grid->first, 1);
    const Floats got = resample_positions(*grid, table);
    ASSERT_EQ(std::ssize(got), 2 * (1 + to * to));
    EXPECT_EQ(got[0], 7);
    EXPECT_EQ(got[1], 9);
    for (std::size_t k = 0; k < begin.size(); ++k)
      EXPECT_NEAR(got[2 + k], begin[k], 2e-6) << from << " " << k;
    EXPECT_NEAR(got[got.size() - 2], last[i].first, 2e-6);
    EXPECT_NEAR(got.back(), last[i].second, 2e-6);
  }
  EXPECT_FALSE(resampled_grid({1, 17, 8}, {1, 18, 8}));
  EXPECT_FALSE(resampled_grid({1, 17, 8}, {1, 26, 4}));
}

// A run for larger pictures begins with them.
TEST(Vit, PicturesOfAnotherSizeStartFromResampledPositions) {
  const PublishedImages in(vit_timm(), kTinyVit, tiny_vit(), "cpu");
  const Scratch scratch;
  RunConfig config;
  config.train.init = save_checkpoint(scratch / "c", 0, "vit", in.memory, in.buffers, {{"x", 1}}, 0);
  config.model = tiny_vit();
  config.model.height = config.model.width = 24;
  const auto model = make_model(config.model);
  ModelMemory memory(model->tensors(), make_policy("fp32"), {}, 1, 1, *in.device);
  Buffers none({}, *in.device);
  EXPECT_TRUE(set_initial_parameters(config, *model, memory, none).drawn.empty());
  Floats before(std::size_t{17} * 8), after(std::size_t{37} * 8);
  in.memory.decode(in.memory.find("pos_embed"), 0, before);
  memory.decode(memory.find("pos_embed"), 0, after);
  EXPECT_EQ(after, resample_positions(*resampled_grid({1, 17, 8}, {1, 37, 8}), before));
}

TEST(Vit, WhatDoesNotFitIsNamed) {
  ModelConfig config = tiny_vit();
  config.set("layers", 3);
  expect_load_refused(vit_timm(), kTinyVit, config, "has no tensor blocks.2.norm1.weight, which a ViT has");
  config.set("layers", 1);
  expect_load_refused(vit_timm(), kTinyVit, config, "holds the tensor blocks.1.");
  config = tiny_vit();
  config.height = 20;
  expect_load_refused(vit_timm(), kTinyVit, config, "pos_embed is 1 x 17 x 8, expected 1 x 21 x 8");
  EXPECT_EQ(&published_family(kTinyVit), &families().find("vit"));
}

}  // namespace
}  // namespace lpmm
