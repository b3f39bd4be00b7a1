// Parameters in two terms, under whole updates: Kahan's summation, and what must stay as it is.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu.h"
#include "kernels/cuda/emulated.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/packed_vector.h"
#include "lpmm/memory/roles.h"
#include "lpmm/run/advice.h"
#include "tests/lpmm/memory/drawn_values.h"
#include "tests/lpmm/memory/one_tensor.h"
#include "tests/lpmm/memory/two_terms.h"
#include "tests/lpmm/scratch.h"
#include "tests/normal_values.h"

namespace lpmm {
namespace {

Policy two_term_policy(const char* parameter, const char* compensation, const char* states = "fp32") {
  Policy policy = make_policy("fp32");
  policy.preset = "two terms";
  policy.specs[Role::kParameter] = parse_spec(parameter);
  policy.specs[Role::kCompensation] = parse_spec(Role::kCompensation, compensation);
  policy.specs[Role::kMomentum] = policy.specs[Role::kSlowMomentum] = parse_spec(states);
  return policy;
}
const std::pair<const char*, const char*> kTermPairs[] = {{"bf16:rn", "ulp8:rn"},
                                                          {"bf16:rn", "int8:block128:rn"},
                                                          {"bf16:sr", "ulp8:sr"},
                                                          {"int8:block128:rn:sticky", "int8:block128:rn"},
                                                          {"int8:block128:sr:sticky", "int4:block128:sr"}};

std::vector<std::uint8_t> bytes_of_role(const ModelMemory& memory, Role role) {
  const kernels::RoleView v = memory.view(0, role);
  std::vector<std::uint8_t> bytes(v.codes, v.codes + code_bytes(v.codec.format, v.elements));
  const auto* steps = reinterpret_cast<const std::uint8_t*>(v.steps);
  bytes.insert(bytes.end(), steps, steps + step_bytes(v.codec, v.elements));
  return bytes;
}

struct TwoTermRun {
  CpuDevice device{2};
  ModelMemory memory;
  std::uint32_t number = 0;

