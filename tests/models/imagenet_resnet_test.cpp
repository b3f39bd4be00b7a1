// ResNets as they are published: torchvision's sizes and names, and what its code computes with two small
// ones (tests/golden/make_resnet_fixtures.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/device.h"
#include "lpmm/base/error.h"
#include "lpmm/files/half.h"
#include "lpmm/files/safetensors.h"
#include "lpmm/memory/policy.h"
#include "lpmm/program/family.h"
#include "tests/models/parameters.h"

namespace lpmm {
namespace {

constexpr std::int64_t kImages = 3;
using Floats = std::vector<float>;

ModelConfig of_imagenet(const std::string& name) {
  ModelConfig config = model_config(name);
  config.height = config.width = 224;
  config.classes = 1000;
  return config;
}
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
  const auto program = make_model(of_imagenet("resnet50"))->build(1, Compute::kBf16, *device);
  const std::int64_t largest = std::int64_t{4} * 512 * 512 * 9;
  EXPECT_LT(program->largest_transient_bytes(), largest / 2);
}

TEST(ImagenetResNet, BlocksMayBeginAsTheirShortcuts) {
  ModelConfig config = model_config("resnet50");
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
  ModelConfig config = model_config("resnet18");
  config.set("blocks", std::vector<std::int64_t>{2, 2, 2});
  EXPECT_THROW(make_model(config), UsageError);
  config = model_config("resnet18");
  config.width = 16;
  EXPECT_THROW(make_model(config), UsageError);
}

// ---- what torchvision computes
// -----------------------------------------------------------------------------
Floats values_of(const SafetensorsFile& file, const std::string& name) {
  const SafetensorsEntry* entry = file.find(name);
  if (entry == nullptr) throw RunError("no tensor " + name);
  if (entry->dtype == "F32") {
    Floats values(entry->bytes / 4);
    file.read(*entry, 0, std::as_writable_bytes(std::span(values)));
    return values;
  }
  std::vector<std::uint16_t> narrow(entry->bytes / 2);
  file.read(*entry, 0, std::as_writable_bytes(std::span(narrow)));
  Floats values;
  for (const std::uint16_t x : narrow) values.push_back(half_to_float(x));
  return values;
}

struct Case {
  const char *kind, *model;
  int width;
  bool small_stem;
  int side;
};
constexpr Case kBasic{"basic", "resnet18", 2, true, 16}, kBottleneck{"bottleneck", "resnet50", 1, false, 64};

// The images of the script, NHWC.
Batch images(int side) {
  Batch batch;
  batch.count = kImages;
  for (int n = 0; n < kImages; ++n) {
    batch.labels.push_back(n);
    for (int y = 0; y < side; ++y) {
      for (int x = 0; x < side; ++x) {
        for (int c = 0; c < 3; ++c) {
          batch.images.push_back(static_cast<float>((x * x + 3 * y + 5 * c * x + 7 * n * (x + y)) % 17 - 8) /
                                 8);
        }
      }
    }
  }
  return batch;
}

struct Tiny {
  Tiny(const Case& of, std::string_view device_name)
      : kind(of.kind),
        given(std::string(LPMM_SOURCE_DIR "/tests/golden/resnet_") + of.kind + ".safetensors"),
        expected(LPMM_SOURCE_DIR "/tests/golden/resnet_expected.safetensors"),
        device(make_device(device_name, 2)),
        model(make_model(config_of(of))),
        memory(model->tensors(), make_policy("fp32"), {}, 1, 1, *device),
        buffers(model->buffers(), *device),
        program(model->build(static_cast<int>(kImages), Compute::kFp32, *device)),
        batch(images(of.side)) {
    for (int t = 0; t < memory.tensors(); ++t) memory.initialize(t, 0, values_of(given, memory.info(t).name));
    for (int b = 0; b < static_cast<int>(buffers.infos().size()); ++b) {
      const Floats values = values_of(given, buffers.infos()[static_cast<std::size_t>(b)].name);
      device->upload(buffers.value(b).data(), values.data(), 4 * std::ssize(values));
    }
  }
  static ModelConfig config_of(const Case& of) {
    ModelConfig config = model_config(of.model);
    config.set("width", of.width);
    config.set("blocks", std::vector<std::int64_t>{1, 1, 1, 1});
    config.set("small_stem", of.small_stem);
    config.height = config.width = of.side;
    config.classes = 5;
    return config;
  }
  Floats wanted(const std::string& name) const { return values_of(expected, kind + "." + name); }

