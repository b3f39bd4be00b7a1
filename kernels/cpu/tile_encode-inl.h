// Values to packed codes.
// Compiled once for each instruction set, with the file that includes it.
#if defined(LPMM_KERNELS_CPU_TILE_ENCODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LPMM_KERNELS_CPU_TILE_ENCODE_INL_H_
#undef LPMM_KERNELS_CPU_TILE_ENCODE_INL_H_
#else
#define LPMM_KERNELS_CPU_TILE_ENCODE_INL_H_
#endif

#include <bit>
#include <cmath>
#include <type_traits>

#include "kernels/codec.h"
#include "kernels/cpu/tile_pack-inl.h"
#include "kernels/cpu/tile_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels {
namespace HWY_NAMESPACE {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

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

// Entries of a column of 32.
struct Lookup32 {
#if HWY_TARGET <= HWY_AVX3
  static HWY_INLINE VF of(const float* column, VI index) {
    return VF{_mm512_permutex2var_ps(hn::Load(DF(), column).raw, index.raw, hn::Load(DF(), column + 16).raw)};
  }
  static HWY_INLINE VI of(const std::int32_t* column, VI index) {
    return VI{
        _mm512_permutex2var_epi32(hn::Load(DI(), column).raw, index.raw, hn::Load(DI(), column + 16).raw)};
  }
#else
  static HWY_INLINE VF of(const float* column, VI index) {
    return hn::GatherIndex(DF(), column, index);
  }
  static HWY_INLINE VI of(const std::int32_t* column, VI index) {
    return hn::GatherIndex(DI(), column, index);
  }
#endif
};

// (x >= 0 ? v : -v) for the sign of a float.
HWY_INLINE VI with_sign_of(VF x, VI v) {
  const VI sign = hn::ShiftRight<31>(hn::BitCast(DI(), x));
  return hn::Sub(hn::Xor(v, sign), sign);
}

// Softsign of few bits: [0, 1] in 8 cells with at most one entry k / (2L - k) inside each, so that the
// position is on the lower of two lines. Twice over, for 16 lanes.
struct SoftsignCells {
  static constexpr float kPerUnit = 7.99F;  // 1 lies in the last cell, whatever rounding does
  alignas(64) float slope[16], start[16], next_slope[16], next_start[16];

  constexpr explicit SoftsignCells(int limit) : slope(), start(), next_slope(), next_start() {
    for (int i = 0; i < 16; ++i) {
      const float begin = static_cast<float>(i % 8) / kPerUnit;
      int k = 0;
      while (entry_of(k + 1, limit) <= begin) ++k;
      const SoftsignLine line = softsign_line(k, limit), next = softsign_line(k + 1, limit);
      slope[i] = line.slope;
      start[i] = line.start;
      next_slope[i] = next.slope;
      next_start[i] = next.start;
    }
  }
  static constexpr float entry_of(int k, int limit) {
    return static_cast<float>(k) / static_cast<float>(2 * limit - k);
  }
};
inline constexpr SoftsignCells kSoft3Cells(3), kSoft4Cells(7);

// The zones of a map by column, in parts, where the coding has any.
template <Coding kCoding>
struct ZoneColumns {
  HWY_INLINE explicit ZoneColumns(MapTable) {}
};
template <int kColumn, int kRepeat>
struct Columns {
  alignas(64) float first[kColumn], scale[kColumn], last[kColumn], stretch[kColumn];
  alignas(64) std::int32_t number[kColumn];
  explicit Columns(MapTable table) {
    for (int i = 0; i < kColumn; ++i) {
      const Zone& zone = table.zones[i % kRepeat];
      first[i] = zone.first;
      scale[i] = zone.scale * static_cast<float>(1 << kCurvedBits);
      last[i] = zone.last * static_cast<float>(1 << kCurvedBits);
      stretch[i] = zone.stretch;
      number[i] = zone.number;
    }
  }
};
constexpr int kDynamicZones = 8;
// The 8 of a dynamic map twice over, for 16 lanes; all of both sides else. Zones are decades, nearly: half a
// zone below a line through the bits of a magnitude, which are nearly its logarithm, lies the magnitude's
// zone or the one before.
template <>
struct ZoneColumns<Coding::kDynamic> : Columns<2 * kDynamicZones, kDynamicZones> {
  alignas(64) float next[2 * kDynamicZones];  // where the next zone begins
  float slope, start;
  explicit ZoneColumns(MapTable table) : Columns(table) {
    int zones = 1;
    while (zones + 1 < kDynamicZones && std::isfinite(first[zones + 1])) ++zones;
    const auto begin = static_cast<float>(float_bits(first[1]));
    slope = static_cast<float>(zones - 1) / (static_cast<float>(float_bits(first[zones])) - begin);
    start = 0.5F - slope * begin;
    for (int i = 0; i < 2 * kDynamicZones; ++i) {
      const int zone = i % kDynamicZones + 1;
      next[i] = zone < kDynamicZones ? first[zone] : HUGE_VALF;
    }
  }
};
template <>
struct ZoneColumns<Coding::kZones> : Columns<2 * kZones, 2 * kZones> {
  using Columns::Columns;
};

// codec.h's encode_value for vectors side by side.
template <Coding kCoding, bool kSigned, bool kStochastic>
struct Encoder : ZoneColumns<kCoding> {
  static constexpr bool kIsLinear = kCoding == Coding::kLinear || kCoding == Coding::kLinearNoZero;
  static constexpr int kDrawBits = kIsLinear || kCoding == Coding::kSquareRoot ? 16 : kCurvedBits;
  static constexpr float kParts = kStochastic && kIsLinear ? 65536.0F : 1.0F;