  TwoTermRun(const Policy& policy, const OptimizerConfig& config, const std::vector<float>& start)
      : memory({{"w", {4, std::ssize(start) / 4}}}, policy, config, 3, 1, device) {
    memory.initialize(0, 0, start);
  }
  bool step(const std::vector<float>& gradient, double rate) {
    Step this_step = memory.begin_step({++number, rate});
    this_step.fold(0, 0, gradient, 0);
    return std::move(this_step).commit().applied;
  }
};

// c <- c + u, P' = round(P + c), c <- c + (P - P'), where nothing else rounds: weights of 20 bits and
// compensations that bf16 holds.
TEST(TwoTerms, AreKahansSummation) {
  constexpr int kCount = 256;
  std::vector<float> start(kCount), gradient(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    start[i] = 0.5F + 0x1p-9F * static_cast<float>(i % 200);
    gradient[i] = static_cast<float>(static_cast<int>(i % 61) - 30) * 0x1p-16F;
  }
  TwoTermRun run(two_term_policy("bf16:rn", "bf16:rn"), of_rule("sgd"), start);
  std::vector<double> p(kCount), c(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    p[i] = bf16_to_float(float_to_bf16(start[i]));
    c[i] = start[i] - p[i];
  }
  int moved = 0;
  for (int step = 0; step < 60; ++step) {
    ASSERT_TRUE(run.step(gradient, 1));
    for (std::size_t i = 0; i < kCount; ++i) {
      c[i] -= double{gradient[i]};
      const double old = p[i];
      p[i] = bf16_to_float(float_to_bf16(static_cast<float>(old + c[i])));
      c[i] += old - p[i];
      moved += p[i] != old ? 1 : 0;
    }
    const auto stored = values_in(run.memory, 0, Role::kParameter),
               rest = values_in(run.memory, 0, Role::kCompensation);
    for (std::size_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(stored[i], p[i]) << "step " << step << ", weight " << i;
      ASSERT_EQ(rest[i], c[i]) << "step " << step << ", weight " << i;
    }
  }
  EXPECT_GT(moved, 100);
}

// The gate of torchao: steps of 1e-5 on weights of 0.1, which nearest rounding alone loses.
TEST(TwoTerms, SmallStepsAddUp) {
  const auto start = normal_values(512, 1, 0.1F);
  const std::vector<float> gradient(512, 1.0F);
  const auto moved = [&](const Policy& policy, const char* rule) {
    TwoTermRun run(policy, of_rule(rule), start);
    const std::vector<float> before = sum_of_terms(run.memory);
    for (int s = 0; s < 50; ++s) EXPECT_TRUE(run.step(gradient, 1e-5));
    double sum = 0;
    const std::vector<float> after = sum_of_terms(run.memory);
    for (std::size_t i = 0; i < before.size(); ++i) sum += double{before[i]} - double{after[i]};
    return sum / static_cast<double>(before.size());
  };
  for (const char* rule : {"sgd", "lion", "adamw"}) {
    for (const auto& [parameter, compensation] : kTermPairs) {
      EXPECT_NEAR(moved(two_term_policy(parameter, compensation), rule), 5e-4, 4e-5)
          << rule << " " << parameter << " + " << compensation;
    }
    EXPECT_LT(moved(two_term_policy("int8:block128:rn:sticky", "none"), rule), 5e-5) << rule;
    EXPECT_LT(moved(two_term_policy("bf16:rn", "none"), rule), 3e-4) << rule;
  }
}

TEST(TwoTerms, InitialValuesAreKeptInBoth) {
  const auto start = normal_values(4 * 700, 1, 0.1F);
  for (const auto& [parameter, compensation] : kTermPairs) {
    const TwoTermRun with(two_term_policy(parameter, compensation), of_rule("adamw"), start),
        without(two_term_policy(parameter, "none"), of_rule("adamw"), start);
    EXPECT_EQ(bytes_of_role(with.memory, Role::kParameter), bytes_of_role(without.memory, Role::kParameter));
    const auto both = sum_of_terms(with.memory), alone = sum_of_terms(without.memory);
    double of_both = 0, of_one = 0;
    for (std::size_t i = 0; i < start.size(); ++i) {
      of_both += std::abs(both[i] - start[i]);
      of_one += std::abs(alone[i] - start[i]);
    }
    EXPECT_LT(of_both, of_one / 5) << parameter << " + " << compensation;
    EXPECT_EQ(without.memory.view(0, Role::kCompensation).codes, nullptr);
  }
}

// Values are set in ranges, on other devices, and again: import and train.init overwrite existing ones.
TEST(TwoTerms, InitialValuesComeInRangesAndAgain) {
  const auto start = normal_values(3 * 4096 + 8, 1, 0.1F), other = normal_values(3 * 4096 + 8, 2, 3.0F);
  const Policy policy = two_term_policy("int8:block256:sr:sticky", "int4:block512:sr");
  TwoTermRun at_once_whole(policy, of_rule("adamw"), start), parts(policy, of_rule("adamw"), start);
  for (const std::int64_t first : {8192, 0, 4096}) {
    const auto count = first == 8192 ? std::size_t{4096 + 8} : std::size_t{4096};
    parts.memory.initialize(0, first, std::span(start).subspan(static_cast<std::size_t>(first), count));
  }
  EXPECT_EQ(bytes_of_role(parts.memory, Role::kParameter),
            bytes_of_role(at_once_whole.memory, Role::kParameter));
  EXPECT_EQ(bytes_of_role(parts.memory, Role::kCompensation),
            bytes_of_role(at_once_whole.memory, Role::kCompensation));
  EXPECT_THROW(parts.memory.initialize(0, 256, std::span(start).subspan(0, 256)), UsageError);
  parts.memory.initialize(0, 0, other);
  const auto now = sum_of_terms(parts.memory);
  for (std::size_t i = 0; i < now.size(); ++i) ASSERT_NEAR(now[i], other[i], 0.02);
}

// A compensation that was rounded to half a gap of its parameter may change sides: the next split of the sum
// is another one. In the parameter's own units it is the last; in blocks it is rounded anew, and the sum
// stays to a gap of it.
TEST(TwoTerms, ZeroGradientsMoveNothing) {
  for (const std::string_view name : rule_names()) {
    const OptimizerConfig config = of_rule(name, {{"momentum", 0.9}});
    for (const auto& [parameter, compensation] : kTermPairs) {
      if (std::string_view(parameter).find("rn") == std::string_view::npos) continue;
      TwoTermRun run(two_term_policy(parameter, compensation), config, normal_values(512, 4, 0.1F));
      EXPECT_TRUE(run.step(std::vector<float>(512), 0.01));
      const auto p = bytes_of_role(run.memory, Role::kParameter),
                 c = bytes_of_role(run.memory, Role::kCompensation);
      const std::vector<float> before = sum_of_terms(run.memory);
      for (int s = 0; s < 10; ++s) EXPECT_TRUE(run.step(std::vector<float>(512), 0.01));
      const bool stays = bytes_of_role(run.memory, Role::kParameter) == p &&
                         bytes_of_role(run.memory, Role::kCompensation) == c;
      EXPECT_TRUE(stays || compensation[0] != 'u') << name << " " << parameter;
      const std::vector<float> after = sum_of_terms(run.memory);
      for (std::size_t i = 0; i < after.size(); ++i) ASSERT_NEAR(after[i], before[i], 2e-5) << parameter;
    }
  }
}

TEST(TwoTerms, GradientsThatAreNotFiniteLeaveEveryByte) {
  for (const float bad : {std::nanf(""), INFINITY}) {
    TwoTermRun run(two_term_policy("bf16:rn", "ulp8:rn"), of_rule("adamw"), normal_values(512, 4, 0.1F));
    EXPECT_TRUE(run.step(normal_values(512, 5, 1), 0.01));
    const auto p = bytes_of_role(run.memory, Role::kParameter),
               c = bytes_of_role(run.memory, Role::kCompensation);
    std::vector<float> gradient = normal_values(512, 6, 1);
    gradient[77] = bad;
    EXPECT_FALSE(run.step(gradient, 0.01));
    EXPECT_EQ(bytes_of_role(run.memory, Role::kParameter), p);
    EXPECT_EQ(bytes_of_role(run.memory, Role::kCompensation), c);
  }
}

TEST(TwoTerms, OfOneElementOfNoneAndOfHugeAndTinyOnes) {
  for (const auto& [parameter, compensation] : kTermPairs) {
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{1, 1}, std::vector<std::int64_t>{0, 4}}) {
      CpuDevice device(1);
      ModelMemory memory({{"w", shape}}, two_term_policy(parameter, compensation), of_rule("adamw"), 1, 1,
                         device);
      const auto count = static_cast<std::size_t>(memory.info(0).elements());
      memory.initialize(0, 0, std::vector<float>(count, 0.3F));
      Step this_step = memory.begin_step({1, 0.01});
      this_step.fold(0, 0, std::vector<float>(count, 1.0F), 0);
      ASSERT_TRUE(std::move(this_step).commit().applied);
      for (const float x : sum_of_terms(memory)) EXPECT_NEAR(x, 0.29, 1e-3) << parameter;
    }
    for (const float size : {0x1p119F, 0x1p-126F, 0x1p-140F, 0.0F}) {
      TwoTermRun run(two_term_policy(parameter, compensation), of_rule("sgd"), std::vector<float>(512, size));
      for (int s = 0; s < 3; ++s) EXPECT_TRUE(run.step(std::vector<float>(512), 0.01));
      const bool is_below_steps = compensation[0] == 'i' && size < 0x1p-100F;
      for (const float x : sum_of_terms(run.memory)) {
        ASSERT_TRUE(std::isfinite(x));
        ASSERT_TRUE(is_below_steps || std::abs(x - size) <= 0.01F * size + 0x1p-139F) << parameter;
      }
    }
  }
  TwoTermRun large(two_term_policy("bf16:rn", "ulp8:rn"), of_rule("sgd"), std::vector<float>(512, 0x1p119F));
  EXPECT_THROW(large.step(std::vector<float>(512, -0x1p59F), 0x1p62), RunError);
}

