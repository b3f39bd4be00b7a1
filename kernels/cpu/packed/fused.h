// Updates and folds of whole groups in one pass: decode, arithmetic, maxima, steps, draws and encode of a
// group while its values lie in registers and L1. Compiled for the codecs below, an update for each rule
// (is_compiled()); anything else, and what is left of a range, takes the tile loops (kernels/cpu/packed/).
// The bits are the same.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "kernels/cpu/packed/run_statistics.h"
#include "kernels/formats/presets.h"
#include "kernels/packed.h"

namespace lpmm::kernels {

// Updates [first, first + count) of a tensor, where a group and a block begin at `first`, and returns how
// many elements are done: those of whole groups (blocks, where they are larger), or those before the first
// chunk of groups with a value that is not storable, or was not at a first try. Does not count changes.
// Where `statistics` is not null, it receives those of these updates: then the elements done are whole pieces
// of kernels/sums.h.
template <class R>
using FusedUpdate = std::int64_t (*)(const R& rule, const UpdateArgs& args, std::int64_t first,
                                     std::int64_t count, RunStatistics* statistics);

// Folds the same way, whole pieces of kernels/sums.h; `square_sums`, where not null, gets theirs.
using FusedFold = std::int64_t (*)(const RoleView& accumulator, std::int64_t first, std::int64_t count,
                                   const float* contribution, const FoldArgs& args, double* square_sums);

namespace fused {

inline constexpr Codec kNone = {{Map::kFp32, 0}};  // the role is not there
inline constexpr Codec kFp32 = {{Map::kFp32, 32}};

using Codecs = RoleArray<Codec>;

// The codec of a preset as a loop is compiled for it: which draws are taken is known when it runs.
constexpr Codec codec_of(std::string_view spec) {
  if (spec.empty() || spec == kNoCompensation) return kNone;
  Codec codec = SpecReader(spec).codec;
  if (takes_draws(codec.rounding)) codec.rounding = law_of(codec.rounding);
  return codec;
}
constexpr bool packs_parameters(const Preset& preset) {
  return preset.is_fused && is_packed(codec_of(preset.spec(Role::kParameter)).format);
}
// The codecs of the presets that are fused, in their order, and then that of gradients in the momentum: so
// many sets. Behind them, for parameters and gradients that a framework keeps, fp32 with the states of each
// preset that packs its own; and each of these presets with a gradient of fp32, as sums over slots are. A
// rule does not read those of states it lacks.
inline constexpr int kCodecSets =
    1 + std::count_if(kPresets.begin(), kPresets.end(), [](const Preset& preset) { return preset.is_fused; });
inline constexpr auto kFloatSets =
    static_cast<int>(kCodecSets + std::count_if(kPresets.begin(), kPresets.end(), packs_parameters));
inline constexpr int kAllSets = 2 * kFloatSets - kCodecSets;
inline constexpr auto kCodecs = [] {
  std::array<Codecs, kAllSets> sets{};
  Codecs &in_momentum = sets[kCodecSets - 1], *preset_set = sets.data(), *float_set = &in_momentum + 1;
  for (const Role role : kEveryElementRole) in_momentum[role] = kNone;
  for (const Preset& preset : kPresets) {
    if (!preset.is_fused) continue;
    for (const Role role : kEveryElementRole) (*preset_set)[role] = codec_of(preset.spec(role));
    if (packs_parameters(preset)) {
      *float_set = *preset_set;
      (*float_set)[Role::kParameter] = (*float_set)[Role::kAccumulator] = kFp32;
      Codecs& summed_set = float_set[kFloatSets - kCodecSets];
      summed_set = *preset_set;
      summed_set[Role::kAccumulator] = kFp32;
      ++float_set;
    }
    ++preset_set;
    if (preset.sgd_momentum.empty()) continue;
    in_momentum[Role::kParameter] = codec_of(preset.sgd_parameter);
    in_momentum[Role::kMomentum] = codec_of(preset.sgd_momentum);
  }
  return sets;
}();

constexpr bool is_none(const Codec& codec) {
  return codec.format.bits == 0;
}
// True if the loop compiled for `compiled` also handles `codec`: which draws are taken is known when it runs.
constexpr bool serves(const Codec& compiled, const Codec& codec) {
  const bool rounds_alike = law_of(compiled.rounding) == law_of(codec.rounding) &&
                            takes_draws(compiled.rounding) == takes_draws(codec.rounding);
  return compiled.format == codec.format && compiled.block == codec.block && rounds_alike &&
         compiled.step_mode == codec.step_mode && !divides_first(codec);
}

// Rules of one arithmetic share their loops (kernels/rules/rule.h).
template <class R>
struct ArithmeticOf {
  using Type = R;
};
template <class R>
requires requires {
  typename R::Arithmetic;
}
struct ArithmeticOf<R> {
  using Type = typename R::Arithmetic;
};

// The loops that are compiled: those of the sets for a framework and for sums, where a rule asks for them.
// Sanitizers make twenty times the code of each loop: they see all sets but those for sums with the rules
// that ask, and the others, of which only the arithmetic differs, with the set of a preset.
template <class R>
constexpr bool is_compiled(int set) {
  constexpr bool kHasFloats = requires {
    ArithmeticOf<R>::Type::kHasFloatLoops;
  };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return kHasFloats ? set < kFloatSets : set == 2;
#else
  return kHasFloats || set < kCodecSets;
#endif
}

// The states that a rule's loops keep.
template <class R>
constexpr auto states_of() {
  if constexpr (requires { R::kFusedStates; }) {
    return R::kFusedStates;
  } else {
    return R::kStates;
  }
}
template <class R>
constexpr bool keeps(Role role) {
  const auto states = states_of<R>();
  return std::find(states.begin(), states.end(), role) != states.end();
}
// Rules whose variance is a sum store it like this where others have 4 bits or fewer, as presets have it.
inline constexpr Codec kSum = codec_of(kSumVariance);
template <class R>
constexpr Codecs codecs_of(Codecs codecs) {
  for (const Role role : kEveryRole) {
    if (is_state(role) && !keeps<R>(role)) codecs[role] = kNone;
  }
  if constexpr (requires { R::kVarianceGrows; }) {
    Codec& variance = codecs[Role::kVariance];
    if (!is_none(variance) && variance.format.bits <= kSum.format.bits) variance = kSum;
  }
  return codecs;
}
template <class R, int kSet>
constexpr Codecs codecs_of() {
  return codecs_of<R>(kCodecs[kSet]);
}
// Without an accumulator gradients lie in the momentum, which not every rule can do; the rule must not have a
// state that the set leaves out. A rule with a variance per column has other states for vectors, and the
// passes of an orthogonal step update roles that no preset has: the tile loops do those.
template <class R>
constexpr bool takes(const Codecs& codecs) {
  if (keeps<R>(Role::kColumnVariance) || HasPasses<R>) return false;
  for (const Role role : states_of<R>()) {
    if (is_none(codecs[role])) return false;
  }
  return !is_none(codecs[Role::kAccumulator]) || requires {
    &R::accumulated_weight;
  };
}
// Not inlined: each rule asks it of each set.
[[gnu::noinline]] inline bool serves(const Codecs& compiled, const RoleArray<RoleView>& roles) {
  for (const Role role : kEveryRole) {
    const bool is_there = roles[role].codes != nullptr;
    if (is_there == is_none(compiled[role])) return false;
    if (is_there && !serves(compiled[role], roles[role].codec)) return false;
  }
  return true;
}
}  // namespace fused
}  // namespace lpmm::kernels
