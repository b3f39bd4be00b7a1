// A part of an experiment: one TOML file with a grid, its charts and what is expected of it
// (experiments/sweep/grid_experiment.h has the keys).
#pragma once

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "experiments/sweep/grid.h"

namespace lpmm {

using Fields = std::map<std::string, std::string>;

// A number of some rows.
struct Selection {
  std::string y;
  Fields only;
  std::string best;
};
struct ChartRequest {
  Selection rows;
  std::string title, x, log, heat;
  std::vector<std::string> lines, panels;
  std::vector<double> limits;
  bool front = false;
};
struct Expectation {
  Selection rows;
  std::string what;
  double low = -INFINITY, high = INFINITY;
};
struct GridPart {
  std::string name;
  SweepGrid grid;
  std::vector<ChartRequest> charts;
  std::vector<Expectation> expected;
};

// Throws UsageError.
GridPart load_part(const std::filesystem::path& path, bool quick);

}  // namespace lpmm