// Rules that look at the whole tensor see both terms: LAMB's step is a share of the parameter's norm. Most
// weights are below half a step here, and their parameter is 0.
TEST(TwoTerms, NormsAreOfBoth) {
  std::vector<float> start(512, 0.05F);
  for (std::size_t i = 0; i < start.size(); i += 128) start[i] = 0.1F;
  const OptimizerConfig lamb = of_rule("lamb");
  TwoTermRun two(two_term_policy("int2:block128:rn:sticky", "int16:block128:rn"), lamb, start),
      plain(make_policy("fp32"), lamb, start);
  EXPECT_EQ(values_in(two.memory, 0, Role::kParameter)[1], 0.0F);
  const auto gradient = normal_values(512, 9, 1);
  ASSERT_TRUE(two.step(gradient, 0.01));
  ASSERT_TRUE(plain.step(gradient, 0.01));
  const auto a = sum_of_terms(two.memory), b = sum_of_terms(plain.memory);
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], 1e-5);
    ASSERT_GT(std::abs(b[i] - start[i]), 1e-4);
  }
}

TEST(TwoTerms, AreUpdatedAtOnceAsWell) {
  const auto start = normal_values(3 * 4096, 1, 0.1F), gradient = normal_values(3 * 4096, 2, 0.01F);
  for (const auto& [parameter, compensation] : kTermPairs) {
    Policy policy = two_term_policy(parameter, compensation, "int8:block128:sr");
    TwoTermRun usual(policy, of_rule("adamw"), start);
    policy.apply_at_once = true;
    TwoTermRun at_once(policy, of_rule("adamw"), start);
    for (std::uint32_t s = 1; s <= 3; ++s) {
      ASSERT_TRUE(usual.step(gradient, 1e-3));
      Step this_step = at_once.memory.begin_step({s, 1e-3});
      for (const std::int64_t first : {4096, 8192, 0}) {
        this_step.fold(0, first, std::span(gradient).subspan(static_cast<std::size_t>(first), 4096), 0);
      }
      ASSERT_TRUE(std::move(this_step).commit().applied);
    }
    for (const Role role : {Role::kParameter, Role::kCompensation, Role::kMomentum}) {
      EXPECT_EQ(bytes_of_role(at_once.memory, role), bytes_of_role(usual.memory, role))
          << parameter << " " << to_string(role);
    }
  }
}

