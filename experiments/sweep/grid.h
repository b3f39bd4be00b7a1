// The grid of a sweep: configs x presets x further axes x seeds, as a TOML file or a command line names it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lpmm/files/toml_table.h"

namespace lpmm {

struct SweepAxis {
  // A key as in --set. Keys that change together are joined by &, and so are the parts of each value:
  // "train.batch&train.microbatches" = ["32&1", "64&2"].
  std::string key;
  std::vector<std::string> values;
};
std::vector<std::string> keys_of(const SweepAxis& axis);
// "a=1" and "b=2" of the axis "a&b" and its value "1&2". Throws UsageError where their numbers differ.
std::vector<std::string> settings_of(const std::string& key, const std::string& value);

struct SweepGrid {
  std::vector<std::string> configs;   // TOML files, as seen from the current folder
  std::vector<std::string> presets;   // empty: the one in the config
  std::vector<std::uint64_t> seeds;   // empty: the one in the config
  std::vector<std::string> settings;  // for every cell
  std::vector<SweepAxis> axes;
  std::string baseline;  // the preset gaps are measured against; empty: none
};

// configs, presets, seeds, set, baseline and [axes] "a.b" = [values] of a table, which may hold more. Throws
// UsageError, as load_grid() does, which knows no other keys.
SweepGrid read_grid(const TomlTable& table);
SweepGrid load_grid(const std::string& path);

}  // namespace lpmm
