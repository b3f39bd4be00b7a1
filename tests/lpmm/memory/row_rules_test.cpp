// Adam-mini, AdamW with a factored variance and Adafactor, whose variance is one of rows and columns: what
// they keep, which rows share, and what rounding errors become.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/cpu.h"
#include "kernels/cuda/emulated.h"
#include "kernels/sums.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/roles.h"
#include "tests/kernels/device_array.h"
#include "tests/lpmm/memory/one_tensor.h"
#include "tests/normal_values.h"

namespace lpmm {
namespace {

constexpr const char* kRowRules[] = {"adam_mini", "adamw_factored", "adafactor"};
constexpr double kNoEpsilon = 1e-30;  // an epsilon that no root feels

std::vector<float> values_in(const ModelMemory& memory, Role role, int tensor = 0) {
  const kernels::RoleView v = memory.view(tensor, role);
  std::vector<float> x(static_cast<std::size_t>(v.elements));
  if (v.codes != nullptr) memory.device().decode(v, 0, v.elements, x.data());
  return x;
}

TEST(RowRules, StatesAreThoseOfTheTensor) {
  const std::vector<TensorInfo> tensors = {{"conv", {16, 3, 3, 2}}, {"bias", {9}}, {"head", {5, 7}}};
  const auto sizes = [&](const char* rule, Role role, const GivenSettings& settings = {}) {
    CpuDevice device(1);
    const OptimizerConfig c = of_rule(rule, settings);
    const ModelMemory memory(tensors, make_policy("lpmm-min"), c, 1, 1, device);
    EXPECT_EQ(memory.ledger().model_memory(), memory_ledger(tensors, memory.policy(), c).model_memory());
    std::vector<std::int64_t> all;
    for (int i = 0; i < 3; ++i) all.push_back(memory.view(i, role).elements);
    return all;
  };
  using Sizes = std::vector<std::int64_t>;
  EXPECT_EQ(sizes("adam_mini", Role::kRowVariance), Sizes({16, 1, 5}));
  EXPECT_EQ(sizes("adam_mini", Role::kColumnVariance), Sizes({0, 0, 0}));
  EXPECT_EQ(sizes("adam_mini", Role::kVariance), Sizes({0, 0, 0}));
  for (const char* rule : {"adamw_factored", "adafactor"}) {
    EXPECT_EQ(sizes(rule, Role::kRowVariance), Sizes({16, 0, 5})) << rule;
    EXPECT_EQ(sizes(rule, Role::kColumnVariance), Sizes({18, 0, 7})) << rule;
    EXPECT_EQ(sizes(rule, Role::kVariance), Sizes({0, 9, 0})) << rule;
  }
  EXPECT_EQ(sizes("adamw_factored", Role::kMomentum), Sizes({288, 9, 35}));
  EXPECT_EQ(sizes("adafactor", Role::kMomentum), Sizes({0, 0, 0}));
  EXPECT_EQ(sizes("adafactor", Role::kMomentum, {{"beta1", 0.9}}), Sizes({288, 9, 35}));
}

// Positions of a ViT are 1 x N x C: a variance for each of them and each channel, not for each element.
TEST(RowRules, LeadingDimensionsOfOneAreNoRows) {
  const auto size = [](std::vector<std::int64_t> shape, Role role) {
    const std::vector<TensorInfo> tensors = {{"positions", std::move(shape)}};
    CpuDevice device(1);
    const ModelMemory memory(tensors, make_policy("lpmm-min"), of_rule("adafactor"), 1, 1, device);
    EXPECT_EQ(memory.ledger().model_memory(),
              memory_ledger(tensors, memory.policy(), memory.optimizer()).model_memory());
    return memory.view(0, role).elements;
  };
  EXPECT_EQ(size({1, 6, 4}, Role::kRowVariance), 6);
  EXPECT_EQ(size({1, 6, 4}, Role::kColumnVariance), 4);
  EXPECT_EQ(size({1, 1, 6, 4}, Role::kRowVariance), 6);
  EXPECT_EQ(size({1, 1, 4}, Role::kRowVariance), 1);
  EXPECT_EQ(size({1, 1, 4}, Role::kColumnVariance), 4);
  EXPECT_EQ(size({1, 4}, Role::kColumnVariance), 4);
  EXPECT_EQ(size({6, 1, 4}, Role::kRowVariance), 6);
}

// The steps are those of the matrix.
TEST(RowRules, PositionsMoveAsAMatrixDoes) {
  for (const char* rule : kRowRules) {
    const auto moved = [&](std::vector<std::int64_t> shape) {
      CpuDevice device(1);
      ModelMemory memory({{"w", std::move(shape)}}, make_policy("fp32"), of_rule(rule), 1, 1, device);
      memory.initialize(0, 0, normal_values(6 * 40, 1, 0.1F));
      for (std::uint32_t step = 1; step <= 2; ++step) {
        Step this_step = memory.begin_step({step, 0.01});
        this_step.fold(0, 0, normal_values(6 * 40, 1 + step, 1), 0);
        EXPECT_TRUE(std::move(this_step).commit().applied);
      }
      return values_in(memory, Role::kParameter);
    };
    EXPECT_EQ(moved({1, 6, 40}), moved({6, 40})) << rule;
  }
}

TEST(RowRules, VariancesOfRowsAreFp32AndCountedUnderAnyPolicy) {
  for (const std::string_view preset : preset_names()) {
    const Ledger ledger = memory_ledger(std::vector<TensorInfo>{{"w", {20, 256}}, {"b", {20}}},
                                        make_policy(preset), of_rule("adamw_factored"));
    EXPECT_EQ(ledger.role_bytes(Role::kRowVariance), 4 * 20) << preset;
    EXPECT_EQ(ledger.role_bytes(Role::kColumnVariance), 4 * 256) << preset;
    EXPECT_EQ(ledger.role_bytes(Role::kVariance), 0) << preset;
  }
}

// Only sums of columns, and steps of rows and columns, take workspace.
TEST(RowRules, SumsOfColumnsAreInThePlan) {
  const std::vector<TensorInfo> tensors = {{"w", {200, 100}}, {"wide", {3, 300}}, {"b", {5000}}};
  const auto bytes = [&](const char* rule) {
    return first_pass_bytes(tensors, make_policy("lpmm"), of_rule(rule));
  };
  EXPECT_EQ(bytes("adafactor"), 8 * 4 * 100) << "chunks of 64 rows";
  EXPECT_EQ(column_sum_bytes(1025, 10), 8 * 16 * 10) << "at most 16 chunks, here of 65 rows";
  EXPECT_EQ(bytes("adam_mini"), 0);
  EXPECT_EQ(bytes("adamw"), 0);
  Policy rank1 = make_policy("lpmm");
  rank1.specs[Role::kMomentum] = parse_spec("int8:row");
  rank1.specs[Role::kVariance] = parse_spec("lin04:rank1:step32");
  EXPECT_EQ(first_pass_bytes(tensors, rank1, of_rule("adamw")), 4 * (200 + 200 + 100)) << "steps of \"w\"";
}

// Queries and keys of two heads of two rows each, then four rows of values.
const TensorInfo kHeads{"qkv", {12, 5}, TensorKind::kHidden, 3, 2};

TEST(AdamMini, RowsOfAHeadShareWhereTheyAreAskedTo) {
  for (const bool per_head : {false, true}) {
    const OptimizerConfig c =
        of_rule("adam_mini", {{"epsilon", kNoEpsilon}, {"per_head", per_head ? 1.0 : 0.0}});
    CpuDevice device(2);
    ModelMemory memory({kHeads}, make_policy("fp32"), c, 1, 1, device);
    EXPECT_EQ(memory.view(0, Role::kRowVariance).elements, per_head ? 8 : 12);
    EXPECT_EQ(memory.ledger().role_bytes(Role::kRowVariance), per_head ? 32 : 48);
    EXPECT_EQ(memory.ledger().model_memory(),
              memory_ledger(std::span(&kHeads, 1), memory.policy(), c).model_memory());
    std::vector<float> gradient(60);
    for (std::size_t i = 0; i < 60; ++i) gradient[i] = static_cast<float>(i / 5 + 1);  // row r has r + 1
    Step this_step = memory.begin_step({1, 1});
    this_step.fold(0, 0, gradient, 0);
    ASSERT_TRUE(std::move(this_step).commit().applied);
    const std::vector<float> p = values_in(memory, Role::kParameter);
    for (std::size_t r = 0; r < 12; ++r) {
      const double first = static_cast<double>(r / 2 * 2 + 1);  // the first of the head's two rows
      const double shared = std::sqrt((first * first + (first + 1) * (first + 1)) / 2);
      const double size = per_head && r < 8 ? shared : static_cast<double>(r + 1);
      for (std::size_t i = 5 * r; i < 5 * r + 5; ++i) EXPECT_NEAR(p[i], -gradient[i] / size, 1e-6) << r;
    }
  }
}

TEST(AdamMini, HeadsAreTheSameOnEveryDevice) {
  const TensorInfo wide{"wide", {3 * 96, 70}, TensorKind::kHidden, 3, 4};
  const OptimizerConfig c = of_rule("adam_mini", {{"per_head", 1}});
  for (const std::string_view preset : preset_names()) {
    CpuDevice one(1), three(3);
    kernels::EmulatedCuda emulated(2, false);
    std::vector<std::vector<float>> parameters, variances;
    for (Device* device : std::initializer_list<Device*>{&one, &three, &emulated}) {
      ModelMemory memory({wide, kHeads}, make_policy(preset), c, 1, 1, *device);
      for (int t = 0; t < 2; ++t) memory.initialize(t, 0, normal_values(memory.info(t).elements(), 9, 0.1F));
      for (std::uint32_t s = 1; s <= 3; ++s) {
        Step this_step = memory.begin_step({s, 1e-3});
        const kernels::DeviceArray<float> a(*device, normal_values(wide.elements(), s, 0.01F)),
            b(*device, normal_values(kHeads.elements(), 9 * s, 0.01F));
        this_step.fold(0, 0, {a.data(), static_cast<std::size_t>(wide.elements())}, 0);
        this_step.fold(1, 0, {b.data(), static_cast<std::size_t>(kHeads.elements())}, 0);
        ASSERT_TRUE(std::move(this_step).commit().applied);
      }
      const kernels::RoleView v = memory.view(0, Role::kRowVariance);
      EXPECT_EQ(v.elements, 8 + 96);
      variances.emplace_back(static_cast<std::size_t>(v.elements));
      device->download(variances.back().data(), v.codes, 4 * v.elements);
      parameters.emplace_back(static_cast<std::size_t>(wide.elements()));
      memory.read(0, 0, parameters.back());
    }
    for (const std::size_t i : {1U, 2U}) {
      EXPECT_TRUE(parameters[i] == parameters[0]) << preset << " " << i;
      EXPECT_TRUE(variances[i] == variances[0]) << preset << " " << i;
    }
  }
}

TEST(AdamMini, RefusesHeadsThatAreNotEven) {
  CpuDevice device(1);
  for (const std::int64_t heads : {-1, 3, 5}) {
    const TensorInfo uneven{"qkv", {12, 5}, TensorKind::kHidden, 3, heads};
    EXPECT_THROW(ModelMemory({uneven}, make_policy("fp32"), of_rule("adam_mini"), 1, 1, device), UsageError);
  }
}

// The mean of its rows' variances is that of as many rows: none may share one.
TEST(AdamWFactored, RowsOfAHeadNeverShare) {
  EXPECT_EQ(rules_with(SettingKey("per_head")), std::vector<std::string_view>{"adam_mini"});
  const OptimizerConfig c = of_rule("adamw_factored");
  EXPECT_THROW(setting(c, "per_head"), std::logic_error);
  CpuDevice device(1);
  const ModelMemory memory({kHeads}, make_policy("fp32"), c, 1, 1, device);
  EXPECT_EQ(memory.view(0, Role::kRowVariance).elements, 12);
}

// A square mean that fp32 does not hold ends the run, on every device.
TEST(RowRules, AVarianceThatIsTooLargeEndsTheRun) {
  CpuDevice cpu(2);
  kernels::EmulatedCuda emulated(2, false);
  for (const char* rule : kRowRules) {
    for (Device* device : std::initializer_list<Device*>{&cpu, &emulated}) {
      ModelMemory memory({{"w", {3, 130}}}, make_policy("fp32"), of_rule(rule, {{"beta2", 0}}), 1, 1,
                         *device);
      Step this_step = memory.begin_step({1, 1e-3});
      const kernels::DeviceArray<float> gradient(*device, std::vector<float>(390, 0x1p61F));
      this_step.fold(0, 0, {gradient.data(), 390}, 0);
      EXPECT_THROW(std::move(this_step).commit(), RunError) << rule;
    }
  }
}

// Error feedback gives back by Adam's factor, from the variance of the row, or in an update's own unit.
TEST(RowRules, ErrorFeedbackKnowsTheUnitOfTheMomentum) {
  const auto rule = [](const char* name) {
    return make_rule(of_rule(name, {{"beta1", 0.8}}), {"w", {2, 2}}, 0.2, 2, 1, true, 0.1);
  };
  const auto mini = std::get<AdamMini>(rule("adam_mini"));
  const auto adam = std::get<AdamW>(rule("adamw"));
  EXPECT_GT(mini.feedback, 0);
  EXPECT_EQ(mini.feedback, adam.feedback);
  EXPECT_EQ(mini.beta1, adam.beta1) << "it shrinks where the rate rises";
  Elements<float> x{}, y{};
  x[Role::kRowVariance] = y[Role::kVariance] = 0.3F;
  mini.feed_back(0.01F, x);
  adam.feed_back(0.01F, y);
  EXPECT_EQ(x[Role::kMomentum], y[Role::kMomentum]);
  const auto adafactor = std::get<Adafactor>(rule("adafactor"));
  EXPECT_NEAR(adafactor.feedback, 0.2 / 0.8, 1e-7);
  EXPECT_EQ(adafactor.momentum, 0.8F) << "the rate is in the momentum already";
}

// Rounding does not change where the parameter is after the momentum has run out.
TEST(RowRules, ErrorFeedbackKeepsWhereTheParameterEnds) {
  CpuDevice device(1);
  std::vector<float> start(2000), ends;
  const GivenSettings settings = {{"beta1", 0.5}, {"scale_parameter", 0}, {"relative_step", 0}};
  for (const char* parameter : {"int6:block64:sr:sticky", "fp32"}) {
    Policy policy = make_policy("fp32");
    policy.specs[Role::kParameter] = parse_spec(parameter);
    policy.error_feedback = ends.empty();
    ModelMemory memory({{"w", {40, 50}}}, policy, of_rule("adafactor", settings), 1, 1, device);
    memory.initialize(0, 0, ends.empty() ? normal_values(2000, 1, 0.1F) : start);
    memory.decode(0, 0, start);
    for (std::uint32_t step = 1; step <= 5; ++step) {
      Step this_step = memory.begin_step({step, 0.01});
      this_step.fold(0, 0, normal_values(2000, 10 + step, 0.1F), 0);
      EXPECT_TRUE(std::move(this_step).commit().applied);
    }
    const std::vector<float> p = values_in(memory, Role::kParameter), m = values_in(memory, Role::kMomentum);
    for (std::size_t i = 0; i < p.size(); ++i) {
      const float end = p[i] - m[i];  // 0.5 / (1 - 0.5) of it is still to come
      if (policy.error_feedback) {
        ends.push_back(end);
      } else {
        EXPECT_NEAR(ends[i], end, 2e-6) << i;
      }
    }
  }
}

}  // namespace
}  // namespace lpmm