  Quotient quotient;
  // Square root: u = draw * draw_step + half_step.
  VF inverse_root = set(0.0F), draw_step = set(0.0F), half_step = set(0.0F);
  std::int32_t limit, zero;

  HWY_INLINE Encoder(Format f, MapTable table)
      : ZoneColumns<kCoding>(table), quotient(0.0F), limit(code_limit(f.bits)), zero(table.zero) {}

  HWY_INLINE void set_step(Format f, float step) {
    const float levels = static_cast<float>(1 << f.bits);
    if (kCoding == Coding::kLinearNoZero) step /= levels;
    if (kCoding == Coding::kSquareRoot) step /= levels * levels;
    quotient = Quotient(step / kParts);
    if constexpr (kCoding == Coding::kSquareRoot) {
      inverse_root = set(step > 0.0F ? 1.0F / std::sqrt(step) : 0.0F);
      draw_step = set(step * 0x1p-16F);
      half_step = set(step * (kStochastic ? 0x1p-17F : 0.5F));
    }
  }

  // codes[i] for x[i] and, under stochastic rounding, draw[i].
  HWY_INLINE void operator()(const RowsF& x, const RowsI& draw, RowsI& codes) const {
    if constexpr (kCoding == Coding::kLinear || kCoding == Coding::kLinearNoZero) {
      linear(x, draw, codes);
    } else if constexpr (kCoding == Coding::kSquareRoot) {
      square_root(x, draw, codes);
    } else if constexpr (kCoding == Coding::kSoftsign) {
      softsign(x, draw, codes);
    } else if constexpr (kCoding == Coding::kDynamic) {
      dynamic(x, draw, codes);
    } else {
      static_assert(kCoding == Coding::kZones);
      zones(x, draw, codes);
    }
  }

 private:
  HWY_INLINE void linear(const RowsF& x, const RowsI& draw, RowsI& k) const {
    RowsF y;
    quotient(x, y);
    each([&](int i) { k[i] = round_to_int(y[i]); });
    if constexpr (kStochastic) each([&](int i) { k[i] = hn::ShiftRight<16>(hn::Add(k[i], draw[i])); });
    // Packing saturates -1 to the lowest code.
    if constexpr (kCoding == Coding::kLinearNoZero) each([&](int i) { k[i] = hn::Sub(k[i], set(1)); });
  }

