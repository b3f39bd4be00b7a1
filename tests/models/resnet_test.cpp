#include <gtest/gtest.h>

#include <map>

#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/program/family.h"
#include "models/families.h"
#include "tests/models/parameters.h"

namespace lpmm {
namespace {

// He et al. 2016, table 6, to the parameter (option A has none of its own).
TEST(ResNet, ParameterCounts) {
  const std::map<std::string, std::int64_t> counts = {{"resnet8", 75290},   {"resnet20", 269722},
                                                      {"resnet32", 464154}, {"resnet44", 658586},
                                                      {"resnet56", 853018}, {"resnet110", 1727962}};
  for (const auto& [name, count] : counts)
    EXPECT_EQ(parameters(*make_model(families().config(name))), count) << name;
}

TEST(ResNet, Wider) {
  for (const int widen : {1, 3}) {
    ModelConfig config = families().config("resnet20");
    config.set("widen", widen);
    const std::int64_t a = 16 * widen, b = 2 * a, c = 4 * a;
    const std::int64_t convolutions = 27 * a + 54 * a * a + 9 * a * b + 45 * b * b + 9 * b * c + 45 * c * c;
    EXPECT_EQ(parameters(*make_model(config)), convolutions + 2 * (7 * a + 6 * b + 6 * c) + 10 * c + 10)
        << widen;
  }
  ModelConfig config = families().config("resnet20");
  config.set("widen", 0);
  EXPECT_THROW(make_model(config), UsageError);
}

TEST(ResNet, NamesAndShapes) {
  const auto model = make_model(families().config("resnet20"));
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
  for (const TensorInfo& t : model->tensors()) {
    EXPECT_EQ(t.kind, t.name == "head.weight" ? TensorKind::kHead : TensorKind::kHidden) << t.name;
  }
  EXPECT_EQ(model->buffers().size(), 19U * 2);
  EXPECT_EQ(model->buffers()[0].name, "stem.bn.running_mean");
  EXPECT_EQ(model->buffers()[1].name, "stem.bn.running_var");
  EXPECT_EQ(model->buffers()[1].initial, 1);
}

// Memory of activations grows with the batch and halves with bf16.
TEST(ResNet, ActivationBytes) {
  const auto model = make_model(families().config("resnet20"));
  CpuDevice device(1);
  const auto half = model->build(64, ValueType::kBf16, device),
             whole = model->build(64, ValueType::kFp32, device);
  EXPECT_NEAR(static_cast<double>(half->activation_bytes()) / static_cast<double>(whole->activation_bytes()),
              0.5, 0.01);
  EXPECT_LT(whole->activation_bytes(), std::int64_t{64} * 4 * 450'000);
}

TEST(ResNet, ReadsSquares) {
  ModelConfig config = families().config("resnet8");
  config.width = 16;
  EXPECT_THROW(make_model(config), UsageError);
}

}  // namespace
}  // namespace lpmm
