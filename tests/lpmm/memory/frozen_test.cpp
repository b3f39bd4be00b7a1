// Frozen tensors: stored packed, without accumulator and state, and never changed.
#include <gtest/gtest.h>

#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/model_memory.h"
#include "tests/lpmm/memory/oracle.h"
#include "tests/normal_values.h"

namespace lpmm {
namespace {

const std::vector<TensorInfo> kSomeFrozen = {
    {"a.weight", {40, 50}}, {"b.weight", {30, 70}}, {"b.bias", {70}}};

OptimizerConfig freezing(const std::string& frozen) {
  OptimizerConfig o;
  o.rule = "adamw";
  o.learning_rate = 0.01;
  o.clip_norm = 1;
  if (!frozen.empty()) o.groups = {{.pattern = frozen, .frozen = true}};
  return o;
}

std::vector<float> decoded(const ModelMemory& memory, int tensor) {
  std::vector<float> v(static_cast<std::size_t>(memory.info(tensor).elements()));
  memory.decode(tensor, 0, v);
  return v;
}

TEST(Frozen, HasNeitherAccumulatorNorStates) {
  const Policy policy = make_policy("lpmm");
  CpuDevice device(1);
  const ModelMemory memory(kSomeFrozen, policy, freezing("a.*"), 1, 1, device);
  EXPECT_TRUE(memory.is_frozen(0));
  EXPECT_FALSE(memory.is_frozen(1));
  EXPECT_NE(memory.view(0, Role::kParameter).codes, nullptr);
  for (const Role role : {Role::kAccumulator, Role::kMomentum, Role::kVariance}) {
    EXPECT_EQ(memory.view(0, role).codes, nullptr);
    EXPECT_NE(memory.view(1, role).codes, nullptr);
  }
  const Ledger half = memory.ledger(), planned = memory_ledger(kSomeFrozen, policy, freezing("a.*")),
               whole = memory_ledger(kSomeFrozen, policy, freezing(""));
  EXPECT_EQ(half.model_memory(), planned.model_memory());
  EXPECT_LT(half.role_codes[Role::kVariance], whole.role_codes[Role::kVariance]);
  EXPECT_EQ(half.role_codes[Role::kParameter], whole.role_codes[Role::kParameter]);
}

// The others are updated as the oracle says, with a norm that leaves the frozen tensor's gradient out.
TEST(Frozen, TheOthersGoOnAsTheOracleSays) {
  CpuDevice device(2);
  const Policy policy = make_policy("lpmm-compact");
  ModelMemory memory(kSomeFrozen, policy, freezing("a.*"), 7, 2, device);
  Oracle oracle(kSomeFrozen, policy, freezing("a.*"), 7, 2);
  for (int t = 0; t < 3; ++t) {
    const std::vector<float> start = normal_values(memory.info(t).elements(), static_cast<unsigned>(t) + 1);
    memory.initialize(t, 0, start);
    oracle.initialize(t, start);
  }
  const std::vector<float> before = decoded(memory, 0);
  for (std::uint32_t step = 1; step <= 5; ++step) {
    Step this_step = memory.begin_step({step, 0.01});
    oracle.begin_step(step);
    for (int k = 0; k < 2; ++k) {
      for (int t = 0; t < 3; ++t) {
        const std::vector<float> g =
            normal_values(memory.info(t).elements(), 100 * step + static_cast<unsigned>(10 * t + k));
        this_step.fold(t, 0, g, k);
        oracle.fold(t, g, k);
      }
    }
    const StepReport a = std::move(this_step).commit(), b = oracle.commit(0.01);
    EXPECT_TRUE(a.applied);
    EXPECT_NEAR(a.gradient_norm, b.gradient_norm, 1e-9 * b.gradient_norm);
    // 70 * 31 normal gradients, averaged over two microbatches.
    EXPECT_NEAR(a.gradient_norm, std::sqrt(70 * 31 / 2.0), 3);
  }
  EXPECT_EQ(decoded(memory, 0), before);
  for (int t = 0; t < 3; ++t) EXPECT_EQ(decoded(memory, t), oracle.decode(t, Role::kParameter)) << t;
  EXPECT_NE(decoded(memory, 1), normal_values(memory.info(1).elements(), 2));
}

TEST(Frozen, SomethingMustBeLeftToTrain) {
  CpuDevice device(1);
  EXPECT_THROW(ModelMemory(kSomeFrozen, make_policy("lpmm"), freezing("*"), 1, 1, device), UsageError);
  // A later group takes a tensor out again.
  OptimizerConfig o = freezing("*");
  ParameterGroup group;
  group.pattern = "b.bias";
  o.groups.push_back(group);
  const ModelMemory memory(kSomeFrozen, make_policy("lpmm"), o, 1, 1, device);
  EXPECT_TRUE(memory.is_frozen(1));
  EXPECT_FALSE(memory.is_frozen(2));
}

}  // namespace
}  // namespace lpmm
