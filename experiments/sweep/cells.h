// The trainings that a grid asks for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/sweep/grid.h"
#include "lpmm/run/config.h"

namespace lpmm {

// Cells with the same group differ in their seed only.
struct SweepCell {
  std::string name;             // the name of its folder
  std::string group, baseline;  // name without the seed; group of the baseline cells, or empty
  std::string config_path;
  std::vector<std::string> settings;  // as the grid has them, seed included
  ConfigOptions options;              // only the settings that the cell's optimizer takes
  RunConfig config;                   // includes what its data decides
  std::int64_t steps = 0;             // 0 where it is finished
};

// Returns all cells, seed by seed. The baseline preset is not crossed with axes of [memory]. Settings may
// serve several rules: a cell leaves out those that its own rule does not take but another cell's does.
// Throws UsageError if a config is wrong or two cells would have one name. Cells that are finished in the
// folder `out` open no data: their runs say what it decided. With `only_finished`, a preset has the specs
// that it had when a run was made.
std::vector<SweepCell> sweep_cells(const SweepGrid& grid, const std::string& out = "",
                                   bool only_finished = false);

}  // namespace lpmm