  HWY_INLINE void square_root(const RowsF& x, const RowsI& draw, RowsI& code) const {
    const VF one = set(1.0F);
    RowsF k, upper, rest, u;
    // Of a negative value the root is NaN, and the larger of the two then 0.
    each([&](int i) { k[i] = hn::Max(hn::Mul(hn::Sqrt(x[i]), inverse_root), hn::Zero(DF())); });
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
    RowsF y, parts;
    each([&](int i) { y[i] = hn::Mul(hn::Abs(x[i]), quotient.inverse); });
    if (kLanes >= 8 && limit <= 7) {
      const SoftsignCells& cells = limit == 7 ? kSoft4Cells : kSoft3Cells;
      each([&](int i) {
        const VI cell = truncate_to_int(hn::Mul(y[i], set(SoftsignCells::kPerUnit)));
        const VF here =
            fused_multiply_add(Lookup8::of(cells.slope, cell), y[i], Lookup8::of(cells.start, cell));
        const VF next = fused_multiply_add(Lookup8::of(cells.next_slope, cell), y[i],
                                           Lookup8::of(cells.next_start, cell));
        parts[i] = hn::Min(here, next);
      });
    } else {
      const VF one = set(1.0F), twice = set(static_cast<float>(2 * limit));
      const VF unit = set(static_cast<float>(1 << kCurvedBits) / static_cast<float>(2 * limit));
      each([&](int i) {
        const VF k = to_float(truncate_to_int(hn::Div(hn::Mul(twice, y[i]), hn::Add(one, y[i]))));
        const VF below = hn::Sub(twice, k);
        const VF slope = hn::Mul(hn::Mul(below, hn::Sub(below, one)), unit);
        parts[i] = fused_multiply_add(slope, y[i], hn::Mul(hn::Mul(k, hn::Add(k, one)), unit));
      });
    }
    each([&](int i) { code[i] = with_sign_of(x[i], round_parts(parts[i], draw[i])); });
  }

  HWY_INLINE void dynamic(const RowsF& x, const RowsI& draw, RowsI& code) const {
    RowsF y;
    RowsI z;
    each([&](int i) {
      y[i] = hn::Mul(kSigned ? hn::Abs(x[i]) : hn::Max(x[i], hn::Zero(DF())), quotient.inverse);
    });
    each([&](int i) {
      const VF line = hn::Add(hn::Mul(to_float(hn::BitCast(DI(), y[i])), set(this->slope)), set(this->start));
      z[i] = truncate_to_int(hn::Min(hn::Max(line, hn::Zero(DF())), set(kDynamicZones - 1.0F)));
      const auto beyond = hn::Ge(y[i], Lookup8::of(this->next, z[i]));
      z[i] = hn::Sub(z[i], hn::BitCast(DI(), hn::VecFromMask(DF(), beyond)));
    });
    place_in_zones<Lookup8>(z, draw, y, code);
    if constexpr (kSigned) {
      each([&](int i) {
        const VI sign = hn::ShiftRight<31>(hn::BitCast(DI(), x[i]));
        const VI most = hn::Add(set(limit + 1), sign);  // 1 has no negative
        const VI held = hn::Min(code[i], most);
        code[i] = hn::Add(set(limit), hn::Sub(hn::Xor(held, sign), sign));
      });
    }
  }

  HWY_INLINE void zones(const RowsF& x, const RowsI& draw, RowsI& code) const {
    RowsF y;
    RowsI z;
    hn::Mask<DF> is_negative[kSide];
    each([&](int i) {
      const VI sign = hn::ShiftRight<31>(hn::BitCast(DI(), x[i]));
      y[i] = hn::Mul(hn::Abs(x[i]), quotient.inverse);
      z[i] = hn::And(sign, set(std::int32_t{kZones}));
      is_negative[i] = hn::MaskFromVec(hn::BitCast(DF(), sign));
    });
    for (int j = 1; j < kZones; ++j) {
      const VF positive = set(this->first[j]), negative = set(this->first[kZones + j]);
      each([&](int i) {
        const VF start = hn::IfThenElse(is_negative[i], negative, positive);
        z[i] = hn::Sub(z[i], hn::BitCast(DI(), hn::VecFromMask(DF(), hn::Ge(y[i], start))));
      });
    }
    place_in_zones<Lookup32>(z, draw, y, code);
    each([&](int i) { code[i] = hn::Add(set(zero), with_sign_of(x[i], code[i])); });
  }

