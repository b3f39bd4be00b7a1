// ResNets as they are published: torchvision's sizes and names, and what its code computes with two small
// ones (tests/golden/make_resnet_fixtures.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "models/families.h"
#include "models/published/layouts.h"
#include "tests/lpmm/said.h"
#include "tests/models/parameters.h"
#include "tests/models/published_images.h"

namespace lpmm {
namespace {

std::map<std::string, std::vector<std::int64_t>> shapes_of(const Model& model) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const TensorInfo& t : model.tensors()) shapes[t.name] = t.shape;
  return shapes;
}

TEST(ImagenetResNet, HasTorchvisionsNumbersOfParameters) {
  const std::map<std::string, std::int64_t> counts = {
      {"resnet18", 11689512}, {"resnet34", 21797672}, {"resnet50", 25557032}, {"resnet101", 44549160}};
  for (const auto& [name, count] : counts)
    EXPECT_EQ(parameters(*make_model(of_imagenet(name))), count) << name;
}

TEST(ImagenetResNet, HasTorchvisionsNamesAndShapes) {
  using Shape = std::vector<std::int64_t>;
  const auto deep = make_model(of_imagenet("resnet50")), flat = make_model(of_imagenet("resnet18"));
  const auto shapes = shapes_of(*deep), basic = shapes_of(*flat);
  EXPECT_EQ(shapes.at("conv1.weight"), (Shape{64, 3, 7, 7}));
  EXPECT_EQ(shapes.at("bn1.bias"), (Shape{64}));
  EXPECT_EQ(shapes.at("layer1.0.conv1.weight"), (Shape{64, 64, 1, 1}));
  EXPECT_EQ(shapes.at("layer1.0.conv3.weight"), (Shape{256, 64, 1, 1}));
  EXPECT_EQ(shapes.at("layer1.0.downsample.0.weight"), (Shape{256, 64, 1, 1}));
  EXPECT_EQ(shapes.at("layer2.0.conv2.weight"), (Shape{128, 128, 3, 3}));
  EXPECT_EQ(shapes.at("layer4.2.bn3.weight"), (Shape{2048}));
  EXPECT_EQ(shapes.at("fc.weight"), (Shape{1000, 2048}));
  EXPECT_FALSE(shapes.contains("layer4.1.downsample.0.weight"));
  EXPECT_EQ(shapes.size(), 161U);
  EXPECT_EQ(deep->buffers().size(), 53U * 2);
  EXPECT_FALSE(basic.contains("layer1.0.downsample.0.weight"));
  EXPECT_EQ(basic.at("layer2.0.downsample.0.weight"), (Shape{128, 64, 1, 1}));
  EXPECT_EQ(basic.at("layer4.1.conv2.weight"), (Shape{512, 512, 3, 3}));
  EXPECT_EQ(basic.size(), 62U);
}

// No weight of ResNet-50 is whole in fp32: its largest have 2.4 million elements.
TEST(ImagenetResNet, WeightsExistByPanels) {
  const auto device = make_device("cpu", 1);
  const auto program = make_model(of_imagenet("resnet50"))->build(1, ValueType::kBf16, *device);
  const std::int64_t largest = std::int64_t{4} * 512 * 512 * 9;
  EXPECT_LT(program->largest_transient_bytes(), largest / 2);
}

TEST(ImagenetResNet, BlocksMayBeginAsTheirShortcuts) {
  ModelConfig config = families().config("resnet50");
  config.set("width", 8);
  config.set("zero_last_norm", true);
  const auto model = make_model(config);
  const auto device = make_device("cpu", 1);
  ModelMemory memory(model->tensors(), make_policy("fp32"), {}, 1, 1, *device);
  model->initialize(memory, 1, {});
  for (int t = 0; t < memory.tensors(); ++t) {
    const std::string& name = memory.info(t).name;
    if (!name.ends_with(".weight") || memory.info(t).shape.size() > 1) continue;
    Floats v(static_cast<std::size_t>(memory.info(t).elements()));
    memory.read(t, 0, v);
    EXPECT_EQ(v, Floats(v.size(), name.ends_with("bn3.weight") ? 0.0F : 1.0F)) << name;
  }
}

