// The fused update (kernels/cpu/packed/fused.h) for one rule and one set of codecs.
// Compiled once for each set of instructions, in its file (kernels/cpu/sets/).
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/cpu/packed/fused_roles-inl.h"
#include "kernels/cpu/packed/tile_view.h"
#include "kernels/cpu/tile_loops-inl.h"
#include "kernels/rules/watched.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels {
namespace HWY_NAMESPACE {

// What the watch measures in a group, before and after its update, and the sums of a chunk's groups.
// Statistics are made of these for all codecs, whose loops are many.
struct WatchedValues {
  alignas(64) float parameters[kGroup], gradients[kGroup], new_parameters[kGroup], new_variances[kGroup];
  double squares[kWatched][kCalls];
};
// Ratios are there where every element has a variance.
constexpr int watched_count(bool has_ratio) {
  return has_ratio ? kWatched : static_cast<int>(Watched::kRatio);
}
HWY_INLINE void keep_watched(const Number& values, float* to, int e) {
  each([&](int i) { hn::Store(values.v[i], DF(), to + e + i * static_cast<int>(kLanes)); });
}
// The place in a group of the first whose magnitude has these bits, where there is one.
HWY_NOINLINE inline int first_of_size(const float* group, std::uint32_t bits) {
  for (int i = 0; i < kGroup; i += static_cast<int>(kLanes)) {
    const VU sizes = hn::BitCast(DU(), hn::Abs(hn::Load(DF(), group + i)));
    const auto at = hn::FindFirstTrue(DU(), hn::Eq(sizes, hn::Set(DU(), bits)));
    if (at >= 0) return i + static_cast<int>(at);
  }
  return 0;
}
// Measures a group of a chunk, which begins at element `at` of the tensor and had these values. It may come
// twice: the statistics are the same.
template <class R, bool kHasRatio>
HWY_NOINLINE void measure_group(const R& rule, const float* parameters, const float* gradients,
                                WatchedValues& watched, int group, std::int64_t at, RunStatistics& into) {
  alignas(64) float measured[kWatched][kGroup];
  VU update = hn::Zero(DU()), ratio = update;  // the largest
  for (int e = 0; e < kGroup; e += static_cast<int>(kSideBySide)) {
    const auto read = [e](const float* values) {
      return each_vector([&](int i) { return hn::LoadU(DF(), values + e + i * static_cast<int>(kLanes)); });
    };
    Elements<Number> x;
    x[Role::kParameter] = read(watched.new_parameters);
    if constexpr (kHasRatio) x[Role::kVariance] = read(watched.new_variances);
    Number seen[kWatched];
    measure_change(rule, read(parameters), read(gradients), x, seen);
    for (int k = 0; k < watched_count(kHasRatio); ++k) keep_watched(seen[k], measured[k], e);
    each([&](int i) {
      const auto larger = [i](VU than, const Number& x) {
        return hn::Max(than, hn::BitCast(DU(), hn::Abs(x.v[i])));
      };
      update = larger(update, seen[static_cast<int>(Watched::kUpdate)]);
      ratio = larger(ratio, seen[static_cast<int>(Watched::kRatio)]);
    });
  }
  for (int k = 0; k < watched_count(kHasRatio); ++k) {
    watched.squares[k][group] = group_square_sum(measured[k]);
  }
  const auto raise = [&](LargestElement& largest, VU most, Watched term) {
    const std::uint32_t bits = hn::GetLane(hn::MaxOfLanes(DU(), most));
    if (bits <= largest.bits) return;
    largest.raise(bits, at + first_of_size(measured[static_cast<int>(term)], bits));
  };
  raise(into.update, update, Watched::kUpdate);
  if constexpr (kHasRatio) raise(into.ratio, ratio, Watched::kRatio);
  const auto raise_peak = [&](Peak peak, std::uint8_t* codes, Watched term, Watched beside) {
    if (codes == nullptr) return;
    raise_peaks(peak, measured[static_cast<int>(term)], measured[static_cast<int>(beside)], kGroup,
                codes + code_bytes(kPeakFormat, at));
  };
  raise_peak(Peak::kUpdate, into.peaks.update, Watched::kUpdate, Watched::kParameter);
  if constexpr (kHasRatio) raise_peak(Peak::kRatio, into.peaks.ratio, Watched::kRatio, Watched::kRatio);
}
// Sums the squares for the units of a chunk.
HWY_NOINLINE inline void add_group_squares(WatchedValues& watched, int terms, std::int64_t at, int elements,
                                           RunStatistics& into) {
  for (int first = 0; first < elements / kGroup; first += kUnitGroups) {
    for (int k = 0; k < terms; ++k) {
      into.squares[k][at / kUnit + first / kUnitGroups] =
          sum_as_tree(watched.squares[k] + first, kUnitGroups);
    }
  }
}

template <class R, fused::Codecs kCodecs>
class UpdateLoop {
 public:
  static std::int64_t run(const R& rule, const UpdateArgs& args, std::int64_t first, std::int64_t count,
                          RunStatistics* statistics) {
    State state;
    const std::int64_t span = statistics == nullptr ? kSpan : kUnit, whole = count / span * span;
    const std::int64_t chunk = kTakesDraws ? kChunk : span;
    for (std::int64_t at = 0; at < whole; at += chunk) {
      const int elements = static_cast<int>(std::min(chunk, whole - at));
      if (!update_chunk(rule, args, first + at, elements, state, statistics)) return at;
      if (statistics != nullptr) {
        add_group_squares(state.watched, watched_count(kHasRatio), first + at, elements, *statistics);
      }
    }
    return whole;
  }

