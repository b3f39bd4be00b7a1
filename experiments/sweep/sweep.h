// A sweep: every cell of a grid of configs x presets x further axes x seeds is one `lpmm train` in a process
// and a folder of its own. Cells that are finished are never run again.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lpmm/run/config.h"
#include "lpmm/run/log.h"

namespace lpmm {

struct SweepAxis {
  // As in --set. Keys that change together are joined by &, and so are the parts of each value:
  // "train.batch&train.microbatches" = ["32&1", "64&2"].
  std::string key;
  std::vector<std::string> values;
};
std::vector<std::string> keys_of(const SweepAxis& axis);

struct SweepGrid {
  std::vector<std::string> configs;   // TOML files, as seen from the current folder
  std::vector<std::string> presets;   // empty: the one in the config
  std::vector<std::uint64_t> seeds;   // empty: the one in the config
  std::vector<std::string> settings;  // for every cell
  std::vector<SweepAxis> axes;
  std::string baseline;  // the preset gaps are measured against; empty: none
};

// The summary of a run in a folder that ended as `config` says; none where it did not end. Throws UsageError
// where the folder holds another run.
std::optional<Json> finished_run(const std::string& folder, const RunConfig& config);

// configs, presets, seeds, set, baseline and [axes] "a.b" = [values]; keys in `others` are somebody else's.
// Throws UsageError.
SweepGrid load_grid(const std::string& path, std::span<const std::string_view> others = {});

// Cells with the same group differ in their seed only.
struct SweepCell {
  std::string name;             // of its folder
  std::string group, baseline;  // name without the seed; group of the baseline cells, or empty
  std::string config_path;
  ConfigOptions options;  // seed included
  RunConfig config;       // with what its data decides
  std::int64_t steps = 0;
};

// All cells, seed by seed. The baseline preset is not crossed with axes of [memory]. Throws UsageError where
// a config is wrong or two cells would have one name.
std::vector<SweepCell> sweep_cells(const SweepGrid& grid);

struct SweepOptions {
  std::string out;
  int jobs = 1;
  int threads = 0;  // of a job; 0: processors / jobs
};

struct SweepResult {
  Json answer;              // {"groups": [...], "cells": [...]}, also in OUT/sweep.json and OUT/sweep.csv
  std::int64_t failed = 0;  // cells
  bool interrupted = false;
};
// Runs what is not finished. Throws UsageError for a folder that holds another run.
SweepResult run_sweep(const SweepGrid& grid, const SweepOptions& options);

// The groups as aligned lines.
std::string sweep_table(const Json& answer);

}  // namespace lpmm
