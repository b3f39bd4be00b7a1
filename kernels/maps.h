// The tables of the table maps.
#pragma once

#include "kernels/codec.h"

namespace lpmm {

// Ascending values of a table map, built once; empty for int, bf16 and fp32. Valid for the program's life.
// Dynamic-exponent maps: the formulas of arXiv 2110.02861. Softsign: k / (2L - |k|), k = -L..L.
MapTable map_table(Format format);

// True where the format exists: int2..16, dynamic maps at 4 and 8 bits, softsign at 3, 4 and 8, lin0 and
// sqrt0 at 2, 3, 4 and 8, bf16 at 16, fp32 at 32.
bool format_exists(Format format);

// False where a block whose largest element is stored as the second largest value would drop its sticky step
// when it is written again (kStickySlack): soft3 and sqrt02. (int2 would too, but has no second value.)
bool has_sticky_steps(Format format);

// The place of a table map below kTableMaps; -1 for int, bf16, fp32 and what does not exist.
inline constexpr std::uint8_t kTableBits[] = {2, 3, 4, 8};
inline constexpr int kTableMaps = 4 * (static_cast<int>(Map::kBf16) - 1);
int table_number(Format format);

}  // namespace lpmm
