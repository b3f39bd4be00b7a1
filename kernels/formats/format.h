// Formats: how one number is coded. A format is a map (code -> value relative to the block's step) and a
// width; kMaps is the one table of them. Whatever lists formats reads it: the spec parser, `lpmm info`,
// errors, policy checks, the codecs' loops. A new format whose values are a table is a row here and its
// values in kernels/formats/maps.cpp.
//
// A block of consecutive elements shares one step, a bf16 number rounded up: the value of one code unit for
// `int`, of map entry 1.0 for the others. A step of 0 marks an all-zero block, whatever its codes are. The
// step of a `log0` block has 3 bits of mantissa, and its other 5 bits say the block's range. States may have
// steps of fp32, or of whole rows and columns, instead: those of other libraries.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "kernels/macros.h"
#include "kernels/roles.h"

namespace lpmm {

enum class Map : std::uint8_t {
  kLinear,
  kDynamic,
  kDynamicUnsigned,
  kDynamicNoZero,
  kLinearNoZero,
  kSquareRoot,
  kSquareRootWithZero,
  kLog,
  kSoftsign,
  kNormalFloat,
  kE4m3,
  kUlp,
  kBf16,
  kFp32,  // the last one
};

// The arithmetic of a map, kernels/formats/element.h. Codes are two's complement integers -L..L with L =
// 2^(b-1)-1 for `int` and softsign, and the place in an ascending table for the others.
enum class Coding : std::uint8_t {
  kNumber,        // bf16, fp32 and ulp8: no blocks, no steps
  kLinear,        // code
  kSoftsign,      // z / (2-|z|), z = code / L
  kLinearNoZero,  // (code+1) / 2^b
  kSquareRoot,    // ((code+1) / 2^b)^2
  kSquares,       // (code / (2^b-1))^2
  kDynamic,       // a table of at most 8 zones, on both sides of 0 alike
  kZones,         // any table of at most 16 zones on each side of 0
  kLog,           // 2^(-R (1 - code / (2^b-1))), the range R of octaves by block
};

struct MapRow {
  Map map;
  std::string_view name;
  bool names_width;  // whether a format's name is this and its width
  Coding coding;
  std::uint64_t widths;  // bit b is set where there is a format of b bits
  bool is_signed, has_zero;
  std::string_view values;  // in units of the block's step
  std::string_view use;     // why it is here, or what it is for
  std::string_view paper;
};

namespace maps {

constexpr std::uint64_t widths(std::initializer_list<int> bits) {
  std::uint64_t mask = 0;
  for (const int b : bits) mask |= std::uint64_t{1} << b;
  return mask;
}
constexpr std::uint64_t widths_from(int first, int last) {
  std::uint64_t mask = 0;
  for (int b = first; b <= last; ++b) mask |= std::uint64_t{1} << b;
  return mask;
}

}  // namespace maps

// clang-format off
inline constexpr MapRow kMaps[] = {
    {Map::kLinear, "int", true, Coding::kLinear, maps::widths_from(2, 16), true, true,
     "code, -L..L with L = 2^(b-1)-1",
     "parameters and accumulators: an unchanged value keeps its code", "LPMM (Li et al. 2022)"},
    {Map::kDynamic, "de", true, Coding::kDynamic, maps::widths({4, 5, 6, 8}), true, true,
     "dynamic exponent: decades, each cut evenly",
     "momentum as 8-bit optimizers store it", "arXiv 2110.02861"},
    {Map::kDynamicUnsigned, "ude", true, Coding::kDynamic, maps::widths({4, 5, 6, 8}), false, true,
     "dynamic exponent without sign",
     "variance as 8-bit optimizers store it", "arXiv 2110.02861"},
    {Map::kDynamicNoZero, "de0", true, Coding::kDynamic, maps::widths({4, 5, 6, 8}), false, false,
     "ude without 0; the freed code is half the smallest",
     "variance that is never rounded to 0", "arXiv 2309.01507"},
    {Map::kLinearNoZero, "lin0", true, Coding::kLinearNoZero, maps::widths({2, 3, 4, 5, 6, 8}), false, false,
     "(code+1) / 2^b",
     "variance of the 4-bit optimizers", "arXiv 2309.01507"},
    {Map::kSquareRoot, "sqrt0", true, Coding::kSquareRoot, maps::widths({2, 3, 4, 5, 6, 8}), false, false,
     "((code+1) / 2^b)^2",
     "variance: evenly spaced in its root, by which the rule divides", "arXiv 2309.01507"},
    {Map::kSquareRootWithZero, "sqrt", true, Coding::kSquares, maps::widths({4, 5, 6, 8}), false, true,
     "(code / (2^b-1))^2",
     "variance as FlashOptim stores it, with 0", "arXiv 2602.23349"},
    {Map::kLog, "log0", true, Coding::kLog, maps::widths({2, 3, 4, 5, 6, 8}), false, false,
     "2^(-R (1 - code / (2^b-1))), R octaves by block",
     "variance: evenly spaced in its logarithm, over the range of its block", "arXiv 2505.00347"},
    {Map::kSoftsign, "soft", true, Coding::kSoftsign, maps::widths({3, 4, 5, 6, 8}), true, true,
     "z / (2-|z|), z = code / L",
     "momentum and accumulators at few bits: fine near 0", "arXiv 2602.23349"},
    {Map::kNormalFloat, "nf", true, Coding::kZones, maps::widths({4}), true, true,
     "quantiles of a normal distribution over its largest, and 0",
     "weights and momentum at 4 bits: levels equally often used", "arXiv 2305.14314"},
    {Map::kE4m3, "e4m3", false, Coding::kZones, maps::widths({8}), true, true,
     "8-bit floats: 4 bits of exponent, 3 of mantissa, up to 448, over 448",
     "accumulators and momentum over many magnitudes, as fp8 trains", "arXiv 2209.05433"},
    {Map::kUlp, "ulp", true, Coding::kNumber, maps::widths({8}), true, true,
     "code / 127 of what rounding the bf16 parameter can take",
     "compensation of bf16 parameters, 24 bits in all", "arXiv 2602.23349"},
    {Map::kBf16, "bf", true, Coding::kNumber, maps::widths({16}), true, true,
     "the number itself", "no blocks: half of fp32", ""},
    {Map::kFp32, "fp", true, Coding::kNumber, maps::widths({32}), true, true,
     "the number itself", "exact: what everything is compared with", ""},
};
// clang-format on

inline constexpr int kMapCount = static_cast<int>(Map::kFp32) + 1;
inline constexpr int kMostBits = 32;

namespace maps {

static_assert(sizeof kMaps / sizeof kMaps[0] == kMapCount && kMapCount <= 16, "a row for every map");
static_assert(
    [] {
      for (int i = 0; i < kMapCount; ++i) {
        if (kMaps[i].map != static_cast<Map>(i)) return false;
      }
      return true;
    }(),
    "the rows in the order of the enumerators");

// Columns of the table as words: device code may use a constant's value, not its address.
template <class Column>
constexpr std::uint64_t column(int bits, Column of) {
  std::uint64_t word = 0;
  for (int i = 0; i < kMapCount; ++i) word |= static_cast<std::uint64_t>(of(kMaps[i])) << (bits * i);
  return word;
}
inline constexpr std::uint64_t kCodings = column(4, [](const MapRow& r) { return r.coding; });
inline constexpr std::uint64_t kSigned = column(1, [](const MapRow& r) { return r.is_signed; });
inline constexpr std::uint64_t kZeros = column(1, [](const MapRow& r) { return r.has_zero; });

}  // namespace maps

constexpr const MapRow& row_of(Map m) {
  return kMaps[static_cast<int>(m)];
}
LPMM_HD constexpr Coding coding_of(Map m) {
  return static_cast<Coding>(maps::kCodings >> (4 * static_cast<int>(m)) & 15U);
}
LPMM_HD constexpr bool is_signed(Map m) {
  return (maps::kSigned >> static_cast<int>(m) & 1U) != 0;
}
LPMM_HD constexpr bool is_zero_free(Map m) {
  return (maps::kZeros >> static_cast<int>(m) & 1U) == 0;
}
// True if a format of this coding and width exists, or (below) one of this coding and more bits.
constexpr bool has_width(Coding coding, int bits) {
  for (const MapRow& row : kMaps) {
    if (row.coding == coding && (row.widths >> bits & 1U) != 0) return true;
  }
  return false;
}
// True if some format of this coding has no zero.
constexpr bool has_zero_free(Coding coding) {
  for (const MapRow& row : kMaps) {
    if (row.coding == coding && !row.has_zero) return true;
  }
  return false;
}
constexpr bool has_width_above(Coding coding, int bits) {
  for (const MapRow& row : kMaps) {
    if (row.coding == coding && row.widths >> (bits + 1) != 0) return true;
  }
  return false;
}

// True if a block's step also says its range.
LPMM_HD constexpr bool has_range(Coding c) {
  return c == Coding::kLog;
}
LPMM_HD constexpr bool has_range(Map m) {
  return has_range(coding_of(m));
}

LPMM_HD constexpr bool has_signed_codes(Coding c) {
  return c == Coding::kLinear || c == Coding::kSoftsign;
}
LPMM_HD constexpr bool has_signed_codes(Map m) {
  return has_signed_codes(coding_of(m));
}

// rn, sr, qr, ur, ar: to nearest; stochastic, with independent draws; quasi-stochastic, with draws that make
// up for one another from write to write (quasi_noise in kernels/noise.h); stochastic in a coordinate of the
// variance, zero-free formats only (goes_up in kernels/formats/element.h): in that where it acts, which keeps
// the mean of 1 / sqrt(v) in each write, or in its fourth root, which keeps it in an average of many writes.
enum class Rounding : std::uint8_t { kNearest, kStochastic, kQuasiStochastic, kUpdate, kAverage };
LPMM_HD constexpr bool is_of_variance(Rounding rounding) {
  return rounding == Rounding::kUpdate || rounding == Rounding::kAverage;
}
// Maps with a zero cannot be rounded by `ur` and `ar`.
LPMM_HD constexpr bool can_round(Map map, Rounding rounding) {
  return is_zero_free(map) || !is_of_variance(rounding);
}
LPMM_HD constexpr bool takes_draws(Rounding rounding) {
  return rounding != Rounding::kNearest;
}
// The rounding that a loop over elements is compiled for: the others differ by whether there are draws, and
// by which.
LPMM_HD constexpr Rounding law_of(Rounding rounding) {
  return is_of_variance(rounding) ? rounding : Rounding::kStochastic;
}

// When a block's step may change on a write. Moving: chosen afresh each time. Sticky: kept until the block
// overflows it or falls far below its range (kernels/formats/codec.h), so that an untouched code stays
// exactly on its grid. Floored: moving, but as if a block had a value of 1e-12 at least, as in torchao.
enum class StepMode : std::uint8_t { kMoving, kSticky, kFloored };

// The elements that share a step. Blocks; the rows of a matrix; or its rows and its columns, where an element
// takes the smaller step of the two (rank-1 normalization, arXiv 2309.01507). A tensor of more dimensions is
// a matrix of its first one and the rest.
enum class Scaling : std::uint8_t { kBlocks, kRows, kRank1 };

struct Format {
  Map map = Map::kFp32;
  std::uint8_t bits = 32;
  friend bool operator==(const Format&, const Format&) = default;
};

// The facts about a stored role that an element loop needs. `block` is 0 where there are no blocks; for
// scaling by rows, it is the columns of the tensor's matrix, and 0 while that is not known.
struct Codec {
  Format format;
  std::int32_t block = 0;
  Rounding rounding = Rounding::kNearest;
  StepMode step_mode = StepMode::kMoving;
  Scaling scaling = Scaling::kBlocks;
  std::uint8_t step_bits = 16;  // bf16, or 32: fp32
  friend bool operator==(const Codec&, const Codec&) = default;
};

LPMM_HD constexpr bool is_packed(Format f) {
  return coding_of(f.map) != Coding::kNumber;
}
constexpr bool format_exists(Format f) {
  return f.bits <= kMostBits && (row_of(f.map).widths >> f.bits & 1U) != 0;
}

// L: the largest code of a signed linear or softsign format.
LPMM_HD std::int32_t code_limit(int bits) {
  return (1 << (bits - 1)) - 1;
}

// The map's largest value in units of the step: L for `int`, 1 for every table.
LPMM_HD float map_limit(Format f) {
  return coding_of(f.map) == Coding::kLinear ? static_cast<float>(code_limit(f.bits)) : 1.0F;
}

// Packing. Codes lie in groups of 128 elements as planes of 8, 4, 2 and 1 bits, low bits of the code first
// (16 = 8+8, 12 = 8+4, 7 = 4+2+1): 16*bits bytes per group, and no code straddles a word. A plane of w bits
// is 16*w bytes; element e of the group has its w bits in byte e % (16*w), at bit w * (e / (16*w)).
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
  if (!is_packed(f)) return f.bits / 8 * elements;
  return 16 * static_cast<std::int64_t>(f.bits) * groups_of(elements);
}
// The steps of a tensor. Under rank 1 those of its columns come first.
LPMM_HD std::int64_t first_block_step(const Codec& c) {
  return c.scaling == Scaling::kRank1 ? c.block : 0;
}
LPMM_HD std::int64_t steps_of(const Codec& c, std::int64_t elements) {
  return elements == 0 ? 0 : first_block_step(c) + blocks_of(elements, c.block);
}
LPMM_HD std::int64_t step_bytes(const Codec& c, std::int64_t elements) {
  return c.step_bits / 8 * steps_of(c, elements);
}

// True if the steps of a part of a tensor are found without the rest of it.
LPMM_HD constexpr bool has_blocks(const Codec& c) {
  return c.scaling == Scaling::kBlocks;
}
// True if values are divided by their step before they are coded, with a step of 1: where the step is not one
// bf16 number for a block. Codes then depend on the quotient alone, as in the libraries that have such steps.
LPMM_HD constexpr bool divides_first(const Codec& c) {
  return !has_blocks(c) || c.step_bits != 16;
}
// Elements that must lie in one piece of a tensor, besides packing groups.
LPMM_HD constexpr std::int32_t piece_of_blocks(const Codec& c) {
  return has_blocks(c) ? c.block : 0;
}

}  // namespace lpmm