TEST(ImagenetResNet, RefusesOtherStagesAndImages) {
  ModelConfig config = families().config("resnet18");
  config.set("blocks", std::vector<std::int64_t>{2, 2, 2});
  EXPECT_THROW(make_model(config), UsageError);
  config = families().config("resnet18");
  config.width = 16;
  EXPECT_THROW(make_model(config), UsageError);
  config = families().config("resnet18");
  config.set("groups", 2);
  EXPECT_THROW(make_model(config), UsageError);
  config = families().config("resnet50");
  config.set("groups", 3);
  EXPECT_THROW(make_model(config), UsageError);
  config.set("width", 66);
  config.set("groups", 1);
  const auto device = make_device("cpu", 1);
  EXPECT_NO_THROW(make_model(config)->build(1, ValueType::kFp32, *device));
  config.set("groups", 2);
  config.set("widen", 2);  // 66 channels of a group in the first stage
  EXPECT_THROW(make_model(config)->build(1, ValueType::kFp32, *device), UsageError);
}

// ---- what torchvision computes
// -----------------------------------------------------------------------------
struct ResNetCase {
  const char *kind, *model;
  int width;
  bool small_stem;
  int side;
  int widen = 1;
  bool deep = false;
  int groups = 1;
  std::string path() const {
    return std::string(LPMM_SOURCE_DIR "/tests/golden/resnet_") + kind + ".safetensors";
  }
};
constexpr ResNetCase kBasic{"basic", "resnet18", 2, true, 16},
    kBottleneck{"bottleneck", "resnet50", 1, false, 64},
    kWideDeep{"wide_deep", "resnet50", 2, false, 64, 2, true},
    kGroups{"groups", "resnet50", 2, false, 64, 2, false, 2};

ModelConfig config_of_resnet(const ResNetCase& of) {
  ModelConfig config = resnet_torchvision().read(of.path());
  EXPECT_EQ(config.name, of.model);
  EXPECT_EQ(config.integer("width"), of.width);
  EXPECT_EQ(config.integers("blocks"), (std::vector<std::int64_t>{1, 1, 1, 1}));
  EXPECT_EQ(config.flag("small_stem"), of.small_stem);
  EXPECT_EQ(config.flag("deep"), of.deep);
  EXPECT_EQ(config.integer("widen"), of.widen);
  EXPECT_EQ(config.integer("groups"), of.groups);
  EXPECT_EQ(config.classes, 5);
  config.height = config.width = of.side;
  return config;
}

TEST(ImagenetResNet, ComputesWhatTorchvisionDoes) {
  const SafetensorsFile expected(LPMM_SOURCE_DIR "/tests/golden/resnet_expected.safetensors");
  for (const ResNetCase& of : {kBasic, kBottleneck, kWideDeep, kGroups}) {
    SCOPED_TRACE(of.kind);
    const std::string prefix = std::string(of.kind) + ".";
    PublishedImages tiny(resnet_torchvision(), of.path(), config_of_resnet(of), "cpu");
    tiny.expect_logits(published_values(expected, prefix + "eval"));
    tiny.train(published_values(expected, prefix + "loss")[0]);
    EXPECT_EQ(tiny.expect_gradients(expected, prefix + "gradient."), 9);
    std::move(*tiny.step).commit();
    tiny.buffers.commit();
    for (std::size_t b = 0; b < tiny.buffers.infos().size(); ++b) {
      const std::string name = tiny.buffers.infos()[b].name;
      if (!name.starts_with("layer3.0.bn1.")) continue;
      const auto value = tiny.buffers.value(static_cast<int>(b));
      expect_near_largest(Floats(value.begin(), value.end()),
                          published_values(expected, prefix + "after." + name), 1e-4, name);
    }
  }
}

TEST(ImagenetResNet, ComputesTheSameOnTheEmulatedDevice) {
  const SafetensorsFile expected(LPMM_SOURCE_DIR "/tests/golden/resnet_expected.safetensors");
  for (const ResNetCase& of : {kBasic, kBottleneck, kWideDeep, kGroups}) {
    SCOPED_TRACE(of.kind);
    const std::string prefix = std::string(of.kind) + ".";
    PublishedImages tiny(resnet_torchvision(), of.path(), config_of_resnet(of), "cuda-emulated");
    tiny.expect_logits(published_values(expected, prefix + "eval"));
    tiny.train(published_values(expected, prefix + "loss")[0]);
  }
}

