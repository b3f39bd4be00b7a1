// The loops of one set of instructions, which the file that includes this has named as HWY_TARGET.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "kernels/cpu/packed/fused_fold-inl.h"
#include "kernels/cpu/packed/fused_update-inl.h"
#include "kernels/cpu/packed/numbers-inl.h"
#include "kernels/cpu/packed/rule_loops.h"
#include "kernels/cpu/sets/instruction_sets.h"
#include "kernels/cpu/tile_decode-inl.h"
#include "kernels/cpu/tile_encode-inl.h"
#include "kernels/cpu/tile_loops-inl.h"
#include "kernels/cpu/tile_noise-inl.h"
#include "kernels/cpu/tile_vectors-inl.h"
#include "kernels/rules/watched.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels {
namespace HWY_NAMESPACE {

HWY_INLINE Number load_number(const float* HWY_RESTRICT from) {
  return each_vector([&](int i) { return hn::Load(DF(), from + i * kLanes); });
}
HWY_INLINE void store_number(const Number& x, float* HWY_RESTRICT to) {
  each([&](int i) { hn::Store(x.v[i], DF(), to + i * kLanes); });
}

template <class R>
struct Loops {
  static HWY_INLINE void load(const TileValues& values, std::int64_t i, Elements<Number>& x) {
    x[Role::kParameter] = load_number(values[Role::kParameter] + i);
    x[Role::kAccumulator] = load_number(values[Role::kAccumulator] + i);
    each_role<R::kStates>([&](auto state) { x[state] = load_number(values[state] + i); });
  }
  static HWY_INLINE void store_states(const Elements<Number>& x, const TileValues& values, std::int64_t i) {
    each_role<R::kStates>([&](auto state) { store_number(x[state], values[state] + i); });
  }

  // `constants` and `at` are copies that no store can touch.
  static void apply(const R& rule, const TileValues& values, std::int64_t count) {
    const R constants = rule;
    const TileValues at = values;
    for (std::int64_t i = 0; i < count; i += kSideBySide) {
      Elements<Number> x;
      load(at, i, x);
      constants(x);
      store_number(x[Role::kParameter], at[Role::kParameter] + i);
      store_states(x, at, i);
    }
  }
  static void feed_back(const R& rule, const float* stored, const TileValues& values, std::int64_t count) {
    const R constants = rule;
    const TileValues at = values;
    for (std::int64_t i = 0; i < count; i += kSideBySide) {
      Elements<Number> x;
      load(at, i, x);
      constants.feed_back(x[Role::kParameter] - load_number(stored + i), x);
      store_states(x, at, i);
    }
  }
  // compute(constants, x, of) makes kCount numbers of each element.
  template <int kCount, class Compute>
  static HWY_INLINE void only_read(const R& rule, const TileValues& values, float* const* out,
                                   std::int64_t count, const Compute& compute) {
    const R constants = rule;
    const TileValues at = values;
    for (std::int64_t i = 0; i < count; i += kSideBySide) {
      Elements<Number> x;
      load(at, i, x);
      Number of[kCount];
      compute(constants, x, of);
      for (int k = 0; k < kCount; ++k) store_number(of[k], out[k] + i);
    }
  }
  static void terms(const R& rule, const TileValues& values, float* const* terms, std::int64_t count) {
    only_read<R::kNorms>(rule, values, terms, count,
                         [](const R& r, Elements<Number>& x, auto& of) { r.terms(x, of); });
  }
  static void watch(const R& rule, const TileValues& values, float* const* measured, std::int64_t count) {
    only_read<kWatched>(rule, values, measured, count,
                        [](const R& r, Elements<Number>& x, auto& of) { measure_element(r, x, of); });
  }

  static constexpr LoopsOf<R> loops() {
    LoopsOf<R> all;
    all.apply = apply;
    all.watch = watch;
    if constexpr (FeedsBack<R>) all.feed_back = feed_back;
    if constexpr (HasNorms<R>) all.terms = terms;
    all.fused = fused_update<R>;
    return all;
  }
};

InstructionSet instruction_set() {
  static constexpr const char* kName = HWY_TARGET == HWY_AVX3   ? "avx512"
                                       : HWY_TARGET == HWY_AVX2 ? "avx2"
                                                                : "neon";
  static constexpr TileKernels kTile = {kName,       lines,       draw,    decode,    decode_versions,
                                        decode_bf16, encode,      largest, smallest,  raise_peaks,
                                        add_scaled,  square_sums, to_bf16, from_bf16, fused_fold};
  static constexpr RuleLoops kRules = make_rule_loops<Loops>(std::type_identity<Rule>());
  return {&kTile, &kRules};
}

}  // namespace HWY_NAMESPACE
}  // namespace lpmm::kernels
HWY_AFTER_NAMESPACE();
