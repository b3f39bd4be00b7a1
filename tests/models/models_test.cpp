#include "models/models.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "lpmm/base/error.h"

namespace lpmm {
namespace {

std::int64_t parameters(const Model& model) {
  std::int64_t sum = 0;
  for (const TensorInfo& t : model.tensors()) sum += t.elements();
  return sum;
}
ModelConfig config_of(const std::string& name) {
  ModelConfig config;
  config.name = name;
  return config;
}

// He et al. 2016, table 6, to the parameter (option A has none of its own).
TEST(ResNet, ParameterCounts) {
  const std::map<std::string, std::int64_t> counts = {{"resnet8", 75290},   {"resnet20", 269722},
                                                      {"resnet32", 464154}, {"resnet44", 658586},
                                                      {"resnet56", 853018}, {"resnet110", 1727962}};
  for (const auto& [name, count] : counts) EXPECT_EQ(parameters(*make_model(config_of(name))), count) << name;
}

TEST(ResNet, Wider) {
  for (const int widen : {1, 3}) {
    ModelConfig config = config_of("resnet20");
    config.widen = widen;
    const std::int64_t a = 16 * widen, b = 2 * a, c = 4 * a;
    const std::int64_t convolutions = 27 * a + 54 * a * a + 9 * a * b + 45 * b * b + 9 * b * c + 45 * c * c;
    EXPECT_EQ(parameters(*make_model(config)), convolutions + 2 * (7 * a + 6 * b + 6 * c) + 10 * c + 10)
        << widen;
  }
  for (const char* name : {"mlp", "gpt2"}) {
    ModelConfig config = config_of(name);
    config.widen = 2;
    EXPECT_THROW(make_model(config), UsageError) << name;
  }
  ModelConfig config = config_of("resnet20");
  config.widen = 0;
  EXPECT_THROW(make_model(config), UsageError);
}

TEST(ResNet, NamesAndShapes) {
  const auto model = make_model(config_of("resnet20"));
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const TensorInfo& t : model->tensors()) shapes[t.name] = t.shape;
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(shapes.size(), 19U * 3 + 2);
  EXPECT_EQ(shapes.at("stem.conv.weight"), (Shape{16, 3, 3, 3}));
  EXPECT_EQ(shapes.at("stem.bn.bias"), (Shape{16}));
  EXPECT_EQ(shapes.at("stage1.0.conv1.weight"), (Shape{16, 16, 3, 3}));
  EXPECT_EQ(shapes.at("stage2.0.conv1.weight"), (Shape{32, 16, 3, 3}));
  EXPECT_EQ(shapes.at("stage3.2.conv2.weight"), (Shape{64, 64, 3, 3}));
  EXPECT_EQ(shapes.at("stage3.2.bn2.weight"), (Shape{64}));
  EXPECT_EQ(shapes.at("head.weight"), (Shape{10, 64}));
  EXPECT_EQ(shapes.at("head.bias"), (Shape{10}));
  EXPECT_EQ(model->buffers().size(), 19U * 2);
  EXPECT_EQ(model->buffers()[0].name, "stem.bn.running_mean");
  EXPECT_EQ(model->buffers()[1].name, "stem.bn.running_var");
  EXPECT_EQ(model->buffers()[1].initial, 1);
}

// The published sizes: Radford et al. 2019 with the output tied to the embedding.
TEST(Gpt, ParameterCounts) {
  const std::map<std::string, std::int64_t> counts = {
      {"gpt2", 124439808}, {"gpt2-medium", 354823168}, {"gpt2-large", 774030080}, {"gpt2-xl", 1557611200}};
  for (const auto& [name, count] : counts) EXPECT_EQ(parameters(*make_model(config_of(name))), count) << name;
}

TEST(Gpt, NamesAndShapes) {
  const auto model = make_model(config_of("gpt2"));
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const TensorInfo& t : model->tensors()) shapes[t.name] = t.shape;
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(shapes.size(), 12U * 12 + 4);
  EXPECT_EQ(shapes.at("wte.weight"), (Shape{50257, 768}));
  EXPECT_EQ(shapes.at("wpe.weight"), (Shape{1024, 768}));
  EXPECT_EQ(shapes.at("h.11.ln_1.bias"), (Shape{768}));
  EXPECT_EQ(shapes.at("h.0.attn.c_attn.weight"), (Shape{2304, 768}));
  EXPECT_EQ(shapes.at("h.0.attn.c_proj.weight"), (Shape{768, 768}));
  EXPECT_EQ(shapes.at("h.0.mlp.c_fc.weight"), (Shape{3072, 768}));
  EXPECT_EQ(shapes.at("h.0.mlp.c_proj.weight"), (Shape{768, 3072}));
  EXPECT_EQ(shapes.at("ln_f.weight"), (Shape{768}));
  EXPECT_TRUE(model->buffers().empty());
}