TEST(TwoTerms, FrozenAndExemptTensorsHaveOne) {
  CpuDevice device(1);
  OptimizerConfig config = of_rule("adamw");
  config.groups = {{.pattern = "frozen", .frozen = true}};
  const std::vector<TensorInfo> tensors = {{"w", {8, 40}}, {"frozen", {8, 40}}, {"bias", {40}}};
  const Policy policy = two_term_policy("bf16:rn", "ulp8:rn");
  ModelMemory memory(tensors, policy, config, 1, 1, device);
  for (int i = 0; i < 3; ++i) {
    memory.initialize(i, 0, std::vector<float>(static_cast<std::size_t>(memory.info(i).elements()), 0.3F));
  }
  EXPECT_NE(memory.view(0, Role::kCompensation).codes, nullptr);
  EXPECT_EQ(memory.view(1, Role::kCompensation).codes, nullptr);
  EXPECT_EQ(memory.view(2, Role::kCompensation).codes, nullptr);
  const Ledger ledger = memory.ledger();
  EXPECT_EQ(ledger.role_codes[Role::kCompensation], 8 * 40);
  EXPECT_EQ(ledger.role_codes[Role::kParameter], 2 * 2 * 8 * 40);
  EXPECT_EQ(memory_ledger(tensors, policy, config).model_memory(), ledger.model_memory());
}

