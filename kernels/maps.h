// The tables of the table maps.
#pragma once

#include "kernels/codec.h"

namespace lpmm {

// Ascending values of a table map, built once; empty for int, bf16 and fp32. Valid for the program's life.
// Dynamic-exponent maps: the formulas of arXiv 2110.02861. Softsign: k / (2L - |k|), k = -L..L.
MapTable map_table(Format format);

// True where the format exists: int2..16, and the tables at 4 and 8 bits, bf16 at 16, fp32 at 32.
bool format_exists(Format format);

}  // namespace lpmm
