// Values to packed codes.
// Compiled once for each set of instructions, in its file (kernels/cpu/sets/).
#pragma once

#include <bit>
#include <type_traits>

#include "kernels/cpu/tile_encoder-inl.h"
#include "kernels/cpu/tile_pack-inl.h"
#include "kernels/cpu/tile_vectors-inl.h"
#include "kernels/formats/codec.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels {
namespace HWY_NAMESPACE {

// Codes in order.
template <class Code>
HWY_INLINE void store_rows(const RowsI& rows, Code* HWY_RESTRICT out) {
#if HWY_TARGET == HWY_AVX2
  const __m256i low = _mm256_packs_epi32(rows[0].raw, rows[1].raw);
  const __m256i high = _mm256_packs_epi32(rows[2].raw, rows[3].raw);
  if constexpr (sizeof(Code) == 1) {
    const __m256i mixed =
        std::is_signed_v<Code> ? _mm256_packs_epi16(low, high) : _mm256_packus_epi16(low, high);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_permutevar8x32_epi32(mixed, order));
  } else {
    auto* to = reinterpret_cast<__m256i*>(out);
    _mm256_storeu_si256(to, _mm256_permute4x64_epi64(low, 0xD8));
    _mm256_storeu_si256(to + 1, _mm256_permute4x64_epi64(high, 0xD8));
  }
#elif HWY_TARGET <= HWY_AVX3
  const __m512i low = _mm512_packs_epi32(rows[0].raw, rows[1].raw);
  const __m512i high = _mm512_packs_epi32(rows[2].raw, rows[3].raw);
  if constexpr (sizeof(Code) == 1) {
    const __m512i mixed =
        std::is_signed_v<Code> ? _mm512_packs_epi16(low, high) : _mm512_packus_epi16(low, high);
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_storeu_si512(out, _mm512_permutexvar_epi32(order, mixed));
  } else {
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    _mm512_storeu_si512(out, _mm512_permutexvar_epi64(order, low));
    _mm512_storeu_si512(out + 32, _mm512_permutexvar_epi64(order, high));
  }
#else
  const hn::Repartition<std::int16_t, DI> halfwords;
  const hn::Half<decltype(halfwords)> few;
  const auto pair = [&](int i) {
    return hn::Combine(halfwords, hn::DemoteTo(few, rows[i + 1]), hn::DemoteTo(few, rows[i]));
  };
  if constexpr (sizeof(Code) == 1) {
    const hn::Half<hn::Repartition<Code, DI>> bytes;
    hn::StoreU(hn::DemoteTo(bytes, pair(0)), bytes, out);
    hn::StoreU(hn::DemoteTo(bytes, pair(2)), bytes, out + 2 * kLanes);
  } else {
    hn::StoreU(hn::BitCast(hn::Repartition<Code, DI>(), pair(0)), hn::Repartition<Code, DI>(), out);
    hn::StoreU(hn::BitCast(hn::Repartition<Code, DI>(), pair(2)), hn::Repartition<Code, DI>(),
               out + 2 * kLanes);
  }
#endif
}

// Numbers that will be read next, as many as are encoded now, of two roles at most. They are asked for beside
// other work: loops that read and loops that compute take turns, and memory would rest meanwhile.
struct Ahead {
  struct Numbers {
    const std::uint8_t* first = nullptr;
    int bytes = 0;  // of a group
  };
  Numbers of_roles[2] = {};

  HWY_INLINE void ask(std::int64_t first) const {
    for (const Numbers& numbers : of_roles) {
      const std::uint8_t* const group = numbers.first + first / kGroup * numbers.bytes;
      for (int line = 0; line < numbers.bytes; line += 64) __builtin_prefetch(group + line, 0, 2);
    }
  }
};
struct NothingAhead {
  HWY_INLINE void ask(std::int64_t) const {}
};

// kBits: of the format, where the caller knows them; 0 elsewhere.
template <Coding kCoding, bool kSigned, bool kStochastic, bool kWide, int kBits = 0,
          Rounding kLaw = Rounding::kStochastic, class Next = NothingAhead>