 private:
  // Whole groups and whole blocks of every role.
  static constexpr int kSpan = [] {
    int span = kGroup;
    for (const Codec& codec : kCodecs) span = std::max(span, codec.block);
    return span;
  }();
  // The groups that are updated before they are stored: as many groups as their lines of draws are made at
  // once, or, to stay in L1, as few as may be; at most kChunk.
  static constexpr bool kTakesDraws = [] {
    bool takes = false;
    for (const Codec& codec : kCodecs) takes = takes || (codec.block != 0 && takes_draws(codec.rounding));
    return takes;
  }();
  static constexpr int kChunk = static_cast<int>(kTakesDraws ? kCalls * kGroup : kUnit);
  static constexpr int kGroups = kChunk / kGroup;
  static_assert(kUnit % kSpan == 0 && kChunk % kUnit == 0);
  static_assert(!FeedsBack<R> || !is_packed(kCodecs[Role::kParameter].format) ||
                    kCodecs[Role::kParameter].step_mode == StepMode::kSticky,
                "what a parameter rounds to must be known before the states are written");

  static constexpr bool kHasGradient = !fused::is_none(kCodecs[Role::kAccumulator]);
  template <Role kRole>
  using Of = FusedRole<kRole, kCodecs[kRole]>;

  // The states of elements, and whether rows have one.
  static constexpr bool kHasRows = fused::keeps<R>(Role::kRowVariance);
  static constexpr auto kStates = [] {
    constexpr auto kAll = fused::states_of<R>();
    constexpr auto kCount = std::count_if(kAll.begin(), kAll.end(), is_per_element);
    std::array<Role, static_cast<std::size_t>(kCount)> states{};
    std::copy_if(kAll.begin(), kAll.end(), states.begin(), is_per_element);
    return states;
  }();
  template <class Body>
  static HWY_INLINE void each_state(const Body& body) {
    each_role<kStates>([&](auto state) { body(Of<state()>()); });
  }
  template <class Body>
  static HWY_INLINE void each_written(const Body& body) {
    body(Of<Role::kParameter>());
    each_state(body);
  }

  template <class... O>
  struct AllWaiting : Waiting<O, kChunk>... {
    template <class Which>
    HWY_INLINE Waiting<Which, kChunk>& of(Which) {
      return *this;
    }
  };
  template <std::size_t... kState>
  static auto waiting_of(std::index_sequence<kState...>)
      -> AllWaiting<Of<Role::kParameter>, Of<kStates[kState]>...>;
  // The values that wait to be stored, those that the elements of a chunk share with their rows, and what is
  // measured.
  struct State : decltype(waiting_of(std::make_index_sequence<kStates.size()>())) {
    alignas(64) float of_rows[kHasRows ? kChunk : 1];
    WatchedValues watched;
  };

  static constexpr auto kNextStep = [](const Codec& codec, float largest, std::uint16_t old) {
    return next_step(codec, largest, old);
  };

  // The roles in a group.
  template <class... O>
  struct Lanes : Lane<O>... {
    HWY_INLINE Lanes(const RoleArray<RoleView>& roles, AllWaiting<O...>& waiting, std::int64_t chunk,
                     int begin)
        : Lane<O>(roles[O::kRole], waiting.of(O()).room, chunk, begin,
                  waiting.of(O()).steps[begin / O::kBlock], waiting.of(O()).lines[begin / kGroup])... {}
    template <class Which>
    HWY_INLINE Lane<Which>& of(Which) {
      return *this;
    }
  };
  template <class... O>
  static HWY_INLINE Lanes<O...> lanes_of(const RoleArray<RoleView>& roles, AllWaiting<O...>& waiting,
                                         std::int64_t chunk, int begin) {
    return {roles, waiting, chunk, begin};
  }
  struct NoReader {
    HWY_INLINE NoReader(const RoleView&, std::int64_t) {}
  };
  using GradientReader = std::conditional_t<kHasGradient, Reader<Of<Role::kAccumulator>>, NoReader>;

