// One role in one group of a fused loop (kernels/cpu/packed/fused.h): read, written, its largest magnitude.
// Compiled once for each set of instructions, in its file (kernels/cpu/sets/).
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/cpu/packed/fused.h"
#include "kernels/cpu/packed/numbers-inl.h"
#include "kernels/cpu/tile_decode-inl.h"
#include "kernels/cpu/tile_encode-inl.h"
#include "kernels/cpu/tile_noise-inl.h"
#include "kernels/formats/maps.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels {
namespace HWY_NAMESPACE {

// Calls body(set) for each of fused::kCodecs, the place in it known to the compiler.
template <class Body>
void each_codec_set(const Body& body) {
  [&]<int... kSet>(std::integer_sequence<int, kSet...>) {
    (body(std::integral_constant<int, kSet>()), ...);
  }
  (std::make_integer_sequence<int, fused::kAllSets>());
}

// One role of the tensor, its codec known to the compiler.
template <Role kOf, Codec kOfCodec>
struct FusedRole {
  static constexpr Role kRole = kOf;
  static constexpr Codec kCodec = kOfCodec;
  static constexpr Format kFormat = kCodec.format;
  static constexpr int kBits = kCodec.format.bits;
  static constexpr Coding kCoding = coding_of(kCodec.format.map);
  static constexpr bool kIsPacked = kCoding != Coding::kNumber;
  static constexpr bool kIsSigned = is_signed(kCodec.format.map);
  static constexpr bool kIsWide = kIsPacked && kBits > 8;
  static constexpr bool kTakesDraws = kIsPacked && takes_draws(kCodec.rounding);
  static constexpr Rounding kLaw = law_of(kCodec.rounding);
  // A sticky step is known before the maximum: a parameter, whose rounding error the states may take, is
  // encoded while it is in registers, and once more where it turns out that the step moves.
  static constexpr bool kIsAtOnce =
      kRole == Role::kParameter && kIsPacked && kCodec.step_mode == StepMode::kSticky;
  static constexpr int kBlock = kIsPacked ? kCodec.block : kGroup;
  // Where blocks are smaller than groups, a group has parts with steps of their own.
  static constexpr int kPart = kBlock < kGroup ? kBlock : kGroup;
  static constexpr int kParts = kGroup / kPart;
  static_assert(kParts <= 2 && kPart % kSideBySide == 0);
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
  using Part = PartOfGroup<Of::kCoding, Of::kBits>;
  Part parts[Of::kParts];
  HWY_INLINE Reader(const RoleView& view, std::int64_t at)
      : Reader(view, at, std::make_integer_sequence<int, Of::kParts>()) {}
  HWY_INLINE VF operator()(int e) const { return parts[e / Of::kPart](e); }

 private:
  template <int... kPart>
  HWY_INLINE Reader(const RoleView& view, std::int64_t at, std::integer_sequence<int, kPart...>)
      : parts{Part(
            view.codes + at / kGroup * (16 * Of::kBits), kPart * Of::kPart, Of::kPart,
            {bf16_to_float(view.steps[(at + kPart * Of::kPart) / Of::kBlock]), table_of<Of::kFormat>()})...} {
  }
};

// The room where the new values of a role wait for the maxima of a chunk: as they are, or encoded with their
// steps.
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
  static_assert(Of::kParts == 1 && has_signed_codes(Of::kCoding));
  using Code = std::make_signed_t<typename Of::Code>;
  Code* codes;
  Encoder<Of::kCoding, Of::kIsSigned, Of::kTakesDraws, Of::kLaw> encoder;
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
      each([&](int i) { draw[i] = hn::BitCast(DI(), draws.template next<decltype(encoder)::kDrawBits>()); });
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
      // A value of an unsigned role needs no sign taken off; if it is negative, it will not be storable.
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

// One role in a chunk of whole groups: what waits there to be stored.
template <class Of, int kChunk>
struct Waiting {
  Room<Of, kChunk> room;
  NoiseLine lines[kChunk / kGroup] = {};
  std::uint32_t most[kChunk / Of::kPart];         // bits of the largest magnitude of each part
  std::uint16_t steps[kChunk / Of::kBlock] = {};  // of each block

  // The part of the work that does not wait for the values.
  HWY_NOINLINE void begin(const RoleView& view, const Noise& noise, std::int64_t at, int elements) {
    if constexpr (Of::kIsPacked) std::copy_n(view.steps + at / Of::kBlock, elements / Of::kBlock, steps);
    if constexpr (Of::kTakesDraws) {
      HWY_NAMESPACE::lines(rounding_noise(view.codec.rounding, noise), at / kGroup, elements / kGroup, lines);
    }
  }
  bool is_storable(int elements) const {
    return lpmm::is_storable(*std::max_element(most, most + elements / Of::kPart));
  }
  // `next` gives the step that follows (kernels/formats/codec.h); tells on_move of the groups whose step is
  // another than it was in `steps`.
  template <class Next, class OnMove>
  void choose_steps(const Next& next, const RoleView& view, std::int64_t at, int elements,
                    const OnMove& on_move) {
    for (int block = 0; block < elements / Of::kBlock; ++block) {
      constexpr int kPartsOfBlock = Of::kBlock / Of::kPart;
      const std::uint32_t* of_block = most + block * kPartsOfBlock;
      const float largest = bits_float(*std::max_element(of_block, of_block + kPartsOfBlock));
      const std::uint16_t step = next(Of::kCodec, largest, view.steps[at / Of::kBlock + block]);
      if (step == steps[block]) continue;
      steps[block] = step;
      for (int e = block * Of::kBlock; e < (block + 1) * Of::kBlock; e += kGroup) on_move(e / kGroup);
    }
  }
  template <class Next = NothingAhead>
  HWY_NOINLINE void store(const RoleView& view, std::int64_t at, int elements, const Next& next = {}) const {
    if constexpr (!Of::kIsPacked) {
      std::memcpy(view.codes + 4 * at, room.values, 4 * static_cast<std::size_t>(elements));
    } else {
      std::uint8_t* codes = view.codes + at / kGroup * (16 * Of::kBits);
      std::copy_n(steps, elements / Of::kBlock, view.steps + at / Of::kBlock);
      if constexpr (!Of::kIsAtOnce) {
        encode_loop<Of::kCoding, Of::kIsSigned, Of::kTakesDraws, Of::kIsWide, Of::kBits, Of::kLaw>(
            Of::kCodec, table_of<Of::kFormat>(), room.values, steps, lines, elements, codes, next);
      } else if constexpr (Of::kBits == 8) {
        std::memcpy(codes, room.codes, static_cast<std::size_t>(elements));
      } else {
        for (int group = 0; group < elements; group += kGroup, codes += 16 * Of::kBits) {
          pack<Of::kIsWide>(room.codes + group, Of::kBits, codes);
        }
      }
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace lpmm::kernels
HWY_AFTER_NAMESPACE();
