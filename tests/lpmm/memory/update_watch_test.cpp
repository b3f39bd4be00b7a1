// Steps whose updates are watched, and steps that leave tensors out.
#include <gtest/gtest.h>

#include <cstring>

#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/model_memory.h"
#include "tests/normal_values.h"

namespace lpmm {
namespace {

struct Memory {
  explicit Memory(RuleName rule = RuleName("adamw"))
      : memory({{"a.weight", {40, 50}}, {"b.weight", {30, 70}}, {"b.bias", {70}}}, make_policy("lpmm"),
               optimizer(rule), 1, 1, device) {
    for (int t = 0; t < 3; ++t) memory.initialize(t, 0, normal_values(memory.info(t).elements(), 7));
  }
  static OptimizerConfig optimizer(RuleName rule) {
    OptimizerConfig o;
    o.rule = rule;
    return o;
  }
  StepReport step(std::uint32_t number, bool watch = false) {
    memory.begin_step(number, false, watch);
    for (int t = 0; t < 3; ++t) memory.fold(t, 0, normal_values(memory.info(t).elements(), number), 0);
    return memory.commit(0.01);
  }
  // All that is stored of a tensor.
  std::string bytes(int tensor) const {
    std::string all;
    for (const Role r : kEveryRole) {
      const kernels::RoleView v = memory.view(tensor, r);
      if (v.codes == nullptr) continue;
      all.append(reinterpret_cast<const char*>(v.codes),
                 static_cast<std::size_t>(code_bytes(v.codec.format, v.elements)));
      if (v.steps != nullptr) {
        all.append(reinterpret_cast<const char*>(v.steps),
                   static_cast<std::size_t>(step_bytes(v.codec, v.elements)));
      }
    }
    return all;
  }
  CpuDevice device{2};
  ModelMemory memory;
};

TEST(LeftOut, ATensorKeepsEverythingAndTheOthersGoOn) {
  Memory whole, partly;
  EXPECT_TRUE(whole.step(1).applied);
  EXPECT_TRUE(partly.step(1).applied);
  partly.memory.leave_out({1});
  const std::string before = partly.bytes(1);
  EXPECT_TRUE(whole.step(2).applied);
  EXPECT_TRUE(partly.step(2, true).applied);
  EXPECT_EQ(partly.bytes(1), before);
  EXPECT_NE(whole.bytes(1), before);
  for (const int other : {0, 2}) EXPECT_EQ(partly.bytes(other), whole.bytes(other));
  ASSERT_EQ(partly.memory.watched().size(), 3U);
  const auto update = static_cast<std::size_t>(Watched::kUpdate);
  EXPECT_EQ(partly.memory.watched()[1].squares[update], 0);
  EXPECT_GT(partly.memory.watched()[2].squares[update], 0);
  partly.memory.leave_out({});
  EXPECT_TRUE(partly.step(3).applied);
  EXPECT_NE(partly.bytes(1), before);
  partly.memory.begin_step(4);
  EXPECT_THROW(partly.memory.leave_out({0}), UsageError);
}

TEST(Watched, TellsOfTheLastStepAloneAndChangesNoByte) {
  Memory watched, plain;
  EXPECT_TRUE(watched.memory.watched().empty());
  EXPECT_TRUE(watched.step(1, true).applied);
  EXPECT_TRUE(plain.step(1).applied);
  ASSERT_EQ(watched.memory.watched().size(), 3U);
  for (int t = 0; t < 3; ++t) {
    EXPECT_EQ(watched.bytes(t), plain.bytes(t));
    // In the first step of Adam every |g| is the root of v.
    const auto n = static_cast<double>(watched.memory.info(t).elements());
    EXPECT_NEAR(watched.memory.watched()[static_cast<std::size_t>(t)]
                        .squares[static_cast<std::size_t>(Watched::kRatio)] /
                    n,
                1, 0.02);
  }
  EXPECT_TRUE(plain.memory.watched().empty());
  watched.memory.begin_step(2, false, true);
  watched.memory.fail("a test");
  EXPECT_FALSE(watched.memory.commit(0.01).applied);
  EXPECT_TRUE(watched.memory.watched().empty());
}

// Before an update there is no orthogonal step to look at.
TEST(Watched, LeavesOutMuonsMatricesAlone) {
  Memory watched(RuleName("muon")), plain(RuleName("muon"));
  EXPECT_TRUE(watched.step(1, true).applied);
  EXPECT_TRUE(plain.step(1).applied);
  ASSERT_EQ(watched.memory.watched().size(), 3U);
  for (int t = 0; t < 3; ++t) {
    EXPECT_EQ(watched.bytes(t), plain.bytes(t));
    const kernels::WatchStats& seen = watched.memory.watched()[static_cast<std::size_t>(t)];
    for (const Watched what : {Watched::kUpdate, Watched::kGradient}) {
      EXPECT_EQ(seen.squares[static_cast<std::size_t>(what)] > 0, t == 2) << t;
    }
    EXPECT_EQ(seen.update.bits > 0, t == 2) << t;
  }
}

}  // namespace
}  // namespace lpmm
