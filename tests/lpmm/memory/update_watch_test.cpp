// Steps whose updates are watched, and steps that leave tensors out.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <list>

#include "kernels/cpu.h"
#include "kernels/cuda/emulated.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/model_memory.h"
#include "lpmm/memory/roles.h"
#include "tests/kernels/device_array.h"
#include "tests/normal_values.h"

namespace lpmm {
namespace {

struct Memory {
  explicit Memory(RuleName rule = RuleName("adamw")) : Memory(rule, own) {}
  Memory(RuleName rule, Device& device, std::string_view preset = "lpmm")
      : memory({{"a.weight", {40, 50}}, {"b.weight", {30, 70}}, {"b.bias", {70}}}, make_policy(preset),
               optimizer(rule), 1, 1, device) {
    for (int t = 0; t < 3; ++t) memory.initialize(t, 0, normal_values(memory.info(t).elements(), 7));
  }
  static OptimizerConfig optimizer(RuleName rule) {
    OptimizerConfig o;
    o.rule = rule;
    return o;
  }
  StepReport step(std::uint32_t number, bool watch = false, bool count = false) {
    Step this_step = memory.begin_step({number, 0.01, count, watch});
    std::list<kernels::DeviceArray<float>> gradients;
    for (int t = 0; t < 3; ++t) {
      const std::vector<float> values = normal_values(memory.info(t).elements(), number);
      const auto& there = gradients.emplace_back(memory.device(), values);
      this_step.fold(t, 0, {there.data(), values.size()}, 0);
    }
    return std::move(this_step).commit();
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
  std::vector<float> parameter(int tensor) const {
    std::vector<float> x(static_cast<std::size_t>(memory.info(tensor).elements()));
    memory.decode(tensor, 0, x);
    return x;
  }
  CpuDevice own{2};
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
  Step this_step = partly.memory.begin_step({4});
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
  Step this_step = watched.memory.begin_step({2, 0.01, false, true});
  this_step.fail("a test");
  EXPECT_FALSE(std::move(this_step).commit().applied);
  EXPECT_TRUE(watched.memory.watched().empty());
}

// For every rule, including those with variances of rows and with orthogonal steps: the watch sees the update
// that is then made and changes no byte, even where changes are counted, as in step 2. The emulated device
// gives the same bits, except for Muon, whose products are in another order there.
TEST(Watched, SeesTheUpdateThatIsMadeWhateverTheRule) {
  constexpr auto kUpdate = static_cast<std::size_t>(Watched::kUpdate),
                 kGradient = static_cast<std::size_t>(Watched::kGradient),
                 kRatio = static_cast<std::size_t>(Watched::kRatio);
  CpuDevice cpu(2);
  kernels::EmulatedCuda emulated(2, false);
  for (const std::string_view name : rule_names()) {
    const RuleName rule = RuleName::find(name).value();
    Memory watched(rule, cpu, "fp32"), plain(rule, cpu, "fp32"), there(rule, emulated, "fp32");
    for (std::uint32_t s = 1; s <= 3; ++s) {
      std::vector<std::vector<float>> before;
      for (int t = 0; t < 3; ++t) before.push_back(watched.parameter(t));
      EXPECT_TRUE(watched.step(s, true, s == 2).applied);
      EXPECT_TRUE(plain.step(s).applied);
      EXPECT_TRUE(there.step(s, true, s == 2).applied);
      for (int t = 0; t < 3; ++t) {
        const std::string what = fmt::format("{}, tensor {}, step {}", name, t, s);
        EXPECT_EQ(watched.bytes(t), plain.bytes(t)) << what;
        const kernels::WatchStats& seen = watched.memory.watched()[static_cast<std::size_t>(t)];
        const std::vector<float> after = watched.parameter(t);
        const std::vector<float> gradient = normal_values(std::ssize(after), s);
        double update = 0, squares = 0;
        kernels::LargestElement largest;
        for (std::size_t i = 0; i < after.size(); ++i) {
          const float u = after[i] - before[static_cast<std::size_t>(t)][i];
          update += double{u} * u;
          squares += double{gradient[i]} * gradient[i];
          largest.raise(abs_bits(u), static_cast<std::int64_t>(i));
        }
        EXPECT_GT(update, 0) << what;
        EXPECT_NEAR(seen.squares[kUpdate], update, 1e-12 * update) << what;
        EXPECT_NEAR(seen.squares[kGradient], squares, 1e-12 * squares) << what;
        EXPECT_EQ(seen.update.bits, largest.bits) << what;
        EXPECT_EQ(seen.update.element, largest.element) << what;
        const bool has_variance = watched.memory.view(t, Role::kVariance).codes != nullptr;
        EXPECT_EQ(seen.squares[kRatio] > 0, has_variance) << what;
        if (name == "muon" && t < 2) continue;
        const kernels::WatchStats& other = there.memory.watched()[static_cast<std::size_t>(t)];
        for (std::size_t k = 0; k < kWatched; ++k) EXPECT_EQ(other.squares[k], seen.squares[k]) << what;
        EXPECT_EQ(other.update.element, seen.update.element) << what;
        EXPECT_EQ(other.ratio.bits, seen.ratio.bits) << what;
        EXPECT_EQ(there.bytes(t), watched.bytes(t)) << what;
      }
    }
  }
}

// A gradient in the momentum is not there by itself; the update is seen all the same.
TEST(Watched, SeesMuonsStepsWhereGradientsAreInTheMomentum) {
  CpuDevice device(2);
  OptimizerConfig o = Memory::optimizer(RuleName("muon"));
  o.settings["nesterov"] = 0;
  Policy policy = make_policy("lpmm");
  policy.accumulate_in_momentum = true;
  ModelMemory memory({{"a.weight", {40, 50}}}, policy, o, 1, 1, device);
  memory.initialize(0, 0, normal_values(2000, 7));
  Step this_step = memory.begin_step({1, 0.01, false, true});
  this_step.fold(0, 0, normal_values(2000, 8), 0);
  EXPECT_TRUE(std::move(this_step).commit().applied);
  const auto& squares = memory.watched()[0].squares;
  EXPECT_GT(squares[static_cast<std::size_t>(Watched::kUpdate)], 0);
  EXPECT_EQ(squares[static_cast<std::size_t>(Watched::kGradient)], 0);
}

TEST(Watched, CountsWhatItDoesNotMeasure) {
  const std::vector<TensorInfo> tensors = {{"a", {4, 4}}, {"b", {4, 4}}, {"c", {4}}};
  OptimizerConfig o = Memory::optimizer(RuleName("adamw"));
  o.groups = {{.pattern = "b", .frozen = true}};
  Policy policy = make_policy("lpmm");
  EXPECT_EQ(count_unseen(policy, o, tensors), 0);
  policy.apply_at_once = true;
  EXPECT_EQ(count_unseen(policy, o, tensors), 2) << "a frozen tensor has no update";
}

}  // namespace
}  // namespace lpmm
