// The tables of the table maps, and the formats as a list.
#pragma once

#include <string>
#include <vector>

#include "kernels/codec.h"

namespace lpmm {

// Ascending values of a table map, and its zones; built once, valid for the program's life. Empty for int,
// bf16 and fp32. Dynamic-exponent maps: the formulas of arXiv 2110.02861. Softsign: k / (2L - |k|), k =
// -L..L.
MapTable map_table(Format format);

// Every format there is, in the order of kMaps.
const std::vector<Format>& all_formats();
std::string to_string(Format format);

// False where a block whose largest element is stored as the second largest value would drop its sticky step
// when it is written again (kStickySlack): soft3 and sqrt02. (int2 would too, but has no second value.)
bool has_sticky_steps(Format format);

// Whether a map's codes are decoded by a table; int's are the values themselves.
constexpr bool has_table(Map m) {
  return coding_of(m) != Coding::kNumber && coding_of(m) != Coding::kLinear;
}

// The place of a format's table below kTables; -1 where it has none.
namespace maps {
struct Places {
  std::int8_t of[kMapCount][kMostBits + 1];
  int count;
};
inline constexpr Places kPlaces = [] {
  Places p{};
  for (const MapRow& row : kMaps) {
    for (int bits = 0; bits <= kMostBits; ++bits) {
      const bool here = has_table(row.map) && (row.widths >> bits & 1U) != 0;
      p.of[static_cast<int>(row.map)][bits] = static_cast<std::int8_t>(here ? p.count++ : -1);
    }
  }
  return p;
}();
}  // namespace maps
inline constexpr int kTables = maps::kPlaces.count;
constexpr int table_number(Format f) {
  return format_exists(f) ? maps::kPlaces.of[static_cast<int>(f.map)][f.bits] : -1;
}

}  // namespace lpmm
