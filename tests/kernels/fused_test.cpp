// The fused update gives the bits of the scalar tile loops, whatever happens to steps and values.
#include "kernels/cpu/packed/fused.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "kernels/cpu/packed/rule_loops.h"
#include "kernels/cpu_packed.h"
#include "tests/kernels/every_rule.h"
#include "tests/kernels/support.h"
#include "tests/sanitized.h"

namespace lpmm::kernels {
namespace {

class Fused : public testing::Test {
 protected:
  void TearDown() override { use_simd_level(""); }
};

// A tensor's roles; what a set of codecs leaves out, or the rule does not keep, is not there.
struct Tensors {
  RoleArray<std::unique_ptr<Packed>> of;
  RoleArray<RoleView> views;

  Tensors(const fused::Codecs& codecs, const Rule& rule, std::int64_t n) {
    for (const Role role : kEveryRole) {
      if (fused::is_none(codecs[role]) || (is_state(role) && !has_state(rule, role))) continue;
      of[role] = std::make_unique<Packed>(codecs[role], values_of(role, n));
      views[role] = of[role]->view();
    }
  }
  bool operator==(const Tensors& o) const {
    for (const Role role : kEveryRole) {
      if (of[role] == nullptr) continue;
      // The codes of an emptied accumulator do not matter.
      const bool same = role == Role::kAccumulator && is_packed(views[role].codec.format)
                            ? of[role]->steps() == o.of[role]->steps()
                            : *of[role] == *o.of[role];
      if (!same || !of[role]->intact()) return false;
    }
    return true;
  }
};

bool has_fused_loop(const Rule& rule, const RoleArray<RoleView>& roles) {
  return with_rule(rule, [&](const auto&, const auto& loops) {
    return loops.fused != nullptr && loops.fused(roles) != nullptr;
  });
}

// True if the rule keeps what the set stores, and can do without what it leaves out.
bool takes(const Rule& rule, const fused::Codecs& codecs) {
  if (has_state(rule, Role::kColumnVariance)) return false;  // the tile loops do it
  for (const Role role : kEveryRole) {
    if (is_state(role) && has_state(rule, role) && fused::is_none(codecs[role])) return false;
  }
  return !fused::is_none(codecs[Role::kAccumulator]) || std::holds_alternative<Sgd>(rule);
}

enum class Kind { kCalm, kJumps, kZeros, kOverflow, kNotANumber };

// Values of many sizes per block, so that some steps move and some stay; where asked for, empty blocks.
std::vector<float> gradient_of(std::int64_t n, std::uint32_t seed, Kind kind) {
  std::vector<float> g = normal_values(n, seed, 0.01F);
  for (std::size_t i = 0; i < g.size(); ++i) {
    const std::size_t block = i / 64;
    if (kind == Kind::kJumps && block % 3 == seed % 3) g[i] *= 40.0F;
    if (kind == Kind::kZeros && block % 5 < 2) g[i] = 0.0F;
    if (kind == Kind::kOverflow && i % 1000 == 700) g[i] = 1e30F;
    if (kind == Kind::kNotANumber && i % 1000 == 701) g[i] = std::numeric_limits<float>::quiet_NaN();
  }
  return g;
}

struct Trained {
  Tensors roles;
  bool storable = true;
  double squares = 0;  // sum over all folds
};
Trained trained(int threads, const fused::Codecs& codecs, const Rule& rule, std::int64_t n, Kind kind) {
  CpuPackedDevice device(threads);
  Trained out{Tensors(codecs, rule, n)};
  const RoleArray<RoleView>& views = out.roles.views;
  std::vector<float> start = normal_values(n, 1, 0.1F);
  if (kind == Kind::kZeros) std::fill(start.begin(), start.begin() + n / 2, 0.0F);
  encode(device, views[Role::kParameter], 0, n, start.data(), {5, 1, 0, 0});
  const bool has_accumulator = views[Role::kAccumulator].codes != nullptr;
  const Role folded = has_accumulator ? Role::kAccumulator : Role::kMomentum;
  for (std::uint32_t step = 1; step <= 3; ++step) {
    // Two microbatches, the second in two parts.
    for (std::uint32_t k = 0; k < 2; ++k) {
      const std::vector<float> g = gradient_of(n, 10 * step + k, kind);
      FoldArgs fold_args;
      fold_args.scale = 0.5F;
      fold_args.noise = {5, 1, step, noise_stream(folded, k)};
      fold_args.want_square_sum = true;
      const std::int64_t part = k == 0 ? 0 : n / 512 * 256;
      for (const std::int64_t first : {std::int64_t{0}, part}) {
        const std::int64_t count = first == part ? n - part : part;
        const FoldResult result = fold(device, views[folded], first, count, g.data() + first, fold_args);
        out.storable = result.finite && out.storable;
        if (result.finite) out.squares += result.square_sum;
        if (part == 0) break;
      }
    }
    UpdateArgs args;
    args.roles = views;
    args.noise = {5, 1, step, 0};
    out.storable = update(device, rule, args) && out.storable;
  }
  return out;
}

std::vector<Rule> rules_to_fuse() {
  std::vector<Rule> all = every_rule();
  for (const Rule& rule : every_fed_rule()) all.push_back(rule);
  const RuleStep step{
      .learning_rate = 0.05, .weight_decay = 0.02, .update = 3, .clip = 0.75, .error_feedback = true};
  all.emplace_back(
      Sgd::make({.decoupled_decay = true, .momentum = 0.9, .dampening = 0, .nesterov = true}, step));
  return all;
}

// The codecs of a rule, with other draws where they are taken in the value.
fused::Codecs codecs_of(const Rule& rule, const fused::Codecs& set, Rounding draws) {
  fused::Codecs codecs = std::visit([&]<class R>(const R&) { return fused::codecs_of<R>(set); }, rule);
  for (Codec& codec : codecs) {
    if (takes_draws(codec.rounding) && !is_of_variance(codec.rounding)) codec.rounding = draws;
  }
  return codecs;
}

bool is_compiled(const Rule& rule, int set) {
  return std::visit([&]<class R>(const R&) { return fused::is_compiled<R>(set); }, rule);
}

// Squares of 1e30 do not fit; the tile loops then say so and store what can be stored.
TEST_F(Fused, EverySetGivesTheBitsOfTheScalarLoops) {
  const auto vector_levels = simd_levels().first(simd_levels().size() - 1);
  int tried = 0, compared = 0, overflows = 0;
  for (int number = 0; number < fused::kAllSets; ++number) {
    const fused::Codecs& set = fused::kCodecs[static_cast<std::size_t>(number)];
    for (const Rounding draws : {Rounding::kStochastic, Rounding::kQuasiStochastic}) {
      for (const Rule& rule : rules_to_fuse()) {
        if (!takes(rule, set) || !is_compiled(rule, number)) continue;
        const fused::Codecs codecs = codecs_of(rule, set, draws);
        for (const Kind kind :
             {Kind::kCalm, Kind::kJumps, Kind::kZeros, Kind::kOverflow, Kind::kNotANumber}) {
          for (const std::int64_t n : {255, 384, 2048 + 512 + 100}) {
            if (kSanitized && ++tried % 4 != 0) continue;  // each rule and set with other kinds and sizes
            use_simd_level("scalar");
            const Trained expected = trained(1, codecs, rule, n, kind);
            overflows += expected.storable ? 0 : 1;
            for (const std::string level : vector_levels) {
              use_simd_level(level.c_str());
              if (level.starts_with("avx")) {
                EXPECT_TRUE(has_fused_loop(rule, expected.roles.views)) << level;
              }
              const Trained out = trained(1, codecs, rule, n, kind);
              EXPECT_TRUE(out.roles == expected.roles && out.storable == expected.storable &&
                          out.squares == expected.squares)
                  << level << ", p " << to_string(codecs[Role::kParameter].format) << ", m "
                  << to_string(codecs[Role::kMomentum].format) << ", rule " << rule.index() << ", kind "
                  << static_cast<int>(kind) << ", n " << n;
              ++compared;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(overflows, 0);
  EXPECT_TRUE(compared > 500 || vector_levels.empty()) << compared;
}

// The loops of fp32 parameters and gradients also serve bf16 ones and packed sums, as a framework keeps them.
TEST_F(Fused, WidenedParametersAndGradientsGiveTheBitsOfTheScalarLoops) {
  const auto spec = [](std::string_view text) { return SpecReader(text).codec; };
  const Codec fp32 = {}, sum = spec("soft4:block128:sr"), wide_sum = spec("int8:block4096:sr");
  const Codec of_roles[][2] = {{fp32, sum},
                               {fp32, wide_sum},
                               {spec("bf16:sr"), fp32},
                               {spec("bf16:rn"), spec("bf16:rn")},
                               {spec("bf16:sr"), sum},
                               {spec("int8:block128:sr:sticky"), fp32},
                               {spec("int12:block256:sr:sticky"), fp32}};
  const RuleStep step{.learning_rate = 0.05, .weight_decay = 0.02, .update = 3, .clip = 0.75};
  for (const Rule& rule : {Rule(AdamW::make({}, step)), Rule(Sgd::make({.momentum = 0.9}, step))}) {
    for (const int set : {fused::kCodecSets, fused::kFloatSets - 1}) {
      for (const auto& [parameter, gradient] : of_roles) {
        fused::Codecs codecs =
            codecs_of(rule, fused::kCodecs[static_cast<std::size_t>(set)], Rounding::kStochastic);
        codecs[Role::kParameter] = parameter;
        codecs[Role::kAccumulator] = gradient;
        for (const Kind kind : {Kind::kCalm, Kind::kZeros, Kind::kOverflow, Kind::kNotANumber}) {
          for (const std::int64_t n : {255, 2048 + 512 + 100, 4096 + 2048}) {
            use_simd_level("scalar");
            const Trained expected = trained(1, codecs, rule, n, kind);
            use_simd_level("");
            const Trained out = trained(2, codecs, rule, n, kind);
            EXPECT_TRUE(out.roles == expected.roles && out.storable == expected.storable)
                << to_string(parameter.format) << ", " << to_string(gradient.format) << ", rule "
                << rule.index() << ", kind " << static_cast<int>(kind) << ", n " << n;
          }
        }
      }
    }
  }
}

TEST_F(Fused, ThreadsDoNotMatter) {
  const std::int64_t n = kSanitized ? 20'000 : 70'000;
  for (int number = 0; number < fused::kAllSets; ++number) {
    const fused::Codecs& set = fused::kCodecs[static_cast<std::size_t>(number)];
    for (const Rule& rule : every_rule()) {
      if (!takes(rule, set) || !is_compiled(rule, number)) continue;
      const fused::Codecs codecs = codecs_of(rule, set, Rounding::kStochastic);
      const Trained one = trained(1, codecs, rule, n, Kind::kJumps),
                    three = trained(3, codecs, rule, n, Kind::kJumps);
      EXPECT_TRUE(one.roles == three.roles && one.squares == three.squares) << rule.index();
    }
  }
}

}  // namespace
}  // namespace lpmm::kernels