TEST(Gpt, ImpossibleShapesAreRefused) {
  ModelConfig config = config_of("gpt");
  EXPECT_THROW(make_model(config), UsageError);  // gpt has no sizes of its own
  config.layers = 2;
  config.heads = 3;
  config.embedding = 64;
  config.context = 32;
  config.vocabulary = 100;
  EXPECT_THROW(make_model(config), UsageError);  // 64 channels for 3 heads
  config.heads = 4;
  EXPECT_EQ(make_model(config)->tensors().size(), 2U * 12 + 4);
  config.length = 33;
  EXPECT_THROW(make_model(config), UsageError);  // longer than the context
}

TEST(Models, InitialValues) {
  const auto model = make_model(config_of("resnet8"));
  Pool pool(2), single(1);
  ModelMemory memory(model->tensors(), make_policy("fp32"), {}, 1, 1, pool);
  ModelMemory again(model->tensors(), make_policy("fp32"), {}, 1, 1, single);
  model->initialize(memory, 5, {});
  model->initialize(again, 5, {});
  const auto values = [](const ModelMemory& m, const char* name) {
    const int t = m.find(name);
    std::vector<float> v(static_cast<std::size_t>(m.info(t).elements()));
    m.decode(t, 0, v);
    return v;
  };
  // He normal over fan-out: 64 * 9 outputs a weight touches; moments up to the fourth.
  const std::vector<float> conv = values(memory, "stage3.0.conv2.weight");
  double sum = 0, square = 0, fourth = 0;
  for (const float v : conv) {
    sum += v;
    square += 1.0 * v * v;
    fourth += std::pow(v, 4);
  }
  const double n = static_cast<double>(conv.size()), variance = 2.0 / (64 * 9);
  EXPECT_NEAR(sum / n, 0, 4 * std::sqrt(variance / n));
  EXPECT_NEAR(square / n / variance, 1, 0.04);
  EXPECT_NEAR(fourth / n / (variance * variance), 3, 0.25);
  double largest = 0;
  for (const float v : values(memory, "head.weight")) largest = std::max(largest, std::abs(1.0 * v));
  EXPECT_LE(largest, 1.0 / 8);
  EXPECT_GT(largest, 0.97 / 8);
  EXPECT_EQ(values(memory, "stem.bn.weight"), std::vector<float>(16, 1.0F));
  EXPECT_EQ(values(memory, "stem.bn.bias"), std::vector<float>(16, 0.0F));
  EXPECT_EQ(values(again, "stage3.0.conv2.weight"), conv);
  model->initialize(again, 6, {});
  EXPECT_NE(values(again, "stage3.0.conv2.weight"), conv);
  EXPECT_NE(values(memory, "stage1.0.conv1.weight"), values(memory, "stage1.0.conv2.weight"));
}

TEST(Models, WrongConfigurations) {
  try {
    make_model(config_of("resnet21"));
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("resnet20"), std::string::npos) << error.what();
  }
  ModelConfig config = config_of("mlp");
  config.hidden = {0};
  EXPECT_THROW(make_model(config), UsageError);
  config = config_of("resnet20");
  config.hidden = {64};
  EXPECT_THROW(make_model(config), UsageError);
  config.hidden.clear();
  config.label_smoothing = 1;
  EXPECT_THROW(make_model(config), UsageError);
  config.label_smoothing = 0;
  config.classes = 1;
  EXPECT_THROW(make_model(config), UsageError);
}

// 100 M parameters: built without their memory; workspace is panels and activations only.
TEST(Mlp, PlansLargeWithoutWholeTensors) {
  ModelConfig config = config_of("mlp");
  config.hidden = {8192, 8192};
  const auto model = make_model(config);
  EXPECT_GT(parameters(*model), 90'000'000);
  const auto program = model->build(64, Compute::kBf16, 2);
  EXPECT_LT(program->workspace_bytes(), 24 << 20);
  EXPECT_LT(program->activation_bytes(), 16 << 20);
}

// Memory of activations grows with the batch and halves with bf16.
TEST(ResNet, ActivationBytes) {
  const auto model = make_model(config_of("resnet20"));
  const auto half = model->build(64, Compute::kBf16, 1), whole = model->build(64, Compute::kFp32, 1);
  EXPECT_NEAR(static_cast<double>(half->activation_bytes()) / static_cast<double>(whole->activation_bytes()),
              0.5, 0.01);
  EXPECT_LT(whole->activation_bytes(), std::int64_t{64} * 4 * 450'000);
}

}  // namespace
}  // namespace lpmm
