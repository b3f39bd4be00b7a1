// The tile loops in vectors, compiled once per x86 instruction set (Highway).
//
// A vector holds N neighbouring elements. Noise needs no transposition: lane i of a row of 16 elements takes
// its draw from the call of counter i (kernels/noise.h), so N calls run side by side.
#include <bit>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/tile.h"

// Rules take vectors by value and are inlined, so no call depends on the ABI that this warns of.
#pragma GCC diagnostic ignored "-Wpsabi"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/tile_simd.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<DF>;
using DU = hn::RebindToUnsigned<DF>;
using DU64 = hn::Repartition<std::uint64_t, DU>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
using VU = hn::Vec<DU>;
using VU64 = hn::Vec<DU64>;
constexpr std::int64_t kLanes = HWY_MAX_BYTES / 4;
constexpr std::int64_t kRow = 16;  // elements that share a draw of 16 neighbouring calls

HWY_INLINE VF set(float x) {
  return hn::Set(DF(), x);
}
HWY_INLINE VI set(std::int32_t x) {
  return hn::Set(DI(), x);
}
HWY_INLINE VF to_float(VI x) {
  return hn::ConvertTo(DF(), x);
}

// Nearest even and towards zero, for values that fit; the library's versions mend overflow too.
HWY_INLINE VI round_to_int(VF x) {
#if HWY_TARGET <= HWY_AVX3
  return VI{_mm512_cvtps_epi32(x.raw)};
#elif HWY_TARGET == HWY_AVX2
  return VI{_mm256_cvtps_epi32(x.raw)};
#else
  return VI{_mm_cvtps_epi32(x.raw)};
#endif
}
HWY_INLINE VI truncate_to_int(VF x) {
#if HWY_TARGET <= HWY_AVX3
  return VI{_mm512_cvttps_epi32(x.raw)};
#elif HWY_TARGET == HWY_AVX2
  return VI{_mm256_cvttps_epi32(x.raw)};
#else
  return VI{_mm_cvttps_epi32(x.raw)};
#endif
}

// ---- noise -----------------------------------------------------------------------------------------------

// One round of Philox on N/2 counters, each in the low half of a 64-bit lane. High halves hold leftovers that
// no multiplication reads.
HWY_INLINE void philox_round(VU (&x)[4], VU m0, VU m1, VU k0, VU k1) {
  const DU du;
  const VU64 a = hn::MulEven(m0, x[0]);
  const VU64 b = hn::MulEven(m1, x[2]);
  x[0] = hn::Xor(hn::Xor(x[1], k0), hn::BitCast(du, hn::ShiftRight<32>(b)));
  x[1] = hn::BitCast(du, b);
  x[2] = hn::Xor(hn::Xor(x[3], k1), hn::BitCast(du, hn::ShiftRight<32>(a)));
  x[3] = hn::BitCast(du, a);
}