  // From the zones z of the magnitudes y to their numbers.
  template <class Lookup>
  HWY_INLINE void place_in_zones(const RowsI& z, const RowsI& draw, RowsF& y, RowsI& code) const {
    RowsF end;
    each([&](int i) {
      y[i] = hn::Mul(hn::Sub(y[i], Lookup::of(this->first, z[i])), Lookup::of(this->scale, z[i]));
    });
    each([&](int i) { end[i] = Lookup::of(this->last, z[i]); });
    each([&](int i) {
      y[i] = hn::Max(y[i], hn::Zero(DF()));
      const VF beyond = hn::Add(end[i], hn::Mul(hn::Sub(y[i], end[i]), Lookup::of(this->stretch, z[i])));
      y[i] = hn::IfThenElse(hn::Gt(y[i], end[i]), beyond, y[i]);
    });
    each([&](int i) { code[i] = hn::Add(Lookup::of(this->number, z[i]), round_parts(y[i], draw[i])); });
  }

  HWY_INLINE VI round_parts(VF parts, VI draw) const {
    if constexpr (!kStochastic) draw = set(1 << (kDrawBits - 1));
    return hn::ShiftRight<kDrawBits>(hn::Add(round_to_int(parts), draw));
  }
};

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
  const hn::Rebind<Code, DF> dc;
  for (int i = 0; i < kSide; ++i) hn::StoreU(hn::DemoteTo(dc, rows[i]), dc, out + i * kLanes);
#endif
}

// kBits: of the format, where the caller knows them; 0 elsewhere.
template <Coding kCoding, bool kSigned, bool kStochastic, bool kWide, int kBits = 0>
void encode_loop(const Codec& codec, MapTable table, const float* HWY_RESTRICT values,
                 const std::uint16_t* HWY_RESTRICT steps, const NoiseLine* HWY_RESTRICT lines,
                 std::int64_t count, std::uint8_t* HWY_RESTRICT codes) {
  using Signed = std::make_signed_t<CodeOf<kWide>>;
  using Code = std::conditional_t<has_signed_codes(kCoding), Signed, CodeOf<kWide>>;
  const int bits = kBits != 0 ? kBits : codec.format.bits;
  const Format format = {codec.format.map, static_cast<std::uint8_t>(bits)};
  const int block_shift = std::countr_zero(static_cast<unsigned>(codec.block));
  const std::int64_t block_mask = codec.block - 1;
  Encoder<kCoding, kSigned, kStochastic> encoder(format, table);
  for (std::int64_t first = 0; first < count; first += kGroup, codes += 16 * bits) {
    alignas(64) CodeOf<kWide> unpacked[kGroup];
    CodeOf<kWide>* group = unpacked;
    if constexpr (!kWide) {
      if (bits == 8) group = codes;
    }
    Draws draws;
    if constexpr (kStochastic) draws = Draws(*lines++);
    for (std::int64_t half = 0; half < kGroup; half += kGroup / 2) {
      if (((first + half) & block_mask) == 0) {
        encoder.set_step(format, bf16_to_float(steps[(first + half) >> block_shift]));
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
  return takes_draws(rounding) ? encode_loop<kCoding, kSigned, true, false>
                               : encode_loop<kCoding, kSigned, false, false>;
}

inline EncodeLoop encode_loop_of(Format f, Rounding rounding) {
  switch (coding_of(f.map)) {
    case Coding::kLinear:
      return encode_loop_of<Coding::kLinear>(rounding, f.bits);
    case Coding::kSoftsign:
      return encode_loop_of<Coding::kSoftsign>(rounding, f.bits);
    case Coding::kLinearNoZero:
      return encode_loop_of<Coding::kLinearNoZero>(rounding, f.bits);
    case Coding::kSquareRoot:
      return encode_loop_of<Coding::kSquareRoot>(rounding, f.bits);
    case Coding::kDynamic:
      return is_signed(f.map) ? encode_loop_of<Coding::kDynamic, true>(rounding, f.bits)
                              : encode_loop_of<Coding::kDynamic, false>(rounding, f.bits);
    case Coding::kZones:
      return encode_loop_of<Coding::kZones>(rounding, f.bits);
    case Coding::kNumber:
      break;  // no codes
  }
  return nullptr;
}

inline void encode(const Codec& codec, MapTable table, const float* values, const std::uint16_t* steps,
                   const NoiseLine* lines, std::int64_t count, std::uint8_t* codes) {
  encode_loop_of(codec.format, codec.rounding)(codec, table, values, steps, lines, count, codes);
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace lpmm::kernels
HWY_AFTER_NAMESPACE();

#endif