  // Finishes the vectors of x, from kAt on, and what comes after them.
  template <int kAt, class ValuesAt, class Finish>
  static HWY_INLINE void one_ahead(Elements<Number>& x, const ValuesAt& values_at, const Finish& finish) {
    constexpr int kNext = kAt + static_cast<int>(kSideBySide);
    if constexpr (kNext < kGroup) {
      Elements<Number> next = values_at(kNext);
      finish(x, kAt);
      one_ahead<kNext>(next, values_at, finish);
    } else {
      finish(x, kAt);
    }
  }

  // Takes a group from what is stored to what is to be stored. The rule is a vector ahead of the writing: its
  // roots and quotients are long under way while what is before them is encoded.
  static HWY_INLINE void apply(const R& rule, const RoleArray<RoleView>& roles, std::int64_t chunk, int begin,
                               State& state, RunStatistics* into) {
    // Both lambdas are inlined by force: what is in `lanes` then lies in registers.
    auto lanes = lanes_of(roles, state, chunk, begin);
    const GradientReader gradient(roles[Role::kAccumulator], chunk + begin);
    const auto values_at = [&](int e) __attribute__((always_inline)) {
      Elements<Number> x;
      if constexpr (kHasGradient) {
        x[Role::kAccumulator] =
            each_vector([&](int i) { return gradient(e + i * static_cast<int>(kLanes)); });
      } else {
        x[Role::kAccumulator] = Number(0.0F);
      }
      if constexpr (kHasRows) {
        x[Role::kRowVariance] = each_vector(
            [&](int i) { return hn::LoadU(DF(), state.of_rows + begin + e + i * static_cast<int>(kLanes)); });
      }
      each_role<R::kStates>([&](auto state) {
        if constexpr (!fused::keeps<R>(state())) x[state] = Number(0.0F);
      });
      each_written([&](auto of) { x[of.kRole] = lanes.of(of).values(e); });
      if (into != nullptr) {
        if constexpr (!kIsFloat<Role::kParameter>) {
          keep_watched(x[Role::kParameter], state.watched.parameters, e);
        }
        if constexpr (!kIsFloat<Role::kAccumulator>) {
          keep_watched(x[Role::kAccumulator], state.watched.gradients, e);
        }
      }
      rule(x);
      if (into != nullptr) {
        keep_watched(x[Role::kParameter], state.watched.new_parameters, e);
        if constexpr (kHasRatio) keep_watched(x[Role::kVariance], state.watched.new_variances, e);
      }
      return x;
    };
    const auto finish = [&](Elements<Number> & x, int e) __attribute__((always_inline)) {
      const Number stored = lanes.of(Of<Role::kParameter>()).finish(x[Role::kParameter], e);
      if constexpr (FeedsBack<R>) {
        if (!same(rule.feedback, 0.0F)) rule.feed_back(x[Role::kParameter] - stored, x);
      }
      each_state([&](auto of) { lanes.of(of).finish(x[of.kRole], e); });
    };
    Elements<Number> first = values_at(0);
    one_ahead<0>(first, values_at, finish);
    each_written([&](auto of) { lanes.of(of).keep_most(state.of(of).most + begin / of.kPart); });
    if (into != nullptr) {
      const float* const parameters =
          floats_of<Role::kParameter>(roles, chunk + begin, state.watched.parameters);
      const float* const gradients =
          floats_of<Role::kAccumulator>(roles, chunk + begin, state.watched.gradients);
      measure_group<R, kHasRatio>(rule, parameters, gradients, state.watched, begin / kGroup, chunk + begin,
                                  *into);
    }
  }

  static constexpr bool kHasRatio = !fused::is_none(kCodecs[Role::kVariance]);
  // What is stored in fp32 is measured where it lies, until all of the chunk is stored.
  template <Role kRole>
  static constexpr bool kIsFloat = !fused::is_none(kCodecs[kRole]) && !Of<kRole>::kIsPacked;
  template <Role kRole>
  static const float* floats_of(const RoleArray<RoleView>& roles, std::int64_t at, const float* kept) {
    return kIsFloat<kRole> ? reinterpret_cast<const float*>(roles[kRole].codes) + at : kept;
  }

