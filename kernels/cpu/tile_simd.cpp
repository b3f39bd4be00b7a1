// The tile loops in vectors, compiled once per x86 instruction set (Highway).
//
// A vector holds N neighbouring elements. Noise needs no transposition: lane i of a row of 16 elements takes
// its draw from the call of counter i (kernels/noise.h), so N calls run side by side.
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/cpu/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/tile_simd.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels {
namespace HWY_NAMESPACE {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

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
  // Four states fill all registers. This word is wanted last, so it is the one that waits in memory.
  asm("" : "+m"(x[3]));
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
  const hn::Repartition<std::uint16_t, DU> d16;
  const auto shift = hn::Set(d16, static_cast<std::uint16_t>(noise.shift));
  // All 16 calls of a group side by side: the multiplications' latency hides behind the other calls.
  constexpr std::int64_t kVectors = 2 * kRow / kLanes;
  auto call = (noise.first_group + static_cast<std::uint32_t>(first_group)) * 16U;
  for (std::int64_t g = 0; g < groups; ++g, call += 16) {
    VU x[kVectors][4];
    for (std::int64_t i = 0; i < kVectors; i += 2) {
      const VU calls = hn::Iota(du, call + static_cast<std::uint32_t>(i / 2 * kLanes));
      x[i][0] = calls;
      x[i + 1][0] = hn::BitCast(du, hn::ShiftRight<32>(hn::BitCast(DU64(), calls)));
      for (std::int64_t k = i; k < i + 2; ++k) {
        x[k][1] = c1;
        x[k][2] = c2;
        x[k][3] = c3;
      }
    }
#pragma GCC unroll 10
    for (int r = 0; r < 10; ++r) {
      for (auto& state : x) philox_round(state, m0, m1, k0[r], k1[r]);
    }
    for (std::int64_t i = 0; i < kVectors; i += 2) {
      for (int w = 0; w < 4; ++w) {
        const VU odd = hn::BitCast(du, hn::ShiftLeft<32>(hn::BitCast(DU64(), x[i + 1][w])));
        const VU both = hn::OddEven(odd, x[i][w]);
        hn::Store(hn::BitCast(du, hn::Add(hn::BitCast(d16, both), shift)), du,
                  words + 64 * g + 16 * w + i / 2 * kLanes);
      }
    }
  }
}

// ---- planes ----------------------------------------------------------------------------------------------
// A group's 128 codes as bytes (up to 8 bits) or halfwords, in order of elements.
template <bool kWide>
using CodeOf = std::conditional_t<kWide, std::uint16_t, std::uint8_t>;

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
// What a block's values are computed with.
template <Map kMap, int kBits>
struct Decoder {
  static constexpr float kLevels = 1 << kBits;
  static constexpr float kUnit = kMap == Map::kLinearNoZero ? 1 / kLevels
                                 : kMap == Map::kSquareRoot ? 1 / (kLevels * kLevels)
                                                            : 1.0F;
  VF step;
  const float* values;

  HWY_INLINE Decoder(MapTable table, float block_step)
      : step(set(block_step * kUnit)), values(table.values) {}

  HWY_INLINE VF operator()(VI code) const {
    if constexpr (kMap == Map::kLinear) {
      return hn::Mul(to_float(code), step);
    } else if constexpr (kMap == Map::kLinearNoZero) {
      return hn::Mul(to_float(hn::Add(code, set(1))), step);
    } else if constexpr (kMap == Map::kSquareRoot) {
      const VF k = to_float(hn::Add(code, set(1)));
      return hn::Mul(hn::Mul(k, k), step);
    } else if constexpr (kMap == Map::kSoftsign) {
      constexpr int kLimit = (1 << (kBits - 1)) - 1;
      const VI k = hn::Max(code, set(-kLimit));
      return hn::Mul(hn::Div(to_float(k), to_float(hn::Sub(set(2 * kLimit), hn::Abs(k)))), step);
    } else {
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

template <Map kMap, int kBits>
void decode_loop(const Codec& codec, MapTable table, const std::uint8_t* HWY_RESTRICT codes,
                 const std::uint16_t* HWY_RESTRICT steps, std::int64_t count, float* HWY_RESTRICT values) {
  const int block_shift = std::countr_zero(static_cast<unsigned>(codec.block));
  for (std::int64_t first = 0; first < count; first += kGroup, codes += 16 * kBits) {
#pragma GCC unroll 2
    for (int half = 0; half < kGroup; half += kGroup / 2) {
      const float step = bf16_to_float(steps[(first + half) >> block_shift]);
      float* out = values + first + half;
      if (step == 0.0F) {
        std::memset(out, 0, kGroup / 2 * sizeof(float));
        continue;
      }
      const Decoder<kMap, kBits> decoder(table, step);
#pragma GCC unroll 16
      for (int i = 0; i < kGroup / 2; i += static_cast<int>(kLanes)) {
        hn::Store(decoder(codes_at<kBits, has_signed_codes(kMap)>(codes, half + i)), DF(), out + i);
      }
    }
  }
}

using DecodeLoop = decltype(&decode_loop<Map::kLinear, 8>);

template <int... kBits>
DecodeLoop linear_decode_loop(int bits, std::integer_sequence<int, kBits...>) {
  static constexpr DecodeLoop kLoops[] = {decode_loop<Map::kLinear, kBits + 2>...};
  return kLoops[bits - 2];
}

template <Map kMap>
DecodeLoop table_decode_loop(int bits) {
  if constexpr (!is_dynamic(kMap)) {
    if (bits == 3) return decode_loop<kMap, 3>;
  }
  if constexpr (kMap == Map::kLinearNoZero || kMap == Map::kSquareRoot) {
    if (bits == 2) return decode_loop<kMap, 2>;
  }
  return bits == 8 ? decode_loop<kMap, 8> : decode_loop<kMap, 4>;
}

DecodeLoop decode_loop_of(Format f) {
  switch (f.map) {
    case Map::kLinear:
      return linear_decode_loop(f.bits, std::make_integer_sequence<int, 15>());
    case Map::kLinearNoZero:
      return table_decode_loop<Map::kLinearNoZero>(f.bits);
    case Map::kSquareRoot:
      return table_decode_loop<Map::kSquareRoot>(f.bits);
    case Map::kSoftsign:
      return table_decode_loop<Map::kSoftsign>(f.bits);
    default:
      return table_decode_loop<Map::kDynamic>(f.bits);
  }
}

void decode(const Codec& codec, MapTable table, const std::uint8_t* codes, const std::uint16_t* steps,
            std::int64_t count, float* values) {
  decode_loop_of(codec.format)(codec, table, codes, steps, count, values);
}

// ---- encode ----------------------------------------------------------------------------------------------

// Two rows of 16 elements. Their vectors go through each stage side by side: alone, one would wait for its
// own results most of the time.
constexpr int kSide = static_cast<int>(2 * kRow / kLanes);
using RowsF = VF[kSide];
using RowsI = VI[kSide];

template <class Stage>
HWY_INLINE void each(const Stage& stage) {
#pragma GCC unroll 8
  for (int i = 0; i < kSide; ++i) stage(i);
}

// x / step to the last bit, for a step of 8 significant bits. With FMA the product with the rounded
// reciprocal is mended by its residual, which is exact for every pair of mantissas (all 2^30 were compared;
// tests repeat a part). Below 2^-3 the residual may be subnormal and the quotient off, where no code cares.
struct Quotient {
  VF step, inverse;
  HWY_INLINE explicit Quotient(float s) : step(set(s)), inverse(set(s > 0.0F ? 1.0F / s : 0.0F)) {}
  HWY_INLINE void operator()(const RowsF& x, RowsF& y) const {
#if HWY_TARGET <= HWY_AVX2
    RowsF rest;
    each([&](int i) { y[i] = hn::Mul(x[i], inverse); });
    each([&](int i) { rest[i] = hn::NegMulAdd(y[i], step, x[i]); });
    each([&](int i) { y[i] = hn::MulAdd(rest[i], inverse, y[i]); });
#else
    each([&](int i) { y[i] = hn::IfThenElseZero(hn::Ne(step, hn::Zero(DF())), hn::Div(x[i], step)); });
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

// codec.h's encode_value for two rows.
template <Map kMap, bool kStochastic>
struct Encoder {
  static constexpr bool kIsLinear = kMap == Map::kLinear || kMap == Map::kLinearNoZero;
  static constexpr float kParts = kStochastic && kIsLinear ? 65536.0F : 1.0F;

  Quotient quotient;
  VF draw_step = set(0.0F), half_step = set(0.0F);  // square root: u = draw * draw_step + half_step
  std::int32_t limit;
  // The dynamic map's zones by column, twice over for 16 lanes.
  alignas(64) float first[16], scale[16], last[16], stretch[16];
  alignas(64) std::int32_t number[16];

  HWY_INLINE Encoder(Format f, MapTable table) : quotient(0.0F), limit(code_limit(f.bits)) {
    if constexpr (is_dynamic(kMap)) {
      for (int i = 0; i < 16; ++i) {
        const DynamicZone& zone = table.zones[i % kDynamicZones];
        first[i] = zone.first;
        scale[i] = zone.scale;
        last[i] = zone.last;
        stretch[i] = zone.stretch;
        number[i] = zone.number;
      }
    }
  }

  HWY_INLINE void set_step(Format f, float step) {
    const float levels = static_cast<float>(1 << f.bits);
    if (kMap == Map::kLinearNoZero) step /= levels;
    if (kMap == Map::kSquareRoot) step /= levels * levels;
    quotient = Quotient(step / kParts);
    if constexpr (kMap == Map::kSquareRoot) {
      draw_step = set(step * 0x1p-16F);
      half_step = set(step * (kStochastic ? 0x1p-17F : 0.5F));
    }
  }

  // codes[i] for x[i] and, under stochastic rounding, draw[i].
  HWY_INLINE void operator()(const RowsF& x, const RowsI& draw, RowsI& codes) const {
    if constexpr (kMap == Map::kLinear || kMap == Map::kLinearNoZero) {
      linear(x, draw, codes);
    } else if constexpr (kMap == Map::kSquareRoot) {
      square_root(x, draw, codes);
    } else if constexpr (kMap == Map::kSoftsign) {
      softsign(x, draw, codes);
    } else {
      dynamic(x, draw, codes);
    }
  }

 private:
  HWY_INLINE void linear(const RowsF& x, const RowsI& draw, RowsI& k) const {
    RowsF y;
    quotient(x, y);
    each([&](int i) { k[i] = round_to_int(y[i]); });
    if constexpr (kStochastic) each([&](int i) { k[i] = hn::ShiftRight<16>(hn::Add(k[i], draw[i])); });
    // Packing saturates -1 to the lowest code.
    if constexpr (kMap == Map::kLinearNoZero) each([&](int i) { k[i] = hn::Sub(k[i], set(1)); });
  }

  HWY_INLINE void square_root(const RowsF& x, const RowsI& draw, RowsI& code) const {
    const VF one = set(1.0F);
    RowsF k, upper, rest, u;
    each([&](int i) { k[i] = hn::Sqrt(hn::Max(hn::Mul(x[i], quotient.inverse), hn::Zero(DF()))); });
    each([&](int i) { code[i] = truncate_to_int(k[i]); });
    each([&](int i) { k[i] = to_float(code[i]); });
    each([&](int i) { upper[i] = hn::Add(k[i], one); });
    // The products with the step are exact: fused or not, the bits are the same.
    each([&](int i) { rest[i] = hn::MulSub(hn::Mul(upper[i], upper[i]), quotient.step, x[i]); });
    each([&](int i) {
      u[i] = half_step;
      if constexpr (kStochastic) u[i] = hn::MulAdd(to_float(draw[i]), draw_step, half_step);
    });
    each([&](int i) {
      // All ones, which is -1, where the value stays below. Packing saturates -1 to the lowest code.
      const auto stays = hn::Lt(hn::Mul(u[i], hn::Add(k[i], upper[i])), rest[i]);
      code[i] = hn::Add(code[i], hn::BitCast(DI(), hn::VecFromMask(DF(), stays)));
    });
  }

  HWY_INLINE void softsign(const RowsF& x, const RowsI& draw, RowsI& code) const {
    const VF twice = set(static_cast<float>(2 * limit));
    const VF half_inverse = set(1.0F / static_cast<float>(2 * limit));
    const VF one = set(1.0F);
    RowsF y, k, below;
    each([&](int i) { y[i] = hn::Mul(hn::Abs(x[i]), quotient.inverse); });
    each([&](int i) { code[i] = truncate_to_int(hn::Div(hn::Mul(twice, y[i]), hn::Add(one, y[i]))); });
    each([&](int i) { k[i] = to_float(code[i]); });
    each([&](int i) { below[i] = hn::Sub(twice, k[i]); });
    each([&](int i) {
      k[i] = hn::Mul(hn::Sub(hn::Mul(below[i], y[i]), k[i]), hn::Mul(hn::Sub(below[i], one), half_inverse));
    });
    each([&](int i) { code[i] = hn::Add(code[i], round_position(k[i], draw[i])); });
    each([&](int i) { code[i] = with_sign_of(x[i], code[i]); });
  }

  HWY_INLINE void dynamic(const RowsF& x, const RowsI& draw, RowsI& code) const {
    constexpr bool kSigned = kMap == Map::kDynamic;
    RowsF y, end;
    RowsI z;
    each([&](int i) {
      y[i] = hn::Mul(kSigned ? hn::Abs(x[i]) : hn::Max(x[i], hn::Zero(DF())), quotient.inverse);
      z[i] = hn::Zero(DI());
    });
    for (int j = 1; j < kDynamicZones; ++j) {
      const VF start = set(first[j]);
      each([&](int i) {
        z[i] = hn::Sub(z[i], hn::BitCast(DI(), hn::VecFromMask(DF(), hn::Ge(y[i], start))));
      });
    }
    each([&](int i) {
      y[i] = hn::Mul(hn::Sub(y[i], lookup8(DF(), first, z[i])), lookup8(DF(), scale, z[i]));
    });
    each([&](int i) { end[i] = lookup8(DF(), last, z[i]); });
    each([&](int i) {
      y[i] = hn::Max(y[i], hn::Zero(DF()));
      const VF beyond = hn::Add(end[i], hn::Mul(hn::Sub(y[i], end[i]), lookup8(DF(), stretch, z[i])));
      y[i] = hn::IfThenElse(hn::Gt(y[i], end[i]), beyond, y[i]);
    });
    each([&](int i) { code[i] = hn::Add(lookup8(DI(), number, z[i]), round_position(y[i], draw[i])); });
    if constexpr (kSigned) {
      each([&](int i) {
        const VI sign = hn::ShiftRight<31>(hn::BitCast(DI(), x[i]));
        const VI most = hn::Add(set(limit + 1), sign);  // 1 has no negative
        const VI held = hn::Min(code[i], most);
        code[i] = hn::Add(set(limit), hn::Sub(hn::Xor(held, sign), sign));
      });
    }
  }

  HWY_INLINE VI round_position(VF position, VI draw) const {
    if constexpr (!kStochastic) draw = set(static_cast<std::int32_t>(kNearestDraw));
    const VI parts = round_to_int(hn::Mul(position, set(static_cast<float>(1 << kCurvedBits))));
    return hn::ShiftRight<16>(hn::Add(hn::ShiftLeft<16 - kCurvedBits>(parts), draw));
  }
};

// Two rows of codes, in order.
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
#else
  const hn::Rebind<Code, DF> dc;
  for (int i = 0; i < kSide; ++i) hn::StoreU(hn::DemoteTo(dc, rows[i]), dc, out + i * kLanes);
#endif
}

template <Map kMap, bool kStochastic, bool kWide>
void encode_loop(const Codec& codec, MapTable table, const float* HWY_RESTRICT values,
                 const std::uint16_t* HWY_RESTRICT steps, const std::uint32_t* HWY_RESTRICT words,
                 std::int64_t count, std::uint8_t* HWY_RESTRICT codes) {
  using Signed = std::make_signed_t<CodeOf<kWide>>;
  using Code = std::conditional_t<has_signed_codes(kMap), Signed, CodeOf<kWide>>;
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
        constexpr int kColumns = kSide / 2;
        RowsF x;
        RowsI draws, rows;
        each([&](int i) { x[i] = hn::Load(DF(), values + first + row + i * kLanes); });
        if constexpr (kStochastic) {
          each([&](int i) {
            const VU w = hn::Load(DU(), words + first / 2 + row / 2 + i % kColumns * kLanes);
            draws[i] =
                hn::BitCast(DI(), i < kColumns ? hn::And(w, hn::Set(DU(), 0xFFFFU)) : hn::ShiftRight<16>(w));
          });
        }
        encoder(x, draws, rows);
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
  if (takes_draws(codec.rounding)) {
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

template <bool kStochastic>
void to_bf16_loop(const float* HWY_RESTRICT values, const std::uint32_t* HWY_RESTRICT words,
                  std::int64_t count, std::uint16_t* HWY_RESTRICT out) {
  const DU du;
  const hn::Rebind<std::uint16_t, DF> d16;
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const VF x = hn::LoadU(DF(), values + i);
    const VU u = hn::BitCast(du, x);
    const VU odd = hn::And(hn::ShiftRight<16>(u), hn::Set(du, 1));
    VU rounded = hn::Add(hn::Add(u, hn::Set(du, 0x7FFF)), odd);
    if constexpr (kStochastic) {
      const VU w = hn::LoadU(du, words + i / 32 * 16 + i % 16);
      const VU draw = i / 16 % 2 == 0 ? hn::And(w, hn::Set(du, 0xFFFF)) : hn::ShiftRight<16>(w);
      const auto ordinary = hn::Lt(hn::Abs(x), hn::BitCast(DF(), hn::Set(du, 0x7F7F0000)));
      rounded = hn::IfThenElse(hn::RebindMask(du, ordinary), hn::Add(u, draw), rounded);
    }
    const VU quiet = hn::Or(hn::ShiftRight<16>(u), hn::Set(du, 0x40));
    const VU b = hn::IfThenElse(hn::RebindMask(du, hn::Ne(x, x)), quiet, hn::ShiftRight<16>(rounded));
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(DI(), b)), d16, out + i);
  }
  for (; i < count; ++i) out[i] = round_to_bf16(values[i], kStochastic ? words : nullptr, i);
}

void to_bf16(const float* values, const std::uint32_t* words, std::int64_t count, std::uint16_t* out) {
  words == nullptr ? to_bf16_loop<false>(values, words, count, out)
                   : to_bf16_loop<true>(values, words, count, out);
}

void from_bf16(const std::uint16_t* HWY_RESTRICT values, std::int64_t count, float* HWY_RESTRICT out) {
  const DU du;
  const hn::Rebind<std::uint16_t, DF> d16;
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const VU wide = hn::PromoteTo(du, hn::LoadU(d16, values + i));
    hn::StoreU(hn::BitCast(DF(), hn::ShiftLeft<16>(wide)), DF(), out + i);
  }
  for (; i < count; ++i) out[i] = bf16_to_float(values[i]);
}

const TileKernels* tile_kernels() {
  static constexpr const char* kName = HWY_TARGET == HWY_AVX3   ? "avx512"
                                       : HWY_TARGET == HWY_AVX2 ? "avx2"
                                       : HWY_TARGET == HWY_SSE4 ? "sse4"
                                                                : "ssse3";
  static constexpr TileKernels kKernels = {kName,      draw,       decode,  encode,   largest,
                                           add_scaled, square_sum, to_bf16, from_bf16};
  return &kKernels;
}

#else
// Everything else takes kernels/cpu/tile_scalar.cpp.
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
