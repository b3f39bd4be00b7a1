// A sweep: every cell of a grid of configs x presets x further axes x seeds is one `lpmm train` in a process
// and a folder of its own. Cells that are finished are never run again.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/sweep/cells.h"
#include "experiments/sweep/runner.h"
#include "lpmm/run/log.h"

namespace lpmm {

struct SweepResult {
  Json answer;              // {"groups": [...], "cells": [...]}, also in OUT/sweep.json and OUT/sweep.csv
  std::int64_t failed = 0;  // cells
  bool interrupted = false;
};
// Runs what is not finished. Throws UsageError for a folder that holds another run.
SweepResult run_sweep(const SweepGrid& grid, const SweepOptions& options);
SweepResult run_sweep(const std::vector<SweepCell>& cells, const SweepOptions& options);

// The groups as aligned lines.
std::string sweep_table(const Json& answer);

}  // namespace lpmm