// The compensation's counts tell the losses: a parameter of two terms that does not move is no loss.
TEST(TwoTerms, TheLedgerCountsTheCompensation) {
  TwoTermRun run(two_term_policy("int4:block128:rn:sticky", "int8:block128:rn"), of_rule("sgd"),
                 normal_values(512, 1, 0.1F));
  Step this_step = run.memory.begin_step({1, 1e-3, true});
  this_step.fold(0, 0, normal_values(512, 2, 1), 0);
  ASSERT_TRUE(std::move(this_step).commit().applied);
  const TensorStats stats = run.memory.take_stats()[0];
  const kernels::ChangeStats &p = stats.role[Role::kParameter], &c = stats.role[Role::kCompensation];
  EXPECT_EQ(p.elements, 512);
  EXPECT_EQ(c.elements, 512);
  EXPECT_GT(p.underflows, 500 - 20);
  EXPECT_LT(c.underflows, 200);
}

// Rounding may move what is held from one term to the other: that is no update, and none is lost.
TEST(TwoTerms, UpdatesOfExactly0AreNoneInTheLedger) {
  for (const auto& [parameter, compensation] : kTermPairs) {
    TwoTermRun run(two_term_policy(parameter, compensation), of_rule("sgd", {{"momentum", 0}}),
                   normal_values(512, 1, 0.1F));
    ASSERT_TRUE(run.step(normal_values(512, 2, 1), 1e-3));
    std::vector<float> half = normal_values(512, 3, 1);
    std::fill(half.begin(), half.begin() + 256, 0.0F);
    for (const auto& [gradient, moved] : {std::pair{std::vector<float>(512), 0}, {half, 256}}) {
      Step this_step = run.memory.begin_step({++run.number, 1e-3, true});
      this_step.fold(0, 0, gradient, 0);
      ASSERT_TRUE(std::move(this_step).commit().applied);
      const std::vector<TensorStats> stats = run.memory.take_stats();
      for (const Role role : {Role::kParameter, Role::kCompensation}) {
        const kernels::ChangeStats& s = stats[0].role[role];
        EXPECT_NEAR(static_cast<double>(s.increments), moved, moved / 20)
            << parameter << " + " << compensation << " " << to_string(role);
        EXPECT_LE(s.underflows, s.increments);
      }
      EXPECT_EQ(stall_warning(run.memory, stats).find("exactly 0") != std::string::npos, moved == 0)
          << parameter << " + " << compensation;
    }
  }
}

TEST(TwoTerms, AVectorGoesOnToTheBit) {
  const Scratch folder;
  const OptimizerConfig adam = {.rule = "adamw", .learning_rate = 0.01};
  const auto start = normal_values(700, 3, 1), gradient = normal_values(700, 4, 1);
  PackedVector first(start, "flash", adam, 7, 2), second(std::vector<float>(700), "flash", adam, 7, 1);
  for (int i = 0; i < 5; ++i) first.step(gradient);
  first.save(folder / "w.safetensors");
  second.load(folder / "w.safetensors");
  for (int i = 0; i < 5; ++i) first.step(gradient), second.step(gradient);
  for (const Role role : {Role::kParameter, Role::kCompensation}) {
    EXPECT_EQ(values_in(first.memory(), 0, role), values_in(second.memory(), 0, role));
  }
}

}  // namespace
}  // namespace lpmm
