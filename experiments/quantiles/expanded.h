// E4M3 with COAT's dynamic range expansion (arXiv 2410.19313): the values of a block are raised to a power
// that spreads them over all that E4M3 holds, and stored as its codes. A study: packed memory has no such
// format, as a map of levels with a range per block, log0, errs less in as many bits
// (experiments/results/optimizers/update_error.md).
#pragma once

#include <span>
#include <vector>

namespace lpmm {

// k of a block whose magnitudes are from `smallest`, above 0, to `largest`, in sixteenths; 1 where they are
// equal.
double expansion_power(double smallest, double largest);

// Returns values as they read back from this format, rounded to nearest: sign(x) M (Q(448 (|x| / M)^k) /
// 448)^(1/k), where M is the block's largest magnitude and k its power. COAT also divides by the geometric
// mean of largest and smallest before, and multiplies by it after, which cancels.
std::vector<float> stored_expanded(std::span<const float> values, int block);

}  // namespace lpmm
