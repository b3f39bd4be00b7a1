// The tables of the table maps, and the formats as a list.
#pragma once

#include <string>
#include <vector>

#include "kernels/formats/codec.h"

namespace lpmm {

// Ascending values of a table map, and its zones; built once, valid for the program's life. Empty for int,
// ulp8, bf16 and fp32. For log0, the tables of all ranges (scale_of in kernels/formats/codec.h).
// Dynamic-exponent maps: the formulas of arXiv 2110.02861. Softsign: k / (2L - |k|), k = -L..L.
MapTable map_table(Format format);

// The table of a block with this range; of a format without ranges the only one.
inline MapTable map_table(Format format, std::uint32_t range) {
  return scale_of(format, map_table(format), range_bits(range)).table;
}

// Every format there is, in the order of kMaps.
const std::vector<Format>& all_formats();
std::string to_string(Format format);

// False where a block whose largest element is stored as the second largest value would drop its sticky step
// when it is written again (kStickySlack): soft3 and sqrt02. (int2 would too, but has no second value.)
bool has_sticky_steps(Format format);

// The numbers behind MapTable::values.
constexpr int table_values(Format f) {
  return has_range(f.map) ? kRanges * ((1 << f.bits) + 2) : 1 << f.bits;
}

// True if a map's codes are decoded by a table; int's are the values themselves.
constexpr bool has_table(Map m) {
  return coding_of(m) != Coding::kNumber && coding_of(m) != Coding::kLinear;
}

// The place of a format's table below kTables, and of its values below kTableValues; -1 where it has none.
namespace maps {
struct Places {
  std::int8_t of[kMapCount][kMostBits + 1];
  int first_value[kMapCount][kMostBits + 1];
  int count, values;
};
inline constexpr Places kPlaces = [] {
  Places p{};
  for (const MapRow& row : kMaps) {
    for (int bits = 0; bits <= kMostBits; ++bits) {
      const bool here = has_table(row.map) && (row.widths >> bits & 1U) != 0;
      p.of[static_cast<int>(row.map)][bits] = static_cast<std::int8_t>(here ? p.count++ : -1);
      p.first_value[static_cast<int>(row.map)][bits] = here ? p.values : -1;
      if (here) p.values += table_values({row.map, static_cast<std::uint8_t>(bits)});
    }
  }
  return p;
}();
}  // namespace maps
inline constexpr int kTables = maps::kPlaces.count, kTableValues = maps::kPlaces.values;
constexpr int table_number(Format f) {
  return format_exists(f) ? maps::kPlaces.of[static_cast<int>(f.map)][f.bits] : -1;
}
constexpr int first_value(Format f) {
  return maps::kPlaces.first_value[static_cast<int>(f.map)][f.bits];
}

}  // namespace lpmm
