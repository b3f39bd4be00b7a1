// The codec of one element and the step of one block, in plain scalar code for host and device.
// This file is the specification: every fast path must give the same bits (tests/kernels/codec_test.cpp).
//
// With y = x / step (correctly rounded), stochastic rounding picks the lower neighbour T[i] <= y < T[i+1] and
// moves up when y - T[i] >= t * (T[i+1] - T[i]), t the element's threshold in (0, 1): unbiased in the value.
// Round-to-nearest takes even codes at a tie of `int`, the lower entry at a tie of a table. A value that is
// exactly some decoded code returns that code under either rounding.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/format.h"
#include "kernels/macros.h"
#include "kernels/noise.h"

namespace lpmm {

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

// ---- steps ---------------------------------------------------------------------------------------------
// Magnitudes the packed formats hold. What is larger counts as not finite; a step is never below kMinStep, so
// no product of a map entry and a step is subnormal.
inline constexpr float kMaxMagnitude = 0x1p120F;
inline constexpr float kMinStep = 0x1p-100F;
// A new sticky step leaves this much room above the largest element; an old one is dropped when the largest
// element falls below this share of its range.
inline constexpr float kStickyRoom = 1.125F;
inline constexpr float kStickySlack = 0.5F;

LPMM_HD bool is_storable(std::uint32_t magnitude_bits) {
  return magnitude_bits <= 0x7B800000U;
}  // 2^120

// The smallest bf16 step whose range covers `largest` > 0: map_limit * step >= largest holds exactly.
LPMM_HD std::uint16_t covering_step(float largest, float map_limit) {
  float q = largest / map_limit;
  if (q < kMinStep) q = kMinStep;
  std::uint32_t b = (float_bits(q) + 0xFFFFU) >> 16;
  if (bf16_to_float(static_cast<std::uint16_t>(b)) * map_limit < largest) ++b;
  return static_cast<std::uint16_t>(b);
}

// The step of a block of parameters or states whose largest magnitude is `largest`, given its old step.
LPMM_HD std::uint16_t next_step(const Codec& c, float largest, std::uint16_t old_step) {
  if (largest == 0.0F) return 0;
  if (largest > kMaxMagnitude) largest = kMaxMagnitude;
  const float limit = map_limit(c.format);
  if (c.step_mode == StepMode::kMoving) return covering_step(largest, limit);
  const float range = bf16_to_float(old_step) * limit;
  if (largest <= range && largest >= kStickySlack * range) return old_step;
  return covering_step(largest * kStickyRoom, limit);
}

// The step of an accumulator block: chosen by the first fold (old_step 0) with `headroom` >= 1 for the rest,
// then only doubled, so that a code that is even stays on its grid.
LPMM_HD std::uint16_t next_accumulator_step(const Codec& c, float largest, std::uint16_t old_step,
                                            float headroom) {
  if (largest > kMaxMagnitude) largest = kMaxMagnitude;
  const float limit = map_limit(c.format);
  if (old_step == 0) return largest == 0.0F ? std::uint16_t{0} : covering_step(largest * headroom, limit);
  while (bf16_to_float(old_step) * limit < largest) old_step = static_cast<std::uint16_t>(old_step + 0x80U);
  return old_step;
}

// ---- packed codes --------------------------------------------------------------------------------------
LPMM_HD std::uint32_t load_code(const std::uint8_t* codes, Format f, std::int64_t element) {
  const std::uint8_t* p = codes + (element / kGroup) * 16 * f.bits;
  const int e = static_cast<int>(element % kGroup);
  std::uint32_t code = 0;
  int shift = 0;
  for (int left = f.bits; left > 0;) {
    const int w = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
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
    const int w = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
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
// `table` is the ascending map (map_table(), kernels/maps.h) with `entries` values; unused for `int`.
// For softsign, table index i stands for code i - L.
struct MapTable {
  const float* values = nullptr;
  int entries = 0;
};

LPMM_HD float decode_code(Format f, MapTable table, std::uint32_t code, float step) {
  if (f.map == Map::kLinear) return static_cast<float>(sign_extend(code, f.bits)) * step;
  if (f.map == Map::kSoftsign) {
    int i = sign_extend(code, f.bits) + code_limit(f.bits);
    if (i < 0) i = 0;  // the pattern -L-1 is never written; a hostile file may hold it
    return table.values[i] * step;
  }
  return table.values[code] * step;
}

// `step` > 0 and |x| <= map_limit * step. `threshold` is used by stochastic rounding only.
LPMM_HD std::uint32_t encode_value(Format f, MapTable table, Rounding rounding, float x, float step,
                                   float threshold) {
  const float y = x / step;
  if (f.map == Map::kLinear) {
    const float low = floorf(y);
    const float rest = y - low;
    auto code = static_cast<std::int32_t>(low);
    if (rounding == Rounding::kStochastic) {
      code += rest >= threshold ? 1 : 0;
    } else {
      code += rest > 0.5F || (rest == 0.5F && (code & 1) != 0) ? 1 : 0;
    }
    return static_cast<std::uint32_t>(code) & ((1U << f.bits) - 1U);
  }
  const float* t = table.values;
  int low = 0;  // the last entry <= y, or 0
  for (int width = table.entries; width > 1;) {
    const int half = width / 2;
    if (t[low + half] <= y) low += half;
    width -= half;
  }
  int index = low;
  if (low + 1 < table.entries) {
    const float gap = t[low + 1] - t[low];
    const float rest = y - t[low];
    // Entries of the dynamic maps need more than 16 bits: entry * step / step may miss the entry by an ulp.
    const bool is_low = t[low] * step == x;
    const bool is_high = t[low + 1] * step == x;
    const bool up =
        rounding == Rounding::kStochastic ? rest >= threshold * gap : y > 0.5F * (t[low] + t[low + 1]);
    index += is_high || (up && !is_low) ? 1 : 0;
  }
  if (f.map == Map::kSoftsign) {
    return static_cast<std::uint32_t>(index - code_limit(f.bits)) & ((1U << f.bits) - 1U);
  }
  return static_cast<std::uint32_t>(index);
}

}  // namespace lpmm