  // The loss of one image under each label is the logarithm of that class's probability.
  void expect_logits() {
    const Floats logits = wanted("eval");
    const std::size_t values = batch.images.size() / kImages;
    for (std::size_t image = 0; image < kImages; ++image) {
      double sum = 0, largest = 0;
      for (std::size_t k = 0; k < 5; ++k) {
        sum += std::exp(logits[5 * image + k]);
        largest = std::max<double>(largest, std::abs(logits[5 * image + k]));
      }
      for (std::size_t k = 0; k < 5; ++k) {
        Batch one;
        one.count = 1;
        one.labels = {static_cast<std::int32_t>(k)};
        one.images.assign(batch.images.begin() + static_cast<std::ptrdiff_t>(image * values),
                          batch.images.begin() + static_cast<std::ptrdiff_t>((image + 1) * values));
        EXPECT_NEAR(program->evaluate(memory, buffers, one).loss_sum, std::log(sum) - logits[5 * image + k],
                    1e-4 * largest);
      }
    }
  }
  void train() {
    buffers.begin();
    memory.begin_step(1);
    const double loss = program->train(memory, buffers, batch, 0).read().loss_sum / kImages;
    EXPECT_NEAR(loss, wanted("loss")[0], 1e-4 * loss);
  }

  std::string kind;
  SafetensorsFile given, expected;
  std::unique_ptr<Device> device;
  std::unique_ptr<Model> model;
  ModelMemory memory;
  Buffers buffers;
  std::unique_ptr<Program> program;
  Batch batch;
};

void expect_close(const Floats& got, const Floats& want, double tolerance, const std::string& name) {
  ASSERT_EQ(got.size(), want.size()) << name;
  double largest = 0;
  for (const float w : want) largest = std::max<double>(largest, std::abs(w));
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], tolerance * largest) << name << ", element " << i;
  }
}

TEST(ImagenetResNet, ComputesWhatTorchvisionDoes) {
  for (const Case& of : {kBasic, kBottleneck}) {
    SCOPED_TRACE(of.kind);
    Tiny tiny(of, "cpu");
    tiny.expect_logits();
    tiny.train();
    int gradients = 0;
    for (int t = 0; t < tiny.memory.tensors(); ++t) {
      const TensorInfo& info = tiny.memory.info(t);
      const std::string name = "gradient." + info.name;
      if (tiny.expected.find(tiny.kind + "." + name) == nullptr) continue;
      ++gradients;
      Floats gradient(static_cast<std::size_t>(info.elements()));
      tiny.device->decode(tiny.memory.view(t, Role::kAccumulator), 0, info.elements(), gradient.data());
      expect_close(gradient, tiny.wanted(name), 1e-3, name);
    }
    EXPECT_EQ(gradients, 9);
    tiny.memory.commit(0);
    tiny.buffers.commit();
    for (std::size_t b = 0; b < tiny.buffers.infos().size(); ++b) {
      const std::string name = tiny.buffers.infos()[b].name;
      if (!name.starts_with("layer3.0.bn1.")) continue;
      const auto value = tiny.buffers.value(static_cast<int>(b));
      expect_close(Floats(value.begin(), value.end()), tiny.wanted("after." + name), 1e-4, name);
    }
  }
}

TEST(ImagenetResNet, ComputesTheSameOnTheEmulatedDevice) {
  for (const Case& of : {kBasic, kBottleneck}) {
    SCOPED_TRACE(of.kind);
    Tiny tiny(of, "cuda-emulated");
    tiny.expect_logits();
    tiny.train();
  }
}

}  // namespace
}  // namespace lpmm
