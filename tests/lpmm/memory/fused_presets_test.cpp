// Presets update and fold by the fused loops, with every rule's usual settings.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cpu.h"
#include "kernels/cpu/packed/rule_loops.h"
#include "kernels/cpu/tile.h"
#include "kernels/formats/presets.h"
#include "lpmm/memory/optimizer_config.h"
#include "lpmm/memory/policy.h"
#include "lpmm/memory/roles.h"
#include "lpmm/memory/rules.h"
#include "tests/lpmm/memory/given.h"
#include "tests/sanitized.h"

namespace lpmm {
namespace {

TEST(FusedPresets, EachHasItsLoops) {
  if (kSanitized) GTEST_SKIP() << "sanitizers see fewer loops";
  if (!std::string(kernels::simd_level()).starts_with("avx")) GTEST_SKIP() << "no AVX2 here";
  alignas(64) std::uint8_t codes[64] = {};
  std::uint16_t steps[4] = {};
  for (const Preset& row : kPresets) {
    const std::string_view preset = row.name;
    for (const std::string_view name : rule_names()) {
      OptimizerConfig optimizer;
      optimizer.rule = *RuleName::find(name);
      optimizer.learning_rate = 1e-3;
      give(optimizer, "momentum", 0.9);
      const Policy policy = make_policy(preset, optimizer);
      const TensorInfo tensor = {"", {1, 1}, TensorKind::kEmbedding};  // Muon takes AdamW's steps with it
      RoleArray<kernels::RoleView> roles;
      for (const Role role : kEveryRole) {
        if (has_role(policy, optimizer, tensor, role)) roles[role] = {policy.specs[role], codes, steps, 1};
      }
      const Rule rule = make_rule(optimizer, tensor, 1e-3, 1, 1, policy.error_feedback);
      const bool packs = std::any_of(roles.begin(), roles.end(), [](const kernels::RoleView& v) {
        return v.codes != nullptr && is_packed(v.codec.format);
      });
      const bool has_loop = kernels::with_rule(
          rule, [&](const auto&, const auto& loops) { return loops.fused(roles) != nullptr; });
      // The tile loops serve rules whose states depend on the tensor.
      const bool has_columns = roles[Role::kColumnVariance].codes != nullptr;
      EXPECT_EQ(has_loop, !has_columns && (row.is_fused || !packs)) << preset << " with " << name;
      const Role folded =
          folds_into_momentum(policy, optimizer, tensor) ? Role::kMomentum : Role::kAccumulator;
      const bool is_half = policy.specs[folded].format.map == Map::kBf16;  // no preset of ours has it
      EXPECT_EQ(kernels::tile_kernels().fused_fold(policy.specs[folded]) == nullptr, is_half)
          << preset << " with " << name;
    }
  }
}

}  // namespace
}  // namespace lpmm
