// The step of one block and codes in their bits, in plain scalar code for host and device; the values of
// codes are in kernels/formats/element.h. These two files are the specification: every fast path must give
// the same bits (tests/kernels/simd_test.cpp).
//
// A block of `log0` has a range besides its step: the table maps of one format differ from block to block.
// scale_of() reads both from the block's word, and the functions of one element take them apart.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/formats/format.h"
#include "kernels/macros.h"

namespace lpmm {

// Names the rounding, for comparing runs: the text differs where the same draw rounds otherwise.
inline constexpr const char* kRoundingBits =
    "philox4x32-10, a line per group; softsign by lines; ar of roots by a bent line";

LPMM_HD std::uint32_t float_bits(float x) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(x);
#else
  std::uint32_t u = 0;
  std::memcpy(&u, &x, 4);
  return u;
#endif
}
LPMM_HD float bits_float(std::uint32_t u) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(u);
#else
  float x = 0;
  std::memcpy(&x, &u, 4);
  return x;
#endif
}
LPMM_HD std::uint32_t abs_bits(float x) {
  return float_bits(x) & 0x7FFFFFFFU;
}

// ---- bf16 ----------------------------------------------------------------------------------------------
LPMM_HD float bf16_to_float(std::uint16_t b) {
  return bits_float(static_cast<std::uint32_t>(b) << 16);
}

