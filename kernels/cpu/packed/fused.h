// Updates and folds of whole groups in one pass: decode, arithmetic, maxima, steps, draws and encode of a
// group while its values lie in registers and L1. Compiled for the codecs below, an update for each rule;
// anything else, and what is left of a range, takes the tile loops (kernels/cpu/packed/). The bits are the
// same.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/packed/looks.h"
#include "kernels/packed.h"

namespace lpmm::kernels {

// Updates [first, first + count) of a tensor, where a group and a block begin at `first`, and returns how
// many elements are done: those of whole groups (blocks, where they are larger), or those before the first
// chunk of groups with a value that is not storable, or was not at a first try. Does not count statistics.
// Where `looks` is not null, it receives what the watch sees of these elements: then those done are whole
// pieces of kernels/sums.h.
template <class R>
using FusedUpdate = std::int64_t (*)(const R& rule, const UpdateArgs& args, std::int64_t first,
                                     std::int64_t count, RunLooks* looks);

// Folds the same way, whole pieces of kernels/sums.h; `square_sums`, where not null, gets theirs.
using FusedFold = std::int64_t (*)(const RoleView& accumulator, std::int64_t first, std::int64_t count,
                                   const float* contribution, const FoldArgs& args, double* square_sums);

namespace fused {

inline constexpr Codec kNone = {{Map::kFp32, 0}};  // the role is not there
inline constexpr Codec kFp32 = {{Map::kFp32, 32}};

constexpr Codec packed(Map map, int bits, int block = 128, Rounding rounding = Rounding::kStochastic,
                       StepMode mode = StepMode::kMoving) {
  return {{map, static_cast<std::uint8_t>(bits)}, block, rounding, mode};
}
constexpr Codec sticky(Map map, int bits, int block = 128, Rounding rounding = Rounding::kStochastic) {
  return packed(map, bits, block, rounding, StepMode::kSticky);
}

using Codecs = RoleArray<Codec>;

// The codecs of the presets. A rule does not read those of states it lacks. Codecs that only serve for
// comparison, and parameters of two terms, are left to the tile loops.
inline constexpr Codecs kCodecs[] = {
    {{kFp32, kFp32, kFp32, kFp32, kFp32, kNone}},
    {{kFp32, kFp32, packed(Map::kDynamic, 8, 256, Rounding::kNearest),
      packed(Map::kDynamicUnsigned, 8, 256, Rounding::kNearest),
      packed(Map::kDynamic, 8, 256, Rounding::kNearest), kNone}},
    {{sticky(Map::kLinear, 12, 256), packed(Map::kLinear, 8), packed(Map::kLinear, 8, 256),
      sticky(Map::kSquareRoot, 8), sticky(Map::kLinear, 12, 256), kNone}},
    {{sticky(Map::kLinear, 8), packed(Map::kLinear, 8), packed(Map::kLinear, 8), sticky(Map::kSquareRoot, 8),
      sticky(Map::kLinear, 12), kNone}},
    {{sticky(Map::kLinear, 8), packed(Map::kSoftsign, 4), packed(Map::kSoftsign, 4),
      sticky(Map::kSquareRoot, 4, 128, Rounding::kAverage), sticky(Map::kLinear, 12), kNone}},
    {{sticky(Map::kLinear, 7), packed(Map::kSoftsign, 3), packed(Map::kSoftsign, 4),
      packed(Map::kSquareRoot, 2), sticky(Map::kLinear, 12), kNone}},
    {{sticky(Map::kLinear, 7), kNone, packed(Map::kLinear, 5, 64), kNone, kNone, kNone}},
};
inline constexpr int kCodecSets = sizeof kCodecs / sizeof kCodecs[0];

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
// Rules whose variance is a sum store it like this where others have 4 bits or fewer, as presets have it
// (sum_variance in lpmm/memory/presets.cpp).
inline constexpr Codec kSum = sticky(Map::kSquareRoot, 4);
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
// Without an accumulator gradients lie in the momentum, which not every rule can do; a state that the set
// leaves out the rule must not have. A rule with a variance per column has other states for vectors, and the
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
inline bool serves(const Codecs& compiled, const RoleArray<RoleView>& roles) {
  for (const Role role : kEveryRole) {
    const bool is_there = roles[role].codes != nullptr;
    if (is_there == is_none(compiled[role])) return false;
    if (is_there && !serves(compiled[role], roles[role].codec)) return false;
  }
  return true;
}
}  // namespace fused
}  // namespace lpmm::kernels
