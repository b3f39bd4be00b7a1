// The codec of one element, in plain scalar code for host and device: with kernels/formats/codec.h the
// specification of what is stored.
//
// Stochastic rounding takes the element's 16-bit draw r, u = (r + 1/2) / 2^16, and moves from the lower
// neighbour to the upper one when u >= 1 - fraction, the fraction measured in the value: unbiased to half a
// unit of its last bit (2^-16 of a gap; 2^-13 for softsign and the maps of zones, 2^-14 beside an entry of
// square roots). Round-to-nearest takes even codes at a tie of `int` and `lin0` and the larger magnitude at a
// tie of the others; of `sqrt` it takes the nearest root. A value that is exactly a decoded code returns that
// code under any rounding, for any draw. Magnitudes below the smallest value of a zero-free format are stored
// as that value.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/formats/codec.h"
#include "kernels/formats/format.h"
#include "kernels/macros.h"
#include "kernels/noise.h"

namespace lpmm {

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

// `ar` (goes_up, below) on square roots. With k <= y = sqrt(x / unit) < k + 1 and w uniform, up where y
// reaches the square of sqrt(k) + w (sqrt(k+1) - sqrt(k)), which is k + w - bend (w - w^2), here less k + 1/2
// on both sides. The bend, (sqrt(k+1) - sqrt(k))^2, is nearly 1 / (4k + 2): within 1 % for k of 1 and 2, 7 %
// above. w keeps a little away from 0 and 1: an entry is stored as it is, though y is off by roundings.
inline constexpr std::uint32_t kBendBits = 0x7DF00000U;
struct AverageDraw {
  float scale, least;  // w - 1/2 of a draw, and of the draw 0
};
LPMM_HD constexpr AverageDraw average_draw(int bits) {
  const float away = static_cast<float>(1 << (bits > 5 ? bits : 5)) * 0x1p-21F;
  return {0x1p-16F - 0x1p-15F * away, away - 0.5F};
}
LPMM_HD std::int32_t encode_average_root(float x, float step, int bits, std::uint32_t draw) {
  const float levels = static_cast<float>(1 << bits), unit = step / (levels * levels);
  const float y = (x > 0.0F ? sqrtf(x) : 0.0F) * (1.0F / sqrtf(unit));
  const float k = floorf(y), middle = k + 0.5F;
  const float bend = bits_float(kBendBits - float_bits(middle));
  const AverageDraw drawn = average_draw(bits);
  const float w = fmaf(static_cast<float>(draw), drawn.scale, drawn.least);
  const bool up = y - middle >= fmaf(bend, fmaf(w, w, -0.25F), w);
  const std::int32_t number = static_cast<std::int32_t>(k) + (up ? 1 : 0);
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

// True if x rounds up between neighbours a <= x < b: u * (b - a) >= the way to b. Under `ur` that way is
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

// The root leads to the lower neighbour or to one beside it, which comparisons mend. `rn` takes the nearest
// root, as FlashOptim does, not the nearest value: of what lies below the first entry, less becomes 0.
LPMM_HD std::int32_t encode_squares(Format f, MapTable table, float x, float step, bool stochastic,
                                    std::uint32_t draw) {
  const std::int32_t last = (1 << f.bits) - 2;
  const float root = x > 0.0F ? sqrtf(x) : 0.0F;
  const float place = root * (static_cast<float>(last + 1) / sqrtf(step));
  std::int32_t k = static_cast<std::int32_t>(stochastic ? place : place + 0.5F);
  if (!stochastic) return k > last ? last + 1 : k;
  k = k > last ? last : k;
  if (k > 0 && table.values[k] * step > x) --k;
  if (k < last && x >= table.values[k + 1] * step) ++k;
  const float a = table.values[k] * step, b = table.values[k + 1] * step;
  return k + (goes_up(a, b, x, Rounding::kStochastic, draw) ? 1 : 0);
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
  const bool is_average_root = rounding == Rounding::kAverage && coding_of(f.map) == Coding::kSquareRoot;
  const bool in_update =
      is_of_variance(rounding) && is_zero_free(f.map) && !has_range(f.map) && !is_average_root;
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
      code = is_average_root ? encode_average_root(x, step, f.bits, draw)
                             : encode_square_root(x, step, levels, stochastic, draw);
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
