// The charts of a part, drawn from its rows.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiments/plots/chart.h"
#include "experiments/sweep/grid_rows.h"

namespace lpmm {

// One chart per panel.
std::vector<Chart> charts_of(std::span<const GridRow> rows, const ChartRequest& request,
                             const std::string& baseline);

}  // namespace lpmm