void encode_loop(const Codec& codec, MapTable table, const float* HWY_RESTRICT values,
                 const std::uint16_t* HWY_RESTRICT steps, const NoiseLine* HWY_RESTRICT lines,
                 std::int64_t count, std::uint8_t* HWY_RESTRICT codes, const Next& next) {
  using Signed = std::make_signed_t<CodeOf<kWide>>;
  using Code = std::conditional_t<has_signed_codes(kCoding), Signed, CodeOf<kWide>>;
  const int bits = kBits != 0 ? kBits : codec.format.bits;
  const Format format = {codec.format.map, static_cast<std::uint8_t>(bits)};
  const int block_shift = std::countr_zero(static_cast<unsigned>(codec.block));
  const std::int64_t block_mask = codec.block - 1;
  Encoder<kCoding, kSigned, kStochastic, kLaw> encoder(format, table);
  for (std::int64_t first = 0; first < count; first += kGroup, codes += 16 * bits) {
    alignas(64) CodeOf<kWide> unpacked[kGroup];
    CodeOf<kWide>* group = unpacked;
    if constexpr (!kWide) {
      if (bits == 8) group = codes;
    }
    next.ask(first);
    Draws draws;
    if constexpr (kStochastic) draws = Draws(*lines++);
    for (std::int64_t half = 0; half < kGroup; half += kGroup / 2) {
      if (((first + half) & block_mask) == 0) {
        encoder.set_scale(format, scale_at<kCoding>(format, table, steps[(first + half) >> block_shift]));
      }
      for (std::int64_t row = half; row < half + kGroup / 2; row += kSideBySide) {
        RowsF x;
        RowsI draw, rows;
        each([&](int i) { x[i] = hn::LoadU(DF(), values + first + row + i * kLanes); });
        if constexpr (kStochastic) {
          each([&](int i) { draw[i] = hn::BitCast(DI(), draws.next<decltype(encoder)::kDrawBits>()); });
        }
        encoder(x, draw, rows);
        store_rows(rows, reinterpret_cast<Code*>(group) + row);
      }
    }
    if constexpr (kWide) {
      pack<true>(unpacked, bits, codes);
    } else if (bits != 8) {
      pack<false>(unpacked, bits, codes);
    }
  }
}

using EncodeLoop = decltype(&encode_loop<Coding::kLinear, true, true, false>);

template <Coding kCoding, bool kSigned = true>
EncodeLoop encode_loop_of(Rounding rounding, int bits) {
  if constexpr (has_width_above(kCoding, 8)) {
    if (bits > 8) {
      return takes_draws(rounding) ? encode_loop<kCoding, kSigned, true, true>
                                   : encode_loop<kCoding, kSigned, false, true>;
    }
  }
  if constexpr (has_zero_free(kCoding) && !(kSigned && kCoding == Coding::kDynamic)) {
    if (rounding == Rounding::kUpdate) {
      return encode_loop<kCoding, kSigned, true, false, 0, Rounding::kUpdate>;
    }
    if (rounding == Rounding::kAverage) {
      return encode_loop<kCoding, kSigned, true, false, 0, Rounding::kAverage>;
    }
  }
  return takes_draws(rounding) ? encode_loop<kCoding, kSigned, true, false>
                               : encode_loop<kCoding, kSigned, false, false>;
}

inline EncodeLoop encode_loop_of(Format f, Rounding rounding) {
  if (!can_round(f.map, rounding)) rounding = Rounding::kStochastic;
  switch (coding_of(f.map)) {
    case Coding::kLinear:
      return encode_loop_of<Coding::kLinear>(rounding, f.bits);
    case Coding::kSoftsign:
      return encode_loop_of<Coding::kSoftsign>(rounding, f.bits);
    case Coding::kLinearNoZero:
      return encode_loop_of<Coding::kLinearNoZero>(rounding, f.bits);
    case Coding::kSquareRoot:
      return encode_loop_of<Coding::kSquareRoot>(rounding, f.bits);
    case Coding::kSquares:
      return encode_loop_of<Coding::kSquares>(rounding, f.bits);
    case Coding::kDynamic:
      return is_signed(f.map) ? encode_loop_of<Coding::kDynamic, true>(rounding, f.bits)
                              : encode_loop_of<Coding::kDynamic, false>(rounding, f.bits);
    case Coding::kZones:
      return encode_loop_of<Coding::kZones>(rounding, f.bits);
    case Coding::kLog:
      return encode_loop_of<Coding::kLog>(rounding, f.bits);
    case Coding::kNumber:
      break;  // no codes
  }
  return nullptr;
}

inline void encode(const Codec& codec, MapTable table, const float* values, const std::uint16_t* steps,
                   const NoiseLine* lines, std::int64_t count, std::uint8_t* codes) {
  encode_loop_of(codec.format, codec.rounding)(codec, table, values, steps, lines, count, codes, {});
}

}  // namespace HWY_NAMESPACE
}  // namespace lpmm::kernels
HWY_AFTER_NAMESPACE();