void draw(const Noise& noise, std::int64_t first_group, std::int64_t groups,
          std::uint32_t* HWY_RESTRICT words) {
  const DU du;
  const VU m0 = hn::Set(du, 0xD2511F53U);
  const VU m1 = hn::Set(du, 0xCD9E8D57U);
  VU k0[10];
  VU k1[10];
  auto key0 = static_cast<std::uint32_t>(noise.seed);
  auto key1 = static_cast<std::uint32_t>(noise.seed >> 32);
  for (int r = 0; r < 10; ++r) {
    k0[r] = hn::Set(du, key0);
    k1[r] = hn::Set(du, key1);
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  const VU c1 = hn::Set(du, noise.tensor);
  const VU c2 = hn::Set(du, noise.step);
  const VU c3 = hn::Set(du, noise.stream);
  auto call = static_cast<std::uint32_t>(first_group) * 16U;
  for (std::int64_t g = 0; g < groups; ++g) {
    for (std::int64_t lane = 0; lane < kRow; lane += kLanes, call += static_cast<std::uint32_t>(kLanes)) {
      const VU calls = hn::Iota(du, call);
      VU even[4] = {calls, c1, c2, c3};
      VU odd[4] = {hn::BitCast(du, hn::ShiftRight<32>(hn::BitCast(DU64(), calls))), c1, c2, c3};
#pragma GCC unroll 10
      for (int r = 0; r < 10; ++r) {
        philox_round(even, m0, m1, k0[r], k1[r]);
        philox_round(odd, m0, m1, k0[r], k1[r]);
      }
      for (int w = 0; w < 4; ++w) {
        const VU high = hn::BitCast(du, hn::ShiftLeft<32>(hn::BitCast(DU64(), odd[w])));
        hn::Store(hn::OddEven(high, even[w]), du, words + 64 * g + 16 * w + lane);
      }
    }
  }
}

// ---- planes ----------------------------------------------------------------------------------------------
// A group's 128 codes as bytes (up to 8 bits) or halfwords, in order of elements.
template <bool kWide>
using CodeOf = std::conditional_t<kWide, std::uint16_t, std::uint8_t>;

constexpr int plane_width(int left) {
  return left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

// Shifts bytes by less than 8 through halfwords; the caller masks what crosses over.
template <class D>
HWY_INLINE hn::Vec<D> shift_bytes_right(D d, hn::Vec<D> v, int by) {
  const hn::Repartition<std::uint16_t, D> d16;
  return hn::BitCast(d, hn::ShiftRightSame(hn::BitCast(d16, v), by));
}
template <class D>
HWY_INLINE hn::Vec<D> shift_bytes_left(D d, hn::Vec<D> v, int by) {
  const hn::Repartition<std::uint16_t, D> d16;
  return hn::BitCast(d, hn::ShiftLeftSame(hn::BitCast(d16, v), by));
}

// Spreads a plane of w bits into one byte an element.
template <class D>
HWY_INLINE void spread_plane(D d, const std::uint8_t* HWY_RESTRICT plane, int w,
                             std::uint8_t* HWY_RESTRICT out) {
  const auto mask = hn::Set(d, static_cast<std::uint8_t>((1U << w) - 1U));
  for (int at = 0; at < 16 * w; at += static_cast<int>(hn::Lanes(d))) {
    const auto bytes = hn::LoadU(d, plane + at);
    for (int k = 0; k < 8 / w; ++k) {
      hn::Store(hn::And(shift_bytes_right(d, bytes, w * k), mask), d, out + 16 * w * k + at);
    }
  }
}
template <class D>
HWY_INLINE void gather_plane(D d, const std::uint8_t* HWY_RESTRICT in, int w,
                             std::uint8_t* HWY_RESTRICT plane) {
  for (int at = 0; at < 16 * w; at += static_cast<int>(hn::Lanes(d))) {
    auto bytes = hn::Load(d, in + at);
    for (int k = 1; k < 8 / w; ++k) {
      bytes = hn::Or(bytes, shift_bytes_left(d, hn::Load(d, in + 16 * w * k + at), w * k));
    }
    hn::StoreU(bytes, d, plane + at);
  }
}

using D16Bytes = hn::CappedTag<std::uint8_t, 16>;
using D32Bytes = hn::CappedTag<std::uint8_t, 32>;
using D64Bytes = hn::CappedTag<std::uint8_t, 64>;

template <bool kWide>
HWY_INLINE void unpack(const std::uint8_t* HWY_RESTRICT planes, int bits, bool has_sign,
                       CodeOf<kWide>* HWY_RESTRICT out) {
  const hn::ScalableTag<CodeOf<kWide>> d;
  const hn::Rebind<std::uint8_t, decltype(d)> d8;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  alignas(64) std::uint8_t spread[kGroup];
  int shift = 0;
  for (int left = bits; left > 0;) {
    const int w = plane_width(left);
    left -= w;
    const std::uint8_t* bytes = planes;
    if (w < 8) {
      bytes = spread;
      if (w == 4) spread_plane(D64Bytes(), planes, 4, spread);
      if (w == 2) spread_plane(D32Bytes(), planes, 2, spread);
      if (w == 1) spread_plane(D16Bytes(), planes, 1, spread);
    }
    for (int at = 0; at < kGroup; at += lanes) {
      auto part = [&] {
        if constexpr (kWide) {
          return hn::PromoteTo(d, hn::LoadU(d8, bytes + at));
        } else {
          return hn::LoadU(d, bytes + at);
        }
      }();
      if (shift > 0) {
        if constexpr (kWide) {
          part = hn::ShiftLeftSame(part, shift);
        } else {
          part = shift_bytes_left(d, part, shift);
        }
        part = hn::Or(part, hn::Load(d, out + at));
      }
      if (left == 0 && has_sign) {
        const auto top = hn::Set(d, static_cast<CodeOf<kWide>>(1U << (bits - 1)));
        part = hn::Sub(hn::Xor(part, top), top);
      }
      hn::Store(part, d, out + at);
    }
    shift += w;
    planes += 16 * w;
  }
}

template <bool kWide>
HWY_INLINE void pack(const CodeOf<kWide>* HWY_RESTRICT in, int bits, std::uint8_t* HWY_RESTRICT planes) {
  const hn::ScalableTag<CodeOf<kWide>> d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  alignas(64) std::uint8_t part[kGroup];
  int shift = 0;
  for (int left = bits; left > 0;) {
    const int w = plane_width(left);
    left -= w;
    const auto mask = hn::Set(d, static_cast<CodeOf<kWide>>((1U << w) - 1U));
    std::uint8_t* bytes = w == 8 ? planes : part;
    for (int at = 0; at < kGroup; at += lanes) {
      const auto codes = hn::Load(d, in + at);
      if constexpr (kWide) {
        const hn::Rebind<std::uint8_t, decltype(d)> d8;
        const hn::RebindToSigned<decltype(d)> di;
        const auto bits_of = hn::And(hn::ShiftRightSame(codes, shift), mask);
        hn::StoreU(hn::DemoteTo(d8, hn::BitCast(di, bits_of)), d8, bytes + at);
      } else {
        hn::StoreU(hn::And(shift_bytes_right(d, codes, shift), mask), d, bytes + at);
      }
    }
    if (w == 4) gather_plane(D64Bytes(), part, 4, planes);
    if (w == 2) gather_plane(D32Bytes(), part, 2, planes);
    if (w == 1) gather_plane(D16Bytes(), part, 1, planes);
    shift += w;
    planes += 16 * w;
  }
}

// ---- decode ----------------------------------------------------------------------------------------------
constexpr bool signed_codes(Map m) {
  return m == Map::kLinear || m == Map::kSoftsign;
}

// What a block's values are computed with.
template <Map kMap>
struct Decoder {
  VF step;
  const float* values;
  std::int32_t limit;

  HWY_INLINE Decoder(Format f, MapTable table, float block_step) : values(table.values), limit(0) {
    const float levels = static_cast<float>(1 << f.bits);
    if constexpr (kMap == Map::kLinearNoZero) block_step /= levels;
    if constexpr (kMap == Map::kSquareRoot) block_step /= levels * levels;
    if constexpr (kMap == Map::kSoftsign) limit = code_limit(f.bits);
    step = set(block_step);
  }

  HWY_INLINE VF operator()(VI code) const {
    if constexpr (kMap == Map::kLinear) {
      return hn::Mul(to_float(code), step);
    } else if constexpr (kMap == Map::kLinearNoZero) {
      return hn::Mul(to_float(hn::Add(code, set(1))), step);
    } else if constexpr (kMap == Map::kSquareRoot) {
      const VF k = to_float(hn::Add(code, set(1)));
      return hn::Mul(hn::Mul(k, k), step);
    } else if constexpr (kMap == Map::kSoftsign) {
      const VI k = hn::Max(code, set(-limit));
      return hn::Mul(hn::Div(to_float(k), to_float(hn::Sub(set(2 * limit), hn::Abs(k)))), step);
    } else {
      return hn::Mul(hn::GatherIndex(DF(), values, code), step);
    }
  }
};

template <Map kMap, bool kWide>
void decode_loop(const Codec& codec, MapTable table, const std::uint8_t* HWY_RESTRICT codes,
                 const std::uint16_t* HWY_RESTRICT steps, std::int64_t count, float* HWY_RESTRICT values) {
  using Signed = std::make_signed_t<CodeOf<kWide>>;
  using Code = std::conditional_t<signed_codes(kMap), Signed, CodeOf<kWide>>;
  const hn::Rebind<Code, DF> dc;
  const int bits = codec.format.bits;
  const int block_shift = std::countr_zero(static_cast<unsigned>(codec.block));
  for (std::int64_t first = 0; first < count; first += kGroup, codes += 16 * bits) {
    alignas(64) CodeOf<kWide> unpacked[kGroup];
    const CodeOf<kWide>* group = unpacked;
    if constexpr (kWide) {
      unpack<true>(codes, bits, signed_codes(kMap), unpacked);
    } else if (bits == 8) {
      group = codes;
    } else {
      unpack<false>(codes, bits, signed_codes(kMap), unpacked);
    }
    for (std::int64_t half = 0; half < kGroup; half += kGroup / 2) {
      const float step = bf16_to_float(steps[(first + half) >> block_shift]);
      const Decoder<kMap> decoder(codec.format, table, step);
      float* out = values + first + half;
      for (std::int64_t i = 0; i < kGroup / 2; i += kLanes) {
        const auto code = hn::LoadU(dc, reinterpret_cast<const Code*>(group) + half + i);
        const VF value = decoder(hn::PromoteTo(DI(), code));
        hn::Store(step == 0.0F ? hn::Zero(DF()) : value, DF(), out + i);
      }
    }
  }
}

void decode(const Codec& codec, MapTable table, const std::uint8_t* codes, const std::uint16_t* steps,
            std::int64_t count, float* values) {
  switch (codec.format.map) {
    case Map::kLinear:
      return codec.format.bits > 8
                 ? decode_loop<Map::kLinear, true>(codec, table, codes, steps, count, values)
                 : decode_loop<Map::kLinear, false>(codec, table, codes, steps, count, values);
    case Map::kLinearNoZero:
      return decode_loop<Map::kLinearNoZero, false>(codec, table, codes, steps, count, values);
    case Map::kSquareRoot:
      return decode_loop<Map::kSquareRoot, false>(codec, table, codes, steps, count, values);
    case Map::kSoftsign:
      return decode_loop<Map::kSoftsign, false>(codec, table, codes, steps, count, values);
    default:
      return decode_loop<Map::kDynamic, false>(codec, table, codes, steps, count, values);
  }
}

// ---- encode ----------------------------------------------------------------------------------------------

// x / step to the last bit, for a step of 8 significant bits. With FMA the product with the rounded
// reciprocal is mended by its residual; checked for every mantissa pair (tests). Below 2^-3 it may be off,
// where no code cares.
struct Quotient {
  VF step, inverse;
  HWY_INLINE explicit Quotient(float s) : step(set(s)), inverse(set(s > 0.0F ? 1.0F / s : 0.0F)) {}
  HWY_INLINE VF operator()(VF x) const {
#if HWY_TARGET <= HWY_AVX2
    const VF q = hn::Mul(x, inverse);
    return hn::MulAdd(hn::NegMulAdd(q, step, x), inverse, q);
#else
    return hn::IfThenElseZero(hn::Ne(step, hn::Zero(DF())), hn::Div(x, step));
#endif
  }
};

template <class D, class V = hn::Vec<D>>
HWY_INLINE V lookup8(D d, const hn::TFromD<D>* table, VI index) {
  if constexpr (kLanes >= 8) {
    return hn::TableLookupLanes(hn::Load(d, table), hn::IndicesFromVec(d, index));
  } else {
    return hn::GatherIndex(d, table, index);
  }
}

// (x >= 0 ? v : -v) for the sign of a float.
HWY_INLINE VI with_sign_of(VF x, VI v) {
  const VI sign = hn::ShiftRight<31>(hn::BitCast(DI(), x));
  return hn::Sub(hn::Xor(v, sign), sign);
}

// codec.h's encode_value for a vector. `draw` holds one draw a lane.
template <Map kMap, bool kStochastic>
struct Encoder {
  static constexpr bool kScaled =
      kMap == Map::kLinear || kMap == Map::kLinearNoZero || kMap == Map::kSquareRoot;
  static constexpr float kParts = kStochastic && kMap != Map::kSquareRoot ? 65536.0F : 1.0F;

  Quotient quotient;
  std::int32_t limit;
  // The dynamic map's zones by column, padded to a full vector.
  alignas(64) float first[16], scale[16], last[16], stretch[16];
  alignas(64) std::int32_t number[16];

  static HWY_INLINE float scaled(Format f, float step) {
    const float levels = static_cast<float>(1 << f.bits);
    if (kMap == Map::kLinearNoZero) step /= levels;
    if (kMap == Map::kSquareRoot) step /= levels * levels;
    return kScaled ? step / kParts : step;
  }

  HWY_INLINE Encoder(Format f, MapTable table) : quotient(0.0F), limit(code_limit(f.bits)) {
    if constexpr (is_table()) {
      for (int z = 0; z < kDynamicZones; ++z) {
        first[z] = first[z + 8] = table.zones[z].first;
        scale[z] = scale[z + 8] = table.zones[z].scale;
        last[z] = last[z + 8] = table.zones[z].last;
        stretch[z] = stretch[z + 8] = table.zones[z].stretch;
        number[z] = number[z + 8] = table.zones[z].number;
      }
    }
  }
  static constexpr bool is_table() {
    return kMap == Map::kDynamic || kMap == Map::kDynamicUnsigned || kMap == Map::kDynamicNoZero;
  }
  HWY_INLINE void set_step(Format f, float step) { quotient = Quotient(scaled(f, step)); }

  HWY_INLINE VI round_position(VF position, VI draw) const {
    const VI parts = round_to_int(hn::Mul(position, set(static_cast<float>(1 << kCurvedBits))));
    return hn::ShiftRight<16>(hn::Add(hn::ShiftLeft<16 - kCurvedBits>(parts), draw));
  }

  HWY_INLINE VI operator()(VF x, VI draw) const {
    if constexpr (!kStochastic) draw = set(static_cast<std::int32_t>(kNearestDraw));
    if constexpr (kMap == Map::kLinear || kMap == Map::kLinearNoZero) {
      VI k = round_to_int(quotient(x));
      if constexpr (kStochastic) k = hn::ShiftRight<16>(hn::Add(k, draw));
      return kMap == Map::kLinear ? k : hn::Sub(hn::Max(k, set(1)), set(1));
    } else if constexpr (kMap == Map::kSquareRoot) {
      const VF y = hn::Max(quotient(x), hn::Zero(DF()));
      const VF one = set(1.0F);
      // The estimate is less than one off; then k is made the largest with k*k <= y.
      VF k = to_float(truncate_to_int(hn::Mul(hn::ApproximateReciprocalSqrt(hn::Max(y, set(0.25F))), y)));
      k = hn::Sub(k, hn::IfThenElseZero(hn::Gt(hn::Mul(k, k), y), one));
      const VF next = hn::Add(k, one);
      k = hn::IfThenElse(hn::Le(hn::Mul(next, next), y), next, k);
      const VF gap = hn::Add(hn::Add(k, k), one);
      VF u = set(0.5F);
      if constexpr (kStochastic) {
        // 1 + u has the draw and the half in its mantissa.
        const VI mantissa = hn::Or(hn::ShiftLeft<7>(draw), set(0x3F800040));
        u = hn::Sub(hn::BitCast(DF(), mantissa), one);
      }
      const VF rest = hn::Sub(hn::Add(hn::Mul(k, k), gap), y);
      k = hn::Add(k, hn::IfThenElseZero(hn::Ge(hn::Mul(u, gap), rest), one));
      return truncate_to_int(hn::Sub(hn::Max(k, one), one));
    } else if constexpr (kMap == Map::kSoftsign) {
      const VF y = hn::Mul(hn::Abs(x), quotient.inverse);
      const float twice = static_cast<float>(2 * limit);
      const VI whole = truncate_to_int(hn::Div(hn::Mul(set(twice), y), hn::Add(set(1.0F), y)));
      const VF k = to_float(whole);
      const VF below = hn::Sub(set(twice), k);
      const VF fraction =
          hn::Mul(hn::Sub(hn::Mul(below, y), k), hn::Mul(hn::Sub(below, set(1.0F)), set(1.0F / twice)));
      return with_sign_of(x, hn::Add(whole, round_position(fraction, draw)));
    } else {
      constexpr bool kSigned = kMap == Map::kDynamic;
      const VF magnitude = hn::Mul(kSigned ? hn::Abs(x) : hn::Max(x, hn::Zero(DF())), quotient.inverse);
      VI z = hn::Zero(DI());
      for (int i = 1; i < kDynamicZones; ++i) {
        z = hn::Sub(z, hn::VecFromMask(DI(), hn::RebindMask(DI(), hn::Ge(magnitude, set(first[i])))));
      }
      VF position = hn::Mul(hn::Sub(magnitude, lookup8(DF(), first, z)), lookup8(DF(), scale, z));
      position = hn::Max(position, hn::Zero(DF()));
      const VF end = lookup8(DF(), last, z);
      const VF beyond = hn::Add(end, hn::Mul(hn::Sub(position, end), lookup8(DF(), stretch, z)));
      position = hn::IfThenElse(hn::Gt(position, end), beyond, position);
      const VI at = hn::Add(lookup8(DI(), number, z), round_position(position, draw));
      if constexpr (!kSigned) return at;
      const VI sign = hn::ShiftRight<31>(hn::BitCast(DI(), x));
      const VI held = hn::Min(at, hn::Sub(set(limit + 1), hn::And(sign, set(1))));  // 1 has no negative
      return hn::Add(set(limit), hn::Sub(hn::Xor(held, sign), sign));
    }
  }
};

// Two rows of 16 codes.
template <class Code>
HWY_INLINE void store_rows(const VI (&rows)[2][kRow / kLanes], Code* HWY_RESTRICT out) {
  const hn::Rebind<Code, DF> dc;
  for (int r = 0; r < 2; ++r) {
    for (std::int64_t c = 0; c < kRow / kLanes; ++c) {
      hn::StoreU(hn::DemoteTo(dc, rows[r][c]), dc, out + r * kRow + c * kLanes);
    }
  }
}

template <Map kMap, bool kStochastic, bool kWide>
void encode_loop(const Codec& codec, MapTable table, const float* HWY_RESTRICT values,
                 const std::uint16_t* HWY_RESTRICT steps, const std::uint32_t* HWY_RESTRICT words,
                 std::int64_t count, std::uint8_t* HWY_RESTRICT codes) {
  using Signed = std::make_signed_t<CodeOf<kWide>>;
  using Code = std::conditional_t<signed_codes(kMap), Signed, CodeOf<kWide>>;
  const int bits = codec.format.bits;
  const int block_shift = std::countr_zero(static_cast<unsigned>(codec.block));
  const std::int64_t block_mask = codec.block - 1;
  Encoder<kMap, kStochastic> encoder(codec.format, table);
  for (std::int64_t first = 0; first < count; first += kGroup, codes += 16 * bits) {
    alignas(64) CodeOf<kWide> unpacked[kGroup];
    CodeOf<kWide>* group = unpacked;
    if constexpr (!kWide) {
      if (bits == 8) group = codes;
    }
    for (std::int64_t half = 0; half < kGroup; half += kGroup / 2) {
      if (((first + half) & block_mask) == 0) {
        encoder.set_step(codec.format, bf16_to_float(steps[(first + half) >> block_shift]));
      }
      for (std::int64_t row = half; row < half + kGroup / 2; row += 2 * kRow) {
        VI rows[2][kRow / kLanes];
        for (std::int64_t c = 0; c < kRow / kLanes; ++c) {
          const float* x = values + first + row + c * kLanes;
          VI low = hn::Zero(DI());
          VI high = low;
          if constexpr (kStochastic) {
            const VU draws = hn::Load(DU(), words + first / 2 + row / 2 + c * kLanes);
            low = hn::BitCast(DI(), hn::And(draws, hn::Set(DU(), 0xFFFFU)));
            high = hn::BitCast(DI(), hn::ShiftRight<16>(draws));
          }
          rows[0][c] = encoder(hn::Load(DF(), x), low);
          rows[1][c] = encoder(hn::Load(DF(), x + kRow), high);
        }
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

template <Map kMap, bool kWide = false>
void encode_map(const Codec& codec, MapTable table, const float* values, const std::uint16_t* steps,
                const std::uint32_t* words, std::int64_t count, std::uint8_t* codes) {
  if (codec.rounding == Rounding::kStochastic) {
    encode_loop<kMap, true, kWide>(codec, table, values, steps, words, count, codes);
  } else {
    encode_loop<kMap, false, kWide>(codec, table, values, steps, words, count, codes);
  }
}

void encode(const Codec& codec, MapTable table, const float* values, const std::uint16_t* steps,
            const std::uint32_t* words, std::int64_t count, std::uint8_t* codes) {
  switch (codec.format.map) {
    case Map::kLinear:
      return codec.format.bits > 8
                 ? encode_map<Map::kLinear, true>(codec, table, values, steps, words, count, codes)
                 : encode_map<Map::kLinear>(codec, table, values, steps, words, count, codes);
    case Map::kLinearNoZero:
      return encode_map<Map::kLinearNoZero>(codec, table, values, steps, words, count, codes);
    case Map::kSquareRoot:
      return encode_map<Map::kSquareRoot>(codec, table, values, steps, words, count, codes);
    case Map::kSoftsign:
      return encode_map<Map::kSoftsign>(codec, table, values, steps, words, count, codes);
    case Map::kDynamic:
      return encode_map<Map::kDynamic>(codec, table, values, steps, words, count, codes);
    default:
      return encode_map<Map::kDynamicUnsigned>(codec, table, values, steps, words, count, codes);
  }
}

// ---- plain loops -----------------------------------------------------------------------------------------
void largest(const float* HWY_RESTRICT values, std::int64_t count, std::int64_t block,
             std::uint32_t* HWY_RESTRICT bits) {
  const DI di;
  const VI magnitude = set(0x7FFFFFFF);
  for (std::int64_t first = 0; first < count; first += block) {
    const std::int64_t end = first + block < count ? first + block : count;
    VI most[4] = {hn::Zero(di), hn::Zero(di), hn::Zero(di), hn::Zero(di)};
    for (std::int64_t i = first; i < end; i += 4 * kLanes) {
      for (int k = 0; k < 4; ++k) {
        const VI x = hn::BitCast(di, hn::Load(DF(), values + i + k * kLanes));
        most[k] = hn::Max(most[k], hn::And(x, magnitude));
      }
    }
    const VI all = hn::Max(hn::Max(most[0], most[1]), hn::Max(most[2], most[3]));
    bits[first / block] = static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(di, all)));
  }
}

void add_scaled(float* HWY_RESTRICT sum, const float* HWY_RESTRICT addend, float scale, std::int64_t count) {
  const DF df;
  for (std::int64_t i = 0; i < count; i += kLanes) {
    hn::Store(hn::Add(hn::Load(df, sum + i), hn::Mul(set(scale), hn::Load(df, addend + i))), df, sum + i);
  }
}

double square_sum(const float* HWY_RESTRICT values, std::int64_t count) {
  const hn::Repartition<double, DF> dd;
  const hn::Rebind<float, decltype(dd)> df;
  constexpr std::int64_t kHalf = kLanes / 2;
  hn::Vec<decltype(dd)> sums[kRow / kHalf];
  for (auto& sum : sums) sum = hn::Zero(dd);
  for (std::int64_t i = 0; i < count; i += kRow) {
    for (std::int64_t k = 0; k < kRow / kHalf; ++k) {
      const auto x = hn::PromoteTo(dd, hn::Load(df, values + i + k * kHalf));
      sums[k] = hn::Add(sums[k], hn::Mul(x, x));
    }
  }
  alignas(64) double lanes[kRow];
  for (std::int64_t k = 0; k < kRow / kHalf; ++k) hn::Store(sums[k], dd, lanes + k * kHalf);
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

void to_bf16(const float* HWY_RESTRICT values, std::int64_t count, std::uint16_t* HWY_RESTRICT out) {
  const DU du;
  const hn::Rebind<std::uint16_t, DF> d16;
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const VF x = hn::LoadU(DF(), values + i);
    const VU u = hn::BitCast(du, x);
    const VU odd = hn::And(hn::ShiftRight<16>(u), hn::Set(du, 1));
    const VU nearest = hn::ShiftRight<16>(hn::Add(hn::Add(u, hn::Set(du, 0x7FFF)), odd));
    const VU quiet = hn::Or(hn::ShiftRight<16>(u), hn::Set(du, 0x40));
    const VU b = hn::IfThenElse(hn::RebindMask(du, hn::Ne(x, x)), quiet, nearest);
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(DI(), b)), d16, out + i);
  }
  for (; i < count; ++i) out[i] = float_to_bf16(values[i]);
}

// ---- rules -----------------------------------------------------------------------------------------------
// What a rule needs of a number. Not forced inline: rules are compiled for the baseline until they are
// inlined.
struct Number {
  VF v;
  inline explicit Number(float x) : v(set(x)) {}
  inline explicit Number(const VF& x) : v(x) {}
};
inline Number operator+(const Number& a, const Number& b) {
  return Number(hn::Add(a.v, b.v));
}
inline Number operator-(const Number& a, const Number& b) {
  return Number(hn::Sub(a.v, b.v));
}
inline Number operator*(const Number& a, const Number& b) {
  return Number(hn::Mul(a.v, b.v));
}
inline Number operator/(const Number& a, const Number& b) {
  return Number(hn::Div(a.v, b.v));
}
inline Number square_root(const Number& a) {
  return Number(hn::Sqrt(a.v));
}

void apply_sgd(const Sgd& rule, float* HWY_RESTRICT p, const float* HWY_RESTRICT g, float* HWY_RESTRICT m,
               std::int64_t count) {
  const DF df;
  Number none(0.0F);
  for (std::int64_t i = 0; i < count; i += kLanes) {
    Number pi(hn::Load(df, p + i));
    Number mi(hn::Load(df, m + i));
    rule(pi, Number(hn::Load(df, g + i)), mi, none);
    hn::Store(pi.v, df, p + i);
    hn::Store(mi.v, df, m + i);
  }
}

void apply_adam(const Adam& rule, float* HWY_RESTRICT p, const float* HWY_RESTRICT g, float* HWY_RESTRICT m,
                float* HWY_RESTRICT v, std::int64_t count) {
  const DF df;
  for (std::int64_t i = 0; i < count; i += kLanes) {
    Number pi(hn::Load(df, p + i));
    Number mi(hn::Load(df, m + i));
    Number vi(hn::Load(df, v + i));
    rule(pi, Number(hn::Load(df, g + i)), mi, vi);
    hn::Store(pi.v, df, p + i);
    hn::Store(mi.v, df, m + i);
    hn::Store(vi.v, df, v + i);
  }
}

const TileKernels* tile_kernels() {
  static constexpr const char* kName = HWY_TARGET == HWY_AVX3   ? "avx512"
                                       : HWY_TARGET == HWY_AVX2 ? "avx2"
                                       : HWY_TARGET == HWY_SSE4 ? "sse4"
                                                                : "ssse3";
  static constexpr TileKernels kKernels = {kName,      draw,       decode,  encode,    largest,
                                           add_scaled, square_sum, to_bf16, apply_sgd, apply_adam};
  return &kKernels;
}

#else
// The portable target is kernels/cpu/tile_scalar.cpp.
const TileKernels* tile_kernels() {
  return nullptr;
}
#endif
}  // namespace HWY_NAMESPACE
}  // namespace lpmm::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lpmm::kernels {

std::vector<const TileKernels*> simd_tile_kernels() {
  std::vector<const TileKernels*> sets;
  const std::int64_t supported = hwy::SupportedTargets();
#if HWY_TARGETS & HWY_AVX3
  if ((supported & HWY_AVX3) != 0) sets.push_back(N_AVX3::tile_kernels());
#endif
#if HWY_TARGETS & HWY_AVX2
  if ((supported & HWY_AVX2) != 0) sets.push_back(N_AVX2::tile_kernels());
#endif
#if HWY_TARGETS & HWY_SSE4
  if ((supported & HWY_SSE4) != 0) sets.push_back(N_SSE4::tile_kernels());
#endif
#if HWY_TARGETS & HWY_SSSE3
  if ((supported & HWY_SSSE3) != 0) sets.push_back(N_SSSE3::tile_kernels());
#endif
  return sets;
}

}  // namespace lpmm::kernels
#endif
