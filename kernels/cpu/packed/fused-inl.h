// The fused update (kernels/cpu/packed/fused.h) for one rule and one set of codecs.
// Compiled once for each instruction set, with the file that includes it.
#if defined(LPMM_KERNELS_CPU_PACKED_FUSED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LPMM_KERNELS_CPU_PACKED_FUSED_INL_H_
#undef LPMM_KERNELS_CPU_PACKED_FUSED_INL_H_
#else
#define LPMM_KERNELS_CPU_PACKED_FUSED_INL_H_
#endif

#include <algorithm>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "kernels/cpu/packed/fused.h"
#include "kernels/cpu/packed/numbers-inl.h"
#include "kernels/cpu/tile_decode-inl.h"
#include "kernels/cpu/tile_encode-inl.h"
#include "kernels/cpu/tile_noise-inl.h"
#include "kernels/maps.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels {
namespace HWY_NAMESPACE {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

// One role of the tensor, its codec known to the compiler.
template <Role kOf, Codec kCodec>
struct FusedRole {
  static constexpr Role kRole = kOf;
  static constexpr Format kFormat = kCodec.format;
  static constexpr int kBits = kCodec.format.bits;
  static constexpr Coding kCoding = coding_of(kCodec.format.map);
  static constexpr bool kIsPacked = kCoding != Coding::kNumber;
  static constexpr bool kIsSigned = is_signed(kCodec.format.map);
  static constexpr bool kIsWide = kIsPacked && kBits > 8;
  static constexpr bool kTakesDraws = kIsPacked && takes_draws(kCodec.rounding);
  // A sticky step is known before the maximum: values are encoded while they are in registers, and once more
  // where it turns out that the step moves.
  static constexpr bool kIsAtOnce = kIsPacked && kCodec.step_mode == StepMode::kSticky;
  static constexpr int kBlock = kIsPacked ? kCodec.block : kGroup;
  // Where blocks are smaller than groups, a group has parts with steps of their own.
  static constexpr int kPart = kBlock < kGroup ? kBlock : kGroup;
  static constexpr int kParts = kGroup / kPart;
  using Code = CodeOf<kIsWide>;
  static_assert(kIsPacked || kBits == 32 || fused::is_none(kCodec));
};

// Codings without a table read none.
template <Format kFormat>
HWY_INLINE MapTable table_of() {
  if constexpr (coding_of(kFormat.map) == Coding::kDynamic || coding_of(kFormat.map) == Coding::kZones) {
    static const MapTable kTable = map_table(kFormat);
    return kTable;
  }
  return {};
}

// A block whose step is 0 holds zeros, whatever its codes are: these are read in their place.
struct ZeroBlock {
  alignas(64) std::uint8_t codes[2 * kGroup] = {};
  alignas(64) float values[1 << 8] = {};
};
inline constexpr ZeroBlock kZeroBlock;

// Reads the group that begins at element `at` of the tensor; e counts from there.
template <class Of, bool kIsPacked = Of::kIsPacked>
struct Reader {
  const float* values;
  HWY_INLINE Reader(const RoleView& view, std::int64_t at)
      : values(reinterpret_cast<const float*>(view.codes) + at) {}
  HWY_INLINE VF operator()(int e) const { return hn::LoadU(DF(), values + e); }
};
template <class Of>
struct Reader<Of, true> {
  struct Part {
    const std::uint8_t* planes;
    Decoder<Of::kCoding, Of::kBits> decoder;
    HWY_INLINE Part(const std::uint8_t* group, float step)
        : planes(step == 0.0F ? kZeroBlock.codes : group),
          decoder(step == 0.0F ? MapTable{kZeroBlock.values} : table_of<Of::kFormat>(), step) {}
    HWY_INLINE VF operator()(int e) const {
      return decoder(codes_at<Of::kBits, has_signed_codes(Of::kCoding)>(planes, e));
    }
  };
  Part first, last;
  HWY_INLINE Reader(const RoleView& view, std::int64_t at)
      : first(group_of(view, at), bf16_to_float(view.steps[at / Of::kBlock])),
        last(group_of(view, at), bf16_to_float(view.steps[(at + kGroup - 1) / Of::kBlock])) {}
  static HWY_INLINE const std::uint8_t* group_of(const RoleView& view, std::int64_t at) {
    return view.codes + at / kGroup * (16 * Of::kBits);
  }
  HWY_INLINE VF operator()(int e) const {
    if constexpr (Of::kParts == 2) {
      if (e >= Of::kPart) return last(e);
    }
    return first(e);
  }
};

// Where the new values of a role wait for the maxima of a chunk: as they are, or encoded with their steps.
template <class Of, int kChunk, bool kIsAtOnce = Of::kIsAtOnce>
struct Room {
  alignas(64) float values[kChunk];
};
template <class Of, int kChunk>
struct Room<Of, kChunk, true> {
  alignas(64) typename Of::Code codes[kChunk];
};

// Takes new values of a group and says what they will be read as.
template <class Of, bool kIsAtOnce = Of::kIsAtOnce>
struct Writer {
  float* values;
  template <int kChunk>
  HWY_INLINE Writer(Room<Of, kChunk>& room, int begin, std::uint16_t, NoiseLine)
      : values(room.values + begin) {}
  HWY_INLINE void operator()(const RowsF& x, int e, RowsF& stored) {
    each([&](int i) {
      hn::Store(x[i], DF(), values + e + i * static_cast<int>(kLanes));
      stored[i] = x[i];
    });
  }
};
template <class Of>
struct Writer<Of, true> {
  static_assert(Of::kParts == 1);
  using Code = std::conditional_t<has_signed_codes(Of::kCoding), std::make_signed_t<typename Of::Code>,
                                  typename Of::Code>;
  Code* codes;
  Encoder<Of::kCoding, Of::kIsSigned, Of::kTakesDraws> encoder;
  Decoder<Of::kCoding, Of::kBits> decoder;
  Draws draws;
  template <int kChunk>
  HWY_INLINE Writer(Room<Of, kChunk>& room, int begin, std::uint16_t step, NoiseLine line)
      : codes(reinterpret_cast<Code*>(room.codes) + begin),
        encoder(Of::kFormat, table_of<Of::kFormat>()),
        decoder(table_of<Of::kFormat>(), bf16_to_float(step)) {
    encoder.set_step(Of::kFormat, bf16_to_float(step));
    if constexpr (Of::kTakesDraws) draws = Draws(line);
  }
  HWY_INLINE void operator()(const RowsF& x, int e, RowsF& stored) {
    RowsI draw, rows;
    if constexpr (Of::kTakesDraws) {
      each([&](int i) { draw[i] = hn::BitCast(DI(), draws.next()); });
    }
    encoder(x, draw, rows);
    store_rows(rows, codes + e);
    each([&](int i) { stored[i] = decoder(rows[i]); });
  }
};

// One role in one group.
template <class Of>
struct Lane {
  Reader<Of> read;
  Writer<Of> write;
  VU most_first = hn::Zero(DU()), most_last = hn::Zero(DU());  // of each part