TEST(ImagenetResNet, GoesOutAsItCameIn) {
  for (const ResNetCase& of : {kBasic, kBottleneck, kWideDeep, kGroups})
    expect_round_trip(resnet_torchvision(), of.path(), config_of_resnet(of));
}

TEST(ImagenetResNet, WhatDoesNotFitIsNamed) {
  const std::string path = kBasic.path();
  ModelConfig config = config_of_resnet(kBasic);
  config.set("blocks", std::vector<std::int64_t>{1, 1, 1, 2});
  expect_load_refused(resnet_torchvision(), path, config,
                      "has no tensor layer4.1.conv1.weight, which a ResNet has");
  config = config_of_resnet(kBasic);
  config.classes = 7;
  expect_load_refused(resnet_torchvision(), path, config, "fc.weight is 5 x 16, expected 7 x 16");
  config = config_of_resnet(kBottleneck);
  config.set("bottleneck", false);
  config.name = "resnet18";
  expect_load_refused(resnet_torchvision(), kBottleneck.path(), config,
                      "layer1.0.conv1.weight is 1 x 1 x 1 x 1");
  EXPECT_EQ(&published_family(path), &families().find("resnet18"));
}

TEST(ImagenetResNet, AStageThatIsMissingIsNamed) {
  const SafetensorsFile whole(kBasic.path());
  std::vector<SafetensorsSource> sources;
  for (const SafetensorsEntry& entry : whole.entries()) {
    if (entry.dtype == "I64" || entry.name.starts_with("layer4.")) continue;
    sources.push_back(
        {entry.name, "F32", entry.shape, [values = published_values(whole, entry.name)](const auto& sink) {
           sink(std::as_bytes(std::span(values)));
         }});
  }
  const Scratch scratch;
  write_safetensors(scratch / "short.safetensors", {}, sources);
  const std::string what = said([&] { resnet_torchvision().read(scratch / "short.safetensors"); });
  EXPECT_NE(what.find("short.safetensors: has no tensor layer4.0.conv1.weight, which a ResNet has"),
            std::string::npos)
      << what;
}

TEST(ImagenetResNet, VariancesAreNotNegative) {
  const SafetensorsFile whole(kBasic.path());
  for (const auto& [value, words] : {std::pair(-0.5F, "layer1.0.bn1.running_var holds a negative variance"),
                                     {std::nanf(""), "layer1.0.bn1.running_var holds what is not finite"}}) {
    std::vector<SafetensorsSource> sources;
    for (const SafetensorsEntry& entry : whole.entries()) {
      if (entry.dtype == "I64") continue;
      Floats values = published_values(whole, entry.name);
      if (entry.name == "layer1.0.bn1.running_var") values.back() = value;
      sources.push_back({entry.name, "F32", entry.shape,
                         [values](const auto& sink) { sink(std::as_bytes(std::span(values))); }});
    }
    const Scratch scratch;
    write_safetensors(scratch / "wrong.safetensors", {}, sources);
    expect_load_refused(resnet_torchvision(), scratch / "wrong.safetensors", config_of_resnet(kBasic), words);
  }
}

// A run that begins with published weights begins with their statistics.
TEST(ImagenetResNet, StatisticsAreTakenOver) {
  const ModelConfig config = config_of_resnet(kBasic);
  PublishedImages tiny(resnet_torchvision(), kBasic.path(), config, "cpu");
  const Scratch scratch;
  const StoredWeights stored(
      save_checkpoint(scratch / "c", 0, config.name, tiny.memory, tiny.buffers, {{"x", 1}}, 0));
  Buffers taken(tiny.model->buffers(), *tiny.device);
  load_buffers(stored, taken);
  for (int b = 0; b < static_cast<int>(taken.infos().size()); ++b) {
    const auto want = tiny.buffers.value(b), got = taken.value(b);
    EXPECT_TRUE(std::equal(want.begin(), want.end(), got.begin()))
        << taken.infos()[static_cast<std::size_t>(b)].name;
  }
}

}  // namespace
}  // namespace lpmm
