// Packed codes to values.
// Compiled once for each instruction set, with the file that includes it.
#if defined(LPMM_KERNELS_CPU_TILE_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LPMM_KERNELS_CPU_TILE_DECODE_INL_H_
#undef LPMM_KERNELS_CPU_TILE_DECODE_INL_H_
#else
#define LPMM_KERNELS_CPU_TILE_DECODE_INL_H_
#endif

#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/codec.h"
#include "kernels/cpu/tile_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels {
namespace HWY_NAMESPACE {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

// The values of a softsign format of few bits, by the low bits of the code: all of them twice over where
// there are 8, and in vectors of 8 the positive half beside the negative one where there are 16.
template <int kBits>
struct SoftsignTable {
  alignas(64) float values[16];
  constexpr SoftsignTable() : values() {
    constexpr int kLimit = (1 << (kBits - 1)) - 1;
    for (int i = 0; i < 16; ++i) {
      int code = i % (1 << kBits);
      code = code > kLimit ? code - (1 << kBits) : code;
      code = code < -kLimit ? -kLimit : code;
      values[i] = static_cast<float>(code) / static_cast<float>(2 * kLimit - (code < 0 ? -code : code));
    }
  }
};
template <int kBits>
inline constexpr SoftsignTable<kBits> kSoftsignTable;
constexpr bool has_softsign_table(int bits) {
  return bits <= 4 && kLanes >= 8;
}
template <int kBits>
HWY_INLINE VF softsign_value(VI code) {
  constexpr int kEntries = kLanes < (1 << kBits) ? static_cast<int>(kLanes) : 1 << kBits;
  const auto index = hn::IndicesFromVec(DF(), hn::And(code, set(kEntries - 1)));
  const float* values = kSoftsignTable<kBits>.values;
  const VF low = hn::TableLookupLanes(hn::Load(DF(), values), index);
  if constexpr (kEntries == 1 << kBits) {
    return low;
  } else {
    const VF high = hn::TableLookupLanes(hn::Load(DF(), values + kEntries), index);
    return hn::IfNegativeThenElse(hn::BitCast(DF(), code), high, low);
  }
}

// What a block's values are computed with.
template <Coding kCoding, int kBits>
struct Decoder {
  static constexpr float kLevels = 1 << kBits;
  static constexpr float kUnit = kCoding == Coding::kLinearNoZero ? 1 / kLevels
                                 : kCoding == Coding::kSquareRoot ? 1 / (kLevels * kLevels)
                                                                  : 1.0F;
  VF step;
  const float* values;

  HWY_INLINE Decoder(MapTable table, float block_step)
      : step(set(block_step * kUnit)), values(table.values) {}