  template <class Room>
  HWY_INLINE Lane(const RoleView& view, Room& room, std::int64_t chunk, int begin, std::uint16_t step,
                  NoiseLine line)
      : read(view, chunk + begin), write(room, begin, step, line) {}

  HWY_INLINE Number values(int e) const {
    return each_vector([&](int i) { return read(e + i * static_cast<int>(kLanes)); });
  }
  HWY_INLINE Number finish(const Number& x, int e) {
    each([&](int i) {
      // What is never negative needs no sign taken off; if it has one, it will not be storable.
      const VU bits = hn::BitCast(DU(), Of::kIsSigned ? hn::Abs(x.v[i]) : x.v[i]);
      if (e < Of::kPart) {
        most_first = hn::Max(most_first, bits);
      } else {
        most_last = hn::Max(most_last, bits);
      }
    });
    Number stored;
    write(x.v, e, stored.v);
    return stored;
  }
  HWY_INLINE void keep_most(std::uint32_t* most) const {
    most[0] = hn::GetLane(hn::MaxOfLanes(DU(), most_first));
    if constexpr (Of::kParts == 2) most[1] = hn::GetLane(hn::MaxOfLanes(DU(), most_last));
  }
};

template <class R, fused::Codecs kCodecs>
class FusedLoop {
 public:
  static std::int64_t run(const R& rule, const UpdateArgs& args, std::int64_t first, std::int64_t count) {
    static thread_local State state;
    const std::int64_t whole = count / kSpan * kSpan;
    for (std::int64_t at = 0; at < whole; at += kChunk) {
      const int elements = static_cast<int>(std::min<std::int64_t>(kChunk, whole - at));
      if (!update_chunk(rule, args, first + at, elements, state)) return at;
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
  // What is updated before it is stored: as many groups as their lines of draws are made at once, or, to stay
  // in L1, as few as may be.
  static constexpr bool kTakesDraws = [] {
    bool takes = false;
    for (const Codec& codec : kCodecs) takes = takes || (codec.block != 0 && takes_draws(codec.rounding));
    return takes;
  }();
  static constexpr int kChunk = kTakesDraws ? kCalls * kGroup : kSpan;
  static constexpr int kGroups = kChunk / kGroup;
  static_assert(kChunk % kSpan == 0);

  static constexpr bool kHasGradient = !fused::is_none(kCodecs[Role::kAccumulator]);
  template <Role kRole>
  using Of = FusedRole<kRole, kCodecs[kRole]>;

  template <class Body>
  static HWY_INLINE void each_state(const Body& body) {
    [&]<std::size_t... kState>(std::index_sequence<kState...>) {
      (body(Of<R::kStates[kState]>()), ...);
    }
    (std::make_index_sequence<R::kStates.size()>());
  }
  template <class Body>
  static HWY_INLINE void each_written(const Body& body) {
    body(Of<Role::kParameter>());
    each_state(body);
  }

  // One role in a chunk.
  template <class O>
  struct Waiting {
    Room<O, kChunk> room;
    NoiseLine lines[kGroups];
    std::uint32_t most[kChunk / O::kPart];    // bits of the largest magnitude of each part
    std::uint16_t steps[kChunk / O::kBlock];  // of each block

    // What does not wait for the values.
    void begin(const UpdateArgs& args, std::int64_t at, int elements) {
      const RoleView& view = args.roles[O::kRole];
      if constexpr (O::kIsPacked) std::copy_n(view.steps + at / O::kBlock, elements / O::kBlock, steps);
      if constexpr (O::kTakesDraws) {
        Noise noise = args.noise;
        noise.stream = noise_stream(O::kRole);
        HWY_NAMESPACE::lines(rounding_noise(view.codec.rounding, noise), at / kGroup, elements / kGroup,
                             lines);
      }
    }
    bool is_storable(int elements) const {
      return lpmm::is_storable(*std::max_element(most, most + elements / O::kPart));
    }
    // Marks the groups whose step is another than it was in `steps`.
    bool choose_steps(const RoleView& view, std::int64_t at, int elements, bool* moved) {
      bool any = false;
      for (int block = 0; block < elements / O::kBlock; ++block) {
        constexpr int kPartsOfBlock = O::kBlock / O::kPart;
        const std::uint32_t* of_block = most + block * kPartsOfBlock;
        const float largest = bits_float(*std::max_element(of_block, of_block + kPartsOfBlock));
        const std::uint16_t step = next_step(kCodecs[O::kRole], largest, view.steps[at / O::kBlock + block]);
        if (step == steps[block]) continue;
        steps[block] = step;
        std::fill(moved + block * O::kBlock / kGroup, moved + ((block + 1) * O::kBlock - 1) / kGroup + 1,
                  true);
        any = true;
      }
      return any;
    }
    void store(const RoleView& view, std::int64_t at, int elements) const {
      if constexpr (!O::kIsPacked) {
        std::memcpy(view.codes + 4 * at, room.values, static_cast<std::size_t>(4 * elements));
      } else {
        std::uint8_t* codes = view.codes + at / kGroup * (16 * O::kBits);
        std::copy_n(steps, elements / O::kBlock, view.steps + at / O::kBlock);
        if constexpr (!O::kIsAtOnce) {
          encode_loop<O::kCoding, O::kIsSigned, O::kTakesDraws, O::kIsWide, O::kBits>(
              kCodecs[O::kRole], table_of<O::kFormat>(), room.values, steps, lines, elements, codes);
        } else if constexpr (O::kBits == 8) {
          std::memcpy(codes, room.codes, static_cast<std::size_t>(elements));
        } else {
          for (int group = 0; group < elements; group += kGroup, codes += 16 * O::kBits) {
            pack<O::kIsWide>(room.codes + group, O::kBits, codes);
          }
        }
      }
    }
  };
  template <class... O>
  struct AllWaiting : Waiting<O>... {
    template <class Which>
    HWY_INLINE Waiting<Which>& of(Which) {
      return *this;
    }
  };
  template <std::size_t... kState>
  static auto waiting_of(std::index_sequence<kState...>)
      -> AllWaiting<Of<Role::kParameter>, Of<R::kStates[kState]>...>;
  using State = decltype(waiting_of(std::make_index_sequence<R::kStates.size()>()));

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
                               State& state) {
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
      each_written([&](auto of) { x[of.kRole] = lanes.of(of).values(e); });
      rule(x);
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
  }

  // False: nothing was written, for some value is not storable.
  static bool update_chunk(const R& rule, const UpdateArgs& args, std::int64_t at, int elements,
                           State& state) {
    const R constants = rule;
    const RoleArray<RoleView>& roles = args.roles;
    each_written([&](auto of) { state.of(of).begin(args, at, elements); });
    bool todo[kGroups];
    std::fill_n(todo, kGroups, true);
    for (bool moved = true; moved;) {
      for (int group = 0; group < elements / kGroup; ++group) {
        if (todo[group]) apply(constants, roles, at, group * kGroup, state);
      }
      bool storable = true;
      each_written([&](auto of) { storable = storable && state.of(of).is_storable(elements); });
      if (!storable) return false;
      std::fill_n(todo, kGroups, false);
      moved = false;
      each_written([&](auto of) {
        const bool any = of.kIsPacked && state.of(of).choose_steps(roles[of.kRole], at, elements, todo);
        moved = moved || (any && of.kIsAtOnce);
      });
    }
    each_written([&](auto of) { state.of(of).store(roles[of.kRole], at, elements); });
    if constexpr (kHasGradient) empty(Of<Role::kAccumulator>(), roles[Role::kAccumulator], at, elements);
    return true;
  }
  template <class O>
  static void empty(O, const RoleView& view, std::int64_t at, int elements) {
    if constexpr (O::kIsPacked) {
      std::fill_n(view.steps + at / O::kBlock, elements / O::kBlock, std::uint16_t{0});
    } else {
      std::memset(view.codes + 4 * at, 0, static_cast<std::size_t>(4 * elements));
    }
  }
};

// The loop compiled for a tensor's codecs; null: there is none.
template <class R>
constexpr bool keeps(Role role) {
  return std::find(R::kStates.begin(), R::kStates.end(), role) != R::kStates.end();
}
template <class R, int kSet>
constexpr fused::Codecs codecs_of() {
  fused::Codecs codecs = fused::kCodecs[kSet];
  for (const Role role : kEveryRole) {
    if (is_state(role) && !keeps<R>(role)) codecs[role] = fused::kNone;
  }
  return codecs;
}
// Without an accumulator gradients lie in the momentum, which not every rule can do; a state that the set
// leaves out the rule must not have.
template <class R>
constexpr bool takes(const fused::Codecs& codecs) {
  for (const Role role : R::kStates) {
    if (fused::is_none(codecs[role])) return false;
  }
  return !fused::is_none(codecs[Role::kAccumulator]) || requires {
    &R::accumulated_weight;
  };
}
inline bool serves(const fused::Codecs& compiled, const RoleArray<RoleView>& roles) {
  for (const Role role : kEveryRole) {
    const bool is_there = roles[role].codes != nullptr;
    if (is_there == fused::is_none(compiled[role])) return false;
    if (is_there && !fused::serves(compiled[role], roles[role].codec)) return false;
  }
  return true;
}
template <class R>
FusedUpdate<R> fused_update(const RoleArray<RoleView>& roles) {
  FusedUpdate<R> found = nullptr;
  [&]<int... kSet>(std::integer_sequence<int, kSet...>) {
    const auto look = [&](auto set) {
      constexpr fused::Codecs kCodecs = codecs_of<R, set>();
      if constexpr (takes<R>(kCodecs)) {
        if (serves(kCodecs, roles)) found = FusedLoop<R, kCodecs>::run;
      }
    };
    (look(std::integral_constant<int, kSet>()), ...);
  }
  (std::make_integer_sequence<int, fused::kCodecSets>());
  return found;
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace lpmm::kernels
HWY_AFTER_NAMESPACE();

#endif
