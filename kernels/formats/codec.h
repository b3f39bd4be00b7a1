// The codec of one element and the step of one block, in plain scalar code for host and device.
// This file is the specification: every fast path must give the same bits (tests/kernels/simd_test.cpp).
//
// Stochastic rounding takes the element's 16-bit draw r, u = (r + 1/2) / 2^16, and moves from the lower
// neighbour to the upper one when u >= 1 - fraction, the fraction measured in the value: unbiased to half a
// unit of its last bit (2^-16 of a gap; 2^-13 for softsign and the maps of zones, 2^-14 beside an entry of
// square roots). Round-to-nearest takes
// even codes at a tie of `int` and `lin0` and the larger magnitude at a tie of the others. A value that is
// exactly a decoded code returns that code under any rounding, for any draw. What lies below the smallest
// value of a zero-free format is stored as that value.
//
// A block of `log0` has a range besides its step: the table maps of one format differ from block to block.
// scale_of() reads both from the block's word, and the functions of one element take them apart.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/formats/format.h"
#include "kernels/macros.h"
#include "kernels/noise.h"

namespace lpmm {

// What rounds and how, for whoever compares runs: another text where the same draw rounds otherwise.
inline constexpr const char* kRoundingBits = "philox4x32-10, a line per group; softsign by lines";

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

// `values` is the map in order of code patterns (sign-extended pattern + L for softsign), for decoding; what
// no code stands for repeats the largest. `zones` is there for the maps of zones: kZones of positive values,
// then kZones of negative ones, padded with zones that no value reaches. From map_table() in
// kernels/formats/maps.h. Of `log0`, `values` are the maps of all kRanges ranges, then the codes per octave
// of each range, then the smallest value of each; scale_of() makes it the table of one block.
struct MapTable {
  const float* values = nullptr;
  int entries = 0;
  const Zone* zones = nullptr;
  std::int32_t zero = 0;       // the code that stands for 0, or for the smallest value of a zero-free format
  float codes_per_octave = 0;  // of a block of `log0`
};

// ---- steps ---------------------------------------------------------------------------------------------
// Magnitudes the packed formats hold. What is larger counts as not finite; a step is never below kMinStep, so
// no product of a map entry and a step is subnormal.
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

// What the word of a block says: its step, and the table that its codes are read with.
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

// Whether a block of this format may have this word.
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
  if (mode == StepMode::kMoving) return covering_step(largest, limit);
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

// Whether a sticky word still fits: nothing is beyond its ends, its second largest value is in use or nearly,
// and so is its lower quarter. What is stored with a new word always fits it, whatever rounding did: that
// word leaves free at most an eighth above the largest, and the tenth of octaves between two ranges below the
// smallest.
LPMM_HD bool fits_range(Format f, const Scale& s, int range, float largest, float smallest) {
  const float* map = s.table.values;
  const float second = map[(1 << f.bits) - 2], slack = second < kStickySlack ? second : kStickySlack;
  return largest <= s.step && largest >= slack * s.step &&
         (range == kRanges - 1 || smallest >= map[0] * s.step) &&
         (range == 0 || smallest <= map[(1 << f.bits) / 4] * s.step);
}

// The word of a `log0` block: the smallest step of 3 bits that covers the largest magnitude, and the
// narrowest range that reaches down to the smallest one that is not 0. What is smaller, and 0, is stored as
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

// ---- one element ---------------------------------------------------------------------------------------
// `step` and `table` as scale_of() has them.
LPMM_HD float decode_code(Format f, MapTable table, std::uint32_t code, float step) {
  if (step == 0.0F) return 0.0F;
  switch (coding_of(f.map)) {
    case Coding::kLinear:
      return static_cast<float>(sign_extend(code, f.bits)) * step;
    case Coding::kSoftsign: {
      const int i = sign_extend(code, f.bits) + code_limit(f.bits);
      return table.values[i < 0 ? 0 : i] * step;  // -L-1 is never written; a hostile file may hold it
    }
    case Coding::kLinearNoZero:
    case Coding::kSquareRoot:
    case Coding::kSquares:
    case Coding::kDynamic:
    case Coding::kZones:
    case Coding::kLog:
      return table.values[code] * step;
    case Coding::kNumber:
      break;  // no codes
  }
  return 0.0F;
}

// The draw that makes the functions below round to nearest.
inline constexpr std::uint32_t kNearestDraw = 0x8000U;
inline constexpr int kCurvedBits = 13;  // of the positions in softsign and in zones

// Fixed point: a position, >= 0 or not, counted in parts of 2^-bits of a code.
LPMM_HD std::int32_t round_parts(float parts, int bits, std::uint32_t draw) {
  return (static_cast<std::int32_t>(rintf(parts)) + static_cast<std::int32_t>(draw >> (16 - bits))) >> bits;
}

// The encoders of the codings. All take step > 0 and |x| <= map_limit * step; `draw` is kNearestDraw where
// nothing is drawn.

LPMM_HD std::int32_t round_linear(float y, bool stochastic, std::uint32_t draw) {
  return stochastic ? round_parts(y * 0x1p16F, 16, draw) : static_cast<std::int32_t>(rintf(y));
}

// The entries are k*k*unit. The root is that of the value itself, which a rule that divides by it has taken
// already. Within rounding k may be one less or more: the comparison is in values and mends it where the
// value is an entry. Up when u * gap >= the way to the upper entry.
LPMM_HD std::int32_t encode_square_root(float x, float step, float levels, bool stochastic,
                                        std::uint32_t draw) {
  const float unit = step / (levels * levels);
  const float root = x > 0.0F ? sqrtf(x) : 0.0F;
  const float k = floorf(root * (1.0F / sqrtf(unit)));
  const float upper = k + 1.0F;
  const float rest = upper * upper * unit - x;
  const float u = static_cast<float>(draw) * (unit * 0x1p-16F) + unit * 0x1p-17F;  // the product is exact
  const std::int32_t number =
      static_cast<std::int32_t>(k) + ((stochastic ? u : 0.5F * unit) * (k + upper) >= rest ? 1 : 0);
  return number > 1 ? number - 1 : 0;
}

// The rest reaches the decoded values only to a few units of fp32; positions are rounded to 2^-13.

// Entries k / (2L - k). From k to k+1 the position of y is on the line y (2L-k)(2L-k-1) / 2L + k(k+1) / 2L,
// in parts of 2^-13. Beside an entry either line leads to its code; elsewhere the position is on the lowest.
struct SoftsignLine {
  float slope, start;
};
LPMM_HD constexpr SoftsignLine softsign_line(int k, int limit) {
  const float parts = static_cast<float>(1 << kCurvedBits) / static_cast<float>(2 * limit);
  return {static_cast<float>((2 * limit - k) * (2 * limit - k - 1)) * parts,
          static_cast<float>(k * (k + 1)) * parts};
}
LPMM_HD std::int32_t encode_softsign(float x, float step, int limit, std::uint32_t draw) {
  const float y = fabsf(x) * (1.0F / step);
  const auto k = static_cast<std::int32_t>(static_cast<float>(2 * limit) * y / (1.0F + y));
  const SoftsignLine line = softsign_line(k, limit);
  const std::int32_t code = round_parts(fmaf(line.slope, y, line.start), kCurvedBits, draw);
  return x < 0.0F ? -code : code;
}

LPMM_HD std::int32_t encode_zones(MapTable table, float x, float step, std::uint32_t draw) {
  const float magnitude = fabsf(x) * (1.0F / step);
  const Zone* zone = table.zones + (x < 0.0F ? kZones : 0);
  for (const Zone* end = zone + kZones; zone + 1 < end && magnitude >= zone[1].first;) ++zone;
  float position = (magnitude - zone->first) * zone->scale;
  position = position > 0.0F ? position : 0.0F;
  if (position > zone->last) position = zone->last + (position - zone->last) * zone->stretch;
  const std::int32_t number =
      zone->number + round_parts(position * static_cast<float>(1 << kCurvedBits), kCurvedBits, draw);
  return table.zero + (x < 0.0F ? -number : number);
}

// Whether x goes up between neighbours a <= x < b: u * (b - a) >= the way to b. Under `ur` that way is
// measured in h(v) = 1 / sqrt(v), where (h(x) - h(b)) / (h(a) - h(b)) is the share of the way in v times a
// factor that is 1 at a: the mean of h is kept. The rule's epsilon is left out: where it decides, updates do
// not depend on v. Under `ar` it is measured in v^(1/4): what the noise of many writes adds to the mean of
// 1 / sqrt(v) then takes off again what each of them adds to that of v (theory/README.md, 16c).
LPMM_HD bool goes_up(float a, float b, float x, Rounding rounding, std::uint32_t draw) {
  float rest = b - x;
  if (is_of_variance(rounding)) {
    const float root_a = sqrtf(a), root_b = sqrtf(b), root_x = sqrtf(x > 0.0F ? x : 0.0F);
    if (rounding == Rounding::kUpdate) {
      rest *= root_a * (root_a + root_b) / (root_x * (root_x + root_b));
    } else {
      const float fourth_a = sqrtf(root_a), fourth_b = sqrtf(root_b), fourth_x = sqrtf(root_x);
      rest *= (fourth_a + fourth_b) * (root_a + root_b) / ((fourth_x + fourth_b) * (root_x + root_b));
    }
  }
  return (takes_draws(rounding) ? noise_uniform(draw) : 0.5F) * (b - a) >= rest;
}

// log2 of x > 0 plus 127, to 2^-12; less than that of any x > 0 where x is not.
LPMM_HD float rough_log2(float x) {
  const auto bits = static_cast<std::int32_t>(float_bits(x));
  const float m = bits_float((static_cast<std::uint32_t>(bits) & 0x7FFFFFU) | 0x3F800000U) - 1.0F;
  return static_cast<float>(bits >> 23) + (m + m * (1.0F - m) * (0.4387F - m * (0.239F - 0.0821F * m)));
}

// The logarithms lead to the lower neighbour or to the code before it, which a comparison mends.
LPMM_HD std::int32_t encode_log(Format f, MapTable table, float x, float step, Rounding rounding,
                                std::uint32_t draw) {
  const std::int32_t last = (1 << f.bits) - 2;
  const float place =
      static_cast<float>(last) + 0.5F + (rough_log2(x) - rough_log2(step)) * table.codes_per_octave;
  const float held = place < 0.0F ? 0.0F : place;
  std::int32_t k = static_cast<std::int32_t>(held);
  k = k > last ? last : k;
  if (k < last && x >= table.values[k + 1] * step) ++k;
  return k + (goes_up(table.values[k] * step, table.values[k + 1] * step, x, rounding, draw) ? 1 : 0);
}

// The root leads to the lower neighbour or to one beside it, which comparisons mend.
LPMM_HD std::int32_t encode_squares(Format f, MapTable table, float x, float step, bool stochastic,
                                    std::uint32_t draw) {
  const Rounding rounding = stochastic ? Rounding::kStochastic : Rounding::kNearest;
  const std::int32_t last = (1 << f.bits) - 2;
  const float root = x > 0.0F ? sqrtf(x) : 0.0F;
  std::int32_t k = static_cast<std::int32_t>(root * (static_cast<float>(last + 1) / sqrtf(step)));
  k = k > last ? last : k;
  if (k > 0 && table.values[k] * step > x) --k;
  if (k < last && x >= table.values[k + 1] * step) ++k;
  return k + (goes_up(table.values[k] * step, table.values[k + 1] * step, x, rounding, draw) ? 1 : 0);
}

// `ur` and `ar` on the other zero-free maps: between the neighbours to which a draw of 0 leads, or nearly.
LPMM_HD std::int32_t round_in_update(Format f, MapTable table, Rounding rounding, float x, float step,
                                     std::int32_t code, std::uint32_t draw) {
  if (code > 0 && table.values[code] * step > x) --code;
  if (code == (1 << f.bits) - 1) return code;
  const bool up = goes_up(table.values[code] * step, table.values[code + 1] * step, x, rounding, draw);
  return code + (up ? 1 : 0);
}

// `step` > 0 and |x| <= map_limit * step. `draw` is used by stochastic rounding only. `ur` and `ar` are as
// `sr` where a map has a zero.
LPMM_HD std::uint32_t encode_value(Format f, MapTable table, Rounding rounding, float x, float step,
                                   std::uint32_t draw) {
  const bool stochastic = takes_draws(rounding);
  const std::uint32_t mask = (1U << f.bits) - 1U;
  const float levels = static_cast<float>(1 << f.bits);
  const bool in_update = is_of_variance(rounding) && is_zero_free(f.map) && !has_range(f.map);
  const std::uint32_t given = draw;
  if (!stochastic) draw = kNearestDraw;
  if (in_update) draw = 0;
  std::int32_t code = 0;
  switch (coding_of(f.map)) {
    case Coding::kLinear:
      code = round_linear(x / step, stochastic, draw);
      break;
    case Coding::kLinearNoZero:
      code = round_linear(x / step * levels, stochastic, draw) - 1;
      code = code > 0 ? code : 0;
      break;
    case Coding::kSquareRoot:
      code = encode_square_root(x, step, levels, stochastic, draw);
      break;
    case Coding::kSquares:
      code = encode_squares(f, table, x, step, stochastic, draw);
      break;
    case Coding::kSoftsign:
      code = encode_softsign(x, step, code_limit(f.bits), draw);
      break;
    case Coding::kDynamic:
    case Coding::kZones:
      code = encode_zones(table, x, step, draw);
      break;
    case Coding::kLog:
      code = encode_log(f, table, x, step, rounding, draw);
      break;
    case Coding::kNumber:
      break;  // no codes
  }
  if (in_update) code = round_in_update(f, table, rounding, x, step, code, given);
  return static_cast<std::uint32_t>(code) & mask;
}

}  // namespace lpmm
