#include <gtest/gtest.h>

#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/program/family.h"
#include "models/families.h"
#include "tests/models/parameters.h"

namespace lpmm {
namespace {

// 100 M parameters: built without their memory; workspace is panels and activations only.
TEST(Mlp, PlansLargeWithoutWholeTensors) {
  ModelConfig config = families().config("mlp");
  config.set("hidden", std::vector<std::int64_t>{8192, 8192});
  const auto model = make_model(config);
  EXPECT_GT(parameters(*model), 90'000'000);
  CpuDevice device(2);
  const auto program = model->build(64, ValueType::kBf16, device);
  EXPECT_LT(program->workspace_bytes(), 24 << 20);
  EXPECT_LT(program->activation_bytes(), 16 << 20);
}

TEST(Mlp, WidthsAreChecked) {
  ModelConfig config = families().config("mlp");
  EXPECT_EQ(make_model(config)->tensors().size(), 2U);  // a linear model
  config.set("hidden", std::vector<std::int64_t>{64, 0});
  EXPECT_THROW(make_model(config), UsageError);
}

}  // namespace
}  // namespace lpmm
