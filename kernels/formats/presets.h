// The presets: a spec for every role. lpmm/memory/policy.h makes policies of them, and loops are compiled for
// the formats of those that train (kernels/cpu/packed/fused.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "kernels/formats/spec_reader.h"
#include "kernels/roles.h"

namespace lpmm {

struct Preset {
  std::string_view name;
  // Parameter, accumulator, momentum, variance, slow momentum, compensation.
  std::array<std::string_view, kElementRoles> specs;
  bool feedback_with_sgd = false;  // 8-bit parameters lose in long runs of SGDM, with Adam nothing
  std::int64_t min_elements = 0;
  // SGD's specs if gradients are accumulated in the momentum, with error feedback; that is done whenever it
  // can be (not with Nesterov or clipping). Empty: never.
  std::string_view sgd_parameter = {}, sgd_momentum = {};
  std::string_view sum_variance = {};  // of rules whose variance is a sum; empty: as of others
  bool is_fused = true;                // false: it only serves for comparison, and tile loops do it

  constexpr std::string_view spec(Role role) const { return specs[static_cast<std::size_t>(role)]; }
};
inline constexpr std::string_view kSumVariance = "sqrt04:block128:sr:sticky";

// States as another library or paper has them, to compare with: weights and gradients are fp32, and a slow
// momentum is stored as the other one.
constexpr Preset peer(std::string_view name, std::string_view momentum, std::string_view variance,
                      std::int64_t min_elements, bool is_fused = false) {
  return {.name = name,
          .specs = {"fp32", "fp32", momentum, variance, momentum, kNoCompensation},
          .min_elements = min_elements,
          .is_fused = is_fused};
}

// Everything the presets decide. lpmm/memory/README.md says whose the peers are. Everything included,
// a parameter takes 28.77 (lpmm), 24.91 (lpmm-compact), 16.95 (lpmm-min) and 12.81 (lpmm-nano) bits with SGDM
// and ResNet-20, 36.46, 32.59, 20.60 and 16.61 with AdamW and GPT-2 124M.
inline constexpr std::array<Preset, 16> kPresets = {{
    peer("fp32", "fp32", "fp32", 0, true),
    peer("bnb8", "de8:block256:step32:rn", "ude8:block256:step32:rn", 4096),
    peer("states8", "de8:block256:rn", "ude8:block256:rn", 0, true),
    peer("bnb8-2048", "de8:block2048:step32:rn", "ude8:block2048:step32:rn", 4096),
    peer("ao-fp8", "e4m3:block256:step32:rn:floored", "e4m3:block256:step32:rn:floored", 4096),
    peer("adam-mini8", "int8:block256:step32:sr", "fp32", 0),
    peer("muon8", "int8:block2048:step32:rn", "fp32", 0),
    peer("thu4", "de4:block128:step32:rn", "lin04:rank1:step32:rn", 4097),
    peer("thu4-factor", "de4:block128:step32:rn", "lin04:block128:step32:rn", 4097),
    peer("ao4", "de4:block128:step32:rn:floored", "lin04:block128:step32:rn:floored", 4096),
    peer("solo2", "de4:block128:step32:rn", "log02:block128:sr", 128),
    {.name = "flash",
     .specs = {"bf16:rn", "bf16:rn", "soft8:block64:step32:rn", "sqrt8:block64:step32:rn",
               "soft8:block64:step32:rn", "ulp8:rn"},
     .is_fused = false},
    {"lpmm",
     {"int12:block256:sr:sticky", "int8:block128:sr", "int8:block256:sr", "sqrt08:block128:sr:sticky",
      "int12:block256:qr:sticky", kNoCompensation}},
    {.name = "lpmm-compact",
     .specs = {"int8:block128:sr:sticky", "int8:block128:sr", "int8:block128:sr", "sqrt08:block128:sr:sticky",
               "int12:block128:qr:sticky", kNoCompensation},
     .feedback_with_sgd = true},
    {.name = "lpmm-min",
     .specs = {"int8:block128:sr:sticky", "soft4:block128:sr", "soft4:block128:sr",
               "sqrt04:block128:ar:sticky", "int12:block128:qr:sticky", kNoCompensation},
     .feedback_with_sgd = true,
     .sum_variance = kSumVariance},
    {.name = "lpmm-nano",
     .specs = {"int7:block128:qr:sticky", "soft3:block128:sr", "soft4:block128:qr", "sqrt02:block128:sr",
               "int12:block128:qr:sticky", kNoCompensation},
     .sgd_parameter = "int7:block128:sr:sticky",
     .sgd_momentum = "int5:block64:sr",
     .sum_variance = kSumVariance},
}};
inline constexpr bool kEveryPresetHasSpecs =
    std::all_of(kPresets.begin(), kPresets.end(), [](const Preset& preset) {
      return std::all_of(preset.specs.begin(), preset.specs.end(), [](std::string_view spec) {
        return spec == kNoCompensation || SpecReader(spec).mistake == SpecMistake::kNone;
      });
    });
static_assert(kEveryPresetHasSpecs, "every preset has a spec for every role");

}  // namespace lpmm