  // False: nothing was written, for some value is not storable.
  static bool update_chunk(const R& rule, const UpdateArgs& args, std::int64_t at, int elements, State& state,
                           RunStatistics* statistics) {
    const R constants = rule;
    const RoleArray<RoleView>& roles = args.roles;
    each_written([&](auto of) {
      Noise noise = args.noise;
      noise.stream = noise_stream(of.kRole);
      state.of(of).begin(roles[of.kRole], noise, at, elements);
    });
    if constexpr (kHasRows) {
      spread_tile(roles[Role::kRowVariance], Extent::kRows, matrix_of(roles).columns, at, elements,
                  state.of_rows);
    }
    bool todo[kGroups];
    std::fill_n(todo, kGroups, true);
    for (bool moved = true; moved;) {
      for (int group = 0; group < elements / kGroup; ++group) {
        if (todo[group]) apply(constants, roles, at, group * kGroup, state, statistics);
      }
      bool storable = true;
      each_written([&](auto of) { storable = storable && state.of(of).is_storable(elements); });
      if (!storable) return false;
      std::fill_n(todo, kGroups, false);
      moved = false;
      each_written([&](auto of) {
        if constexpr (of.kIsAtOnce) {
          state.of(of).choose_steps(kNextStep, roles[of.kRole], at, elements,
                                    [&](int group) { todo[group] = moved = true; });
        }
      });
    }
    each_written([&](auto of) {
      if constexpr (of.kIsPacked && !of.kIsAtOnce) {
        state.of(of).choose_steps(kNextStep, roles[of.kRole], at, elements, [](int) {});
      }
    });
    store(args, at, elements, state);
    if constexpr (kHasGradient) {
      if (!args.keeps_gradient) empty(Of<Role::kAccumulator>(), roles[Role::kAccumulator], at, elements);
    }
    return true;
  }
  // What the chunk that begins at element `at` reads of a role in fp32, from where that is decoded.
  template <Role kRole>
  static Ahead::Numbers numbers_of(const UpdateArgs& args, std::int64_t at) {
    if constexpr (!kIsFloat<kRole>) return {};
    const RoleView& role = (args.stored != nullptr ? *args.stored : args.roles)[kRole];
    const Format& format = role.codec.format;
    return {role.codes + code_bytes(format, at), static_cast<int>(code_bytes(format, kGroup))};
  }
  // Stores what waits. Loops that encode states ask for what the next chunk reads of a gradient and a
  // parameter in fp32: one for both, or two for one each.
  static void store(const UpdateArgs& args, std::int64_t at, int elements, State& state) {
    const RoleArray<RoleView>& roles = args.roles;
    constexpr bool kHasFloats = kIsFloat<Role::kAccumulator> || kIsFloat<Role::kParameter>;
    constexpr auto kLoops = static_cast<int>(std::count_if(
        kStates.begin(), kStates.end(), [](Role role) { return is_packed(kCodecs[role].format); }));
    std::conditional_t<kHasFloats && kLoops != 0, Ahead, NothingAhead> next[kStates.size()];
    if constexpr (kHasFloats && kLoops != 0) {
      next[0].of_roles[0] = numbers_of<Role::kAccumulator>(args, at + elements);
      next[kLoops == 1 ? 0 : 1].of_roles[1] = numbers_of<Role::kParameter>(args, at + elements);
    }
    state.of(Of<Role::kParameter>()).store(roles[Role::kParameter], at, elements);
    int loop = 0;
    each_state(
        [&](auto of) { state.of(of).store(roles[of.kRole], at, elements, next[of.kIsPacked ? loop++ : 0]); });
  }
  template <class O>
  static void empty(O, const RoleView& view, std::int64_t at, int elements) {
    if constexpr (O::kIsPacked) {
      std::fill_n(view.steps + at / O::kBlock, elements / O::kBlock, std::uint16_t{0});
    } else {
      std::memset(view.codes + 4 * at, 0, 4 * static_cast<std::size_t>(elements));
    }
  }
};

template <class R, fused::Codecs kCodecs>
std::int64_t run_fused(const R& rule, const UpdateArgs& args, std::int64_t first, std::int64_t count,
                       RunStatistics* statistics) {
  return UpdateLoop<typename fused::ArithmeticOf<R>::Type, kCodecs>::run(rule, args, first, count,
                                                                         statistics);
}
// The loop compiled for a tensor's codecs; null: there is none.
template <class R>
FusedUpdate<R> fused_update(const RoleArray<RoleView>& roles) {
  FusedUpdate<R> found = nullptr;
  each_codec_set([&](auto set) {
    static constexpr fused::Codecs kCodecs = fused::codecs_of<R, set>();
    if constexpr (fused::takes<R>(kCodecs) && fused::is_compiled<R>(set)) {
      if (fused::serves(kCodecs, roles)) found = run_fused<R, kCodecs>;
    }
  });
  return found;
}

}  // namespace HWY_NAMESPACE
}  // namespace lpmm::kernels
HWY_AFTER_NAMESPACE();