  HWY_INLINE VF operator()(VI code) const {
    if constexpr (kCoding == Coding::kLinear) {
      return hn::Mul(to_float(code), step);
    } else if constexpr (kCoding == Coding::kLinearNoZero) {
      return hn::Mul(to_float(hn::Add(code, set(1))), step);
    } else if constexpr (kCoding == Coding::kSquareRoot) {
      const VF k = to_float(hn::Add(code, set(1)));
      return hn::Mul(hn::Mul(k, k), step);
    } else if constexpr (kCoding == Coding::kSoftsign && has_softsign_table(kBits)) {
      return hn::Mul(softsign_value<kBits>(code), step);
    } else if constexpr (kCoding == Coding::kSoftsign) {
      constexpr int kLimit = (1 << (kBits - 1)) - 1;
      const VI k = hn::Max(code, set(-kLimit));
      return hn::Mul(hn::Div(to_float(k), to_float(hn::Sub(set(2 * kLimit), hn::Abs(k)))), step);
    } else {
      static_assert(kCoding == Coding::kDynamic || kCoding == Coding::kZones);
      return hn::Mul(hn::GatherIndex(DF(), values, code), step);
    }
  }
};

// The codes of elements e..e+N-1 of a group, at the top of their lanes: each plane's bits go to their place,
// what lies above the code drops out, and what lies below it stays for the caller's shift. kLeft bits are not
// there yet.
template <int kBits, int kLeft>
HWY_INLINE VI gather_planes(const std::uint8_t* HWY_RESTRICT planes, int e) {
  const DI di;
  if constexpr (kLeft == 0) {
    return hn::Zero(di);
  } else {
    constexpr int kWidth = plane_width(kLeft);
    const int below = kWidth * (e / (16 * kWidth));
    const hn::Rebind<std::uint8_t, DI> d8;
    VI part = hn::PromoteTo(di, hn::LoadU(d8, planes + e % (16 * kWidth)));
    const bool has_neighbours = (kLeft > kWidth && below + kWidth < 8) || (kLeft < kBits && below > 0);
    if (has_neighbours) part = hn::And(part, set(((1 << kWidth) - 1) << below));
    part = hn::ShiftLeftSame(part, 32 - kLeft - below);
    return hn::Or(part, gather_planes<kBits, kLeft - kWidth>(planes + 16 * kWidth, e));
  }
}

template <int kBits, bool kSigned>
HWY_INLINE VI codes_at(const std::uint8_t* HWY_RESTRICT planes, int e) {
  const DI di;
  if constexpr (kBits == 8) {
    using Code = std::conditional_t<kSigned, std::int8_t, std::uint8_t>;
    return hn::PromoteTo(di, hn::LoadU(hn::Rebind<Code, DI>(), reinterpret_cast<const Code*>(planes) + e));
  } else {
    const VI code = gather_planes<kBits, kBits>(planes, e);
    if constexpr (kSigned) return hn::ShiftRight<32 - kBits>(code);
    return hn::BitCast(di, hn::ShiftRight<32 - kBits>(hn::BitCast(DU(), code)));
  }
}

// Two vectors of neighbouring values.
HWY_INLINE void store_pair(VF low, VF high, float* HWY_RESTRICT to) {
  hn::StoreU(low, DF(), to);
  hn::StoreU(high, DF(), to + kLanes);
}
// What is stored is never NaN, and never too large.
HWY_INLINE void store_pair(VF low, VF high, std::uint16_t* HWY_RESTRICT to) {
  const hn::Repartition<std::uint16_t, DU> d16;
  const auto halves =
      hn::ConcatOdd(d16, hn::BitCast(d16, rounded_to_bf16(high)), hn::BitCast(d16, rounded_to_bf16(low)));
  hn::StoreU(halves, d16, to);
}

template <class T, Coding kCoding, int kBits>
void decode_loop(const Codec& codec, MapTable table, const std::uint8_t* HWY_RESTRICT codes,
                 const std::uint16_t* HWY_RESTRICT steps, std::int64_t count, T* HWY_RESTRICT values) {
  const int block_shift = std::countr_zero(static_cast<unsigned>(codec.block));
  for (std::int64_t first = 0; first < count; first += kGroup, codes += 16 * kBits) {
#pragma GCC unroll 2
    for (int half = 0; half < kGroup; half += kGroup / 2) {
      const float step = bf16_to_float(steps[(first + half) >> block_shift]);
      T* out = values + first + half;
      if (step == 0.0F) {
        std::memset(out, 0, kGroup / 2 * sizeof(T));
        continue;
      }
      const Decoder<kCoding, kBits> decoder(table, step);
#pragma GCC unroll 16
      for (int i = 0; i < kGroup / 2; i += static_cast<int>(2 * kLanes)) {
        const VF low = decoder(codes_at<kBits, has_signed_codes(kCoding)>(codes, half + i));
        const VF high =
            decoder(codes_at<kBits, has_signed_codes(kCoding)>(codes, half + i + static_cast<int>(kLanes)));
        store_pair(low, high, out + i);
      }
    }
  }
}

template <class T>
using DecodeLoop = decltype(&decode_loop<T, Coding::kLinear, 8>);

// The loop of a width, compiled where the table has a format of it.
template <class T, Coding kCoding, int kBits>
constexpr DecodeLoop<T> decode_loop_if() {
  if constexpr (has_width(kCoding, kBits)) return decode_loop<T, kCoding, kBits>;
  return nullptr;
}
template <class T, Coding kCoding, int... kBits>
DecodeLoop<T> decode_loop_of(int bits, std::integer_sequence<int, kBits...>) {
  static constexpr DecodeLoop<T> kLoops[] = {decode_loop_if<T, kCoding, kBits>()...};
  return kLoops[bits];
}

template <class T>
DecodeLoop<T> decode_loop_of(Format f) {
  constexpr auto kWidths = std::make_integer_sequence<int, 17>();
  switch (coding_of(f.map)) {
    case Coding::kLinear:
      return decode_loop_of<T, Coding::kLinear>(f.bits, kWidths);
    case Coding::kSoftsign:
      return decode_loop_of<T, Coding::kSoftsign>(f.bits, kWidths);
    case Coding::kLinearNoZero:
      return decode_loop_of<T, Coding::kLinearNoZero>(f.bits, kWidths);
    case Coding::kSquareRoot:
      return decode_loop_of<T, Coding::kSquareRoot>(f.bits, kWidths);
    case Coding::kDynamic:
      return decode_loop_of<T, Coding::kDynamic>(f.bits, kWidths);
    case Coding::kZones:
      return decode_loop_of<T, Coding::kZones>(f.bits, kWidths);
    case Coding::kNumber:
      break;  // no codes
  }
  return nullptr;
}

inline void decode(const Codec& codec, MapTable table, const std::uint8_t* codes, const std::uint16_t* steps,
                   std::int64_t count, float* values) {
  decode_loop_of<float>(codec.format)(codec, table, codes, steps, count, values);
}
inline void decode_bf16(const Codec& codec, MapTable table, const std::uint8_t* codes,
                        const std::uint16_t* steps, std::int64_t count, std::uint16_t* values) {
  decode_loop_of<std::uint16_t>(codec.format)(codec, table, codes, steps, count, values);
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace lpmm::kernels
HWY_AFTER_NAMESPACE();

#endif
