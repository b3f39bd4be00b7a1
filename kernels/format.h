// Formats: how one number is coded. A format is a map (code -> value relative to the block's step) and a
// width.
//
//   name        sign      values T(code), in units of the block's step          zero
//   int2..16    signed    code, -L..L with L = 2^(b-1)-1 (two's complement)     code 0
//   de4, de8    signed    dynamic exponent (8-bit optimizers, arXiv 2110.02861) yes
//   ude4, ude8  unsigned  the same, unsigned                                    yes
//   de04, de08  unsigned  ude without 0; the freed code is half the smallest    none
//   lin02..08   unsigned  (code+1) / 2^b; 2, 3, 4 or 8 bits                     none
//   sqrt02..08  unsigned  ((code+1) / 2^b)^2; 2, 3, 4 or 8 bits                 none
//   soft3..8    signed    softsign companding z/(2-|z|), z = code/L; 3, 4, 8    code 0
//   bf16, fp32  signed    the number itself; no blocks, no steps                yes
//
// A block of consecutive elements shares one step, a bf16 number rounded up: the value of one code unit for
// `int`, of map entry 1.0 for the others. A step of 0 marks an all-zero block, whatever its codes are.
#pragma once

#include <cstdint>

#include "kernels/macros.h"
#include "kernels/roles.h"

namespace lpmm {

enum class Map : std::uint8_t {
  kLinear,           // int
  kDynamic,          // de
  kDynamicUnsigned,  // ude
  kDynamicNoZero,    // de0
  kLinearNoZero,     // lin0
  kSquareRoot,       // sqrt0
  kSoftsign,         // soft
  kBf16,
  kFp32,
};

// rn, sr, qr: to nearest; stochastic, with independent draws; quasi-stochastic, with draws that make up for
// one another from write to write (quasi_noise in kernels/noise.h).
enum class Rounding : std::uint8_t { kNearest, kStochastic, kQuasiStochastic };
LPMM_HD constexpr bool takes_draws(Rounding rounding) {
  return rounding != Rounding::kNearest;
}

// When a block's step may change on a write. Moving: chosen afresh each time. Sticky: kept until the block
// overflows it or falls far below its range (kernels/codec.h), so that an untouched code stays exactly on its
// grid.
enum class StepMode : std::uint8_t { kMoving, kSticky };

struct Format {
  Map map = Map::kFp32;
  std::uint8_t bits = 32;
  friend bool operator==(const Format&, const Format&) = default;
};

// What an element loop needs to know about a stored role. `block` is 0 for bf16 and fp32.
struct Codec {
  Format format;
  std::int32_t block = 0;
  Rounding rounding = Rounding::kNearest;
  StepMode step_mode = StepMode::kMoving;
  friend bool operator==(const Codec&, const Codec&) = default;
};

LPMM_HD constexpr bool is_packed(Format f) {
  return f.map != Map::kBf16 && f.map != Map::kFp32;
}
LPMM_HD constexpr bool is_signed(Map m) {
  return m == Map::kLinear || m == Map::kDynamic || m == Map::kSoftsign || m == Map::kBf16 || m == Map::kFp32;
}
LPMM_HD constexpr bool is_zero_free(Map m) {
  return m == Map::kDynamicNoZero || m == Map::kLinearNoZero || m == Map::kSquareRoot;
}
LPMM_HD constexpr bool is_dynamic(Map m) {
  return m == Map::kDynamic || m == Map::kDynamicUnsigned || m == Map::kDynamicNoZero;
}

// Codes that are two's complement integers; every other packed map uses the index into its ascending table.
LPMM_HD constexpr bool has_signed_codes(Map m) {
  return m == Map::kLinear || m == Map::kSoftsign;
}

// L: the largest code of a signed linear or softsign format.
LPMM_HD std::int32_t code_limit(int bits) {
  return (1 << (bits - 1)) - 1;
}

// The map's largest value in units of the step: L for `int`, 1 for every table.
LPMM_HD float map_limit(Format f) {
  return f.map == Map::kLinear ? static_cast<float>(code_limit(f.bits)) : 1.0F;
}

// Packing. Codes lie in groups of 128 elements as planes of 8, 4, 2 and 1 bits, low bits of the code first
// (16 = 8+8, 12 = 8+4, 7 = 4+2+1): 16*bits bytes a group, and no code straddles a word. A plane of w bits is
// 16*w bytes; element e of the group has its w bits in byte e % (16*w), at bit w * (e / (16*w)).
inline constexpr int kGroup = 128;

// Bits of the next plane where `left` bits of a code are still to be stored.
LPMM_HD constexpr int plane_width(int left) {
  return left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

LPMM_HD std::int64_t groups_of(std::int64_t elements) {
  return elements / kGroup + (elements % kGroup != 0 ? 1 : 0);
}
LPMM_HD std::int64_t blocks_of(std::int64_t elements, int block) {
  return block == 0 ? 0 : elements / block + (elements % block != 0 ? 1 : 0);
}
// Bytes of the codes of a tensor; a last partial group is stored whole.
LPMM_HD std::int64_t code_bytes(Format f, std::int64_t elements) {
  if (f.map == Map::kFp32) return 4 * elements;
  if (f.map == Map::kBf16) return 2 * elements;
  return 16 * static_cast<std::int64_t>(f.bits) * groups_of(elements);
}
LPMM_HD std::int64_t step_bytes(const Codec& c, std::int64_t elements) {
  return 2 * blocks_of(elements, c.block);
}

}  // namespace lpmm