// Nearest even. NaN stays NaN.
LPMM_HD std::uint16_t float_to_bf16(float x) {
  const std::uint32_t u = float_bits(x);
  if ((u & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>(u >> 16 | 0x40U);
  return static_cast<std::uint16_t>((u + 0x7FFFU + (u >> 16 & 1U)) >> 16);
}
// Stochastic in the 16 dropped bits: exactly unbiased. A finite value never becomes infinite.
LPMM_HD std::uint16_t float_to_bf16_stochastic(float x, std::uint32_t draw) {
  const std::uint32_t u = float_bits(x);
  if ((u & 0x7FFFFFFFU) >= 0x7F7F0000U) return float_to_bf16(x);
  return static_cast<std::uint16_t>((u + draw) >> 16);
}

// ---- tables --------------------------------------------------------------------------------------------
// A stretch of a table map: cells of equal width from the magnitude `first` on, so that a place in it is one
// product. In the last of a dynamic map's cells the width changes: places beyond `last` are stretched.
struct Zone {
  float first;          // magnitude of the zone's first entry
  float scale;          // cells per unit
  float last;           // cells of equal width
  float stretch;        // dynamic maps: 1/3, in the top decade 2; 0: nothing lies beyond
  std::int32_t number;  // of the first entry, counted in magnitudes from zero's
};
inline constexpr int kZones = 16;  // of one sign

// `values` is the map in order of code patterns (sign-extended pattern + L for softsign), for decoding;
// patterns that are no codes repeat the largest. `zones` is there for the maps of zones: kZones of positive
// values, then kZones of negative ones, padded with zones that no value reaches. map_table() in
// kernels/formats/maps.h makes it. For `log0`, `values` are the maps of all kRanges ranges, then the codes
// per octave of each range, then the smallest value of each; scale_of() makes it the table of one block.
struct MapTable {
  const float* values = nullptr;
  int entries = 0;
  const Zone* zones = nullptr;
  std::int32_t zero = 0;       // the code that stands for 0, or for the smallest value of a zero-free format
  float codes_per_octave = 0;  // of a block of `log0`
};

// ---- steps ---------------------------------------------------------------------------------------------
// Magnitudes the packed formats hold. Larger ones count as not finite; a step is never below kMinStep, so no
// product of a map entry and a step is subnormal.
inline constexpr float kMaxMagnitude = 0x1p120F;
inline constexpr float kMinStep = 0x1p-100F;
// A new sticky step leaves this much room above the largest element; an old one is dropped when the largest
// element falls below this share of its range, which must be less than the last gap of int3 leaves, 2/3: a
// value as it is stored keeps its step.
inline constexpr float kStickyRoom = 1.0625F;
inline constexpr float kStickySlack = 0.66F;

// The word of a `log0` block: sign and the low 4 bits of mantissa of a bf16 step, which are free where steps
// are positive and 3 bits of mantissa enough, are the number of its range. Entries go down to 2^-44.
inline constexpr int kRanges = 32;
inline constexpr std::uint32_t kRangedStep = 0x7FF0U;
inline constexpr float kMinRangedStep = 0x1p-80F;
LPMM_HD int range_of(std::uint16_t word) {
  return word >> 15 << 4 | (word & 15);
}
LPMM_HD std::uint16_t range_bits(std::uint32_t range) {
  return static_cast<std::uint16_t>((range & 16U) << 11 | (range & 15U));
}

// The contents of a block's word: its step, and the table that its codes are read with.
struct Scale {
  float step;
  MapTable table;
};
LPMM_HD Scale scale_of(Format f, MapTable table, std::uint16_t word) {
  if (!has_range(f.map)) return {bf16_to_float(word), table};
  const int range = range_of(word);
  table.codes_per_octave = table.values[(kRanges << f.bits) + range];
  table.values += range << f.bits;
  return {bf16_to_float(static_cast<std::uint16_t>(word & kRangedStep)), table};
}

// True if a block of this format may have this word.
LPMM_HD bool is_step(Format f, std::uint16_t word) {
  const std::uint32_t step = has_range(f.map) ? word & kRangedStep : word;
  const float least = has_range(f.map) ? kMinRangedStep : kMinStep;
  return word == 0 || (step < 0x7F80U && bf16_to_float(static_cast<std::uint16_t>(step)) >= least);
}

LPMM_HD bool is_storable(std::uint32_t magnitude_bits) {
  return magnitude_bits <= 0x7B800000U;
}  // 2^120
// Clamps what is not storable, NaN to 0. False where it had to.
LPMM_HD bool make_storable(float& x) {
  if (is_storable(float_bits(x) & 0x7FFFFFFFU)) return true;
  x = x != x ? 0.0F : x < 0.0F ? -kMaxMagnitude : kMaxMagnitude;
  return false;
}

// The smallest bf16 step whose range covers `largest` > 0: map_limit * step >= largest holds exactly.
LPMM_HD std::uint16_t covering_step(float largest, float map_limit) {
  float q = largest / map_limit;
  if (q < kMinStep) q = kMinStep;
  std::uint32_t b = (float_bits(q) + 0xFFFFU) >> 16;
  if (bf16_to_float(static_cast<std::uint16_t>(b)) * map_limit < largest) ++b;
  return static_cast<std::uint16_t>(b);
}

// The step of a block of parameters or states whose largest magnitude is `largest`, given its old step.
LPMM_HD std::uint16_t next_step(float limit, StepMode mode, float largest, std::uint16_t old_step) {
  if (largest == 0.0F) return 0;
  if (largest > kMaxMagnitude) largest = kMaxMagnitude;
  if (mode != StepMode::kSticky) return covering_step(largest, limit);
  const float range = bf16_to_float(old_step) * limit;
  if (largest <= range && largest >= kStickySlack * range) return old_step;
  return covering_step(largest * kStickyRoom, limit);
}
LPMM_HD std::uint16_t next_step(const Codec& c, float largest, std::uint16_t old_step) {
  return next_step(map_limit(c.format), c.step_mode, largest, old_step);
}

// The step of an accumulator block: chosen by the first fold (old_step 0), then only grown, to what covers
// the block: elements that a fold does not touch stay as they are wherever their block does not grow. Room
// for the folds to come, or doubling, would store all of them twice as coarsely as needed
// (theory/README.md 1.5).
LPMM_HD std::uint16_t next_accumulator_step(const Codec& c, float largest, std::uint16_t old_step) {
  if (largest > kMaxMagnitude) largest = kMaxMagnitude;
  const float limit = map_limit(c.format);
  if (largest <= bf16_to_float(old_step) * limit) return old_step;
  return covering_step(largest, limit);
}

// A block's smallest magnitude that is not 0 is found as its largest one is: the largest of these, which make
// a small magnitude a large number and leave 0 the smallest of all. 0 where all are 0.
LPMM_HD std::uint32_t inverted(std::uint32_t magnitude_bits) {
  return 0U - magnitude_bits;
}

// True if a sticky word still fits: nothing is beyond its ends, its second largest value is in use or nearly,
// and so is its lower quarter. Values stored with a new word always fit it, whatever rounding did: that word
// leaves free at most an eighth above the largest, and the tenth of octaves between two ranges below the
// smallest.
LPMM_HD bool fits_range(Format f, const Scale& s, int range, float largest, float smallest) {
  const float* map = s.table.values;
  const float second = map[(1 << f.bits) - 2], slack = second < kStickySlack ? second : kStickySlack;
  return largest <= s.step && largest >= slack * s.step &&
         (range == kRanges - 1 || smallest >= map[0] * s.step) &&
         (range == 0 || smallest <= map[(1 << f.bits) / 4] * s.step);
}

// The word of a `log0` block: the smallest step of 3 bits that covers the largest magnitude, and the
// narrowest range that reaches down to the smallest one that is not 0. Smaller magnitudes and 0 are stored as
// the smallest value. `table` is the whole one.
LPMM_HD std::uint16_t next_range(const Codec& c, MapTable table, float largest, float smallest,
                                 std::uint16_t old_word) {
  if (largest == 0.0F) return 0;
  const bool is_sticky = c.step_mode == StepMode::kSticky;
  if (is_sticky && old_word != 0 &&
      fits_range(c.format, scale_of(c.format, table, old_word), range_of(old_word), largest, smallest)) {
    return old_word;
  }
  const float room = is_sticky ? kStickyRoom : 1.0F;
  float covered = largest * room;
  if (covered < kMinRangedStep) covered = kMinRangedStep;
  const std::uint32_t step = (float_bits(covered) + 0xFFFFFU) >> 20 << 20;
  const float reach = bits_float(step) * room;
  const float* least = table.values + (kRanges << c.format.bits) + kRanges;
  std::uint32_t range = 0;
  for (int i = 0; i + 1 < kRanges; ++i) range += least[i] * reach > smallest ? 1U : 0U;
  return static_cast<std::uint16_t>(step >> 16 | range_bits(range));
}

// ---- packed codes --------------------------------------------------------------------------------------
LPMM_HD std::uint32_t load_code(const std::uint8_t* codes, Format f, std::int64_t element) {
  const std::uint8_t* p = codes + (element / kGroup) * 16 * f.bits;
  const int e = static_cast<int>(element % kGroup);
  std::uint32_t code = 0;
  int shift = 0;
  for (int left = f.bits; left > 0;) {
    const int w = plane_width(left);
    const std::uint32_t byte = p[e % (16 * w)];
    code |= (byte >> (w * (e / (16 * w))) & ((1U << w) - 1U)) << shift;
    p += 16 * w;
    shift += w;
    left -= w;
  }
  return code;
}
LPMM_HD void store_code(std::uint8_t* codes, Format f, std::int64_t element, std::uint32_t code) {
  std::uint8_t* p = codes + (element / kGroup) * 16 * f.bits;
  const int e = static_cast<int>(element % kGroup);
  for (int left = f.bits; left > 0;) {
    const int w = plane_width(left);
    const int at = w * (e / (16 * w));
    const std::uint32_t mask = ((1U << w) - 1U) << at;
    p[e % (16 * w)] = static_cast<std::uint8_t>((p[e % (16 * w)] & ~mask) | (code << at & mask));
    code >>= w;
    p += 16 * w;
    left -= w;
  }
}
// Two's complement of `bits` bits, as an integer.
LPMM_HD std::int32_t sign_extend(std::uint32_t code, int bits) {
  return static_cast<std::int32_t>(code << (32 - bits)) >> (32 - bits);
}

}  // namespace lpmm
