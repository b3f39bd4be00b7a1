// Keys of settings and states that the optimizer of a configuration does not have.
#pragma once

#include <string>
#include <vector>

#include "lpmm/files/toml_table.h"
#include "lpmm/memory/optimizer_config.h"

namespace lpmm {

// Which optimizers a key may be meant for: that of the run and, where the key is the file's, the file's own,
// which the command line may have changed.
struct MeantOptimizers {
  OptimizerConfig of_run, of_file;
  std::string file;
  bool file_is_ours = false;  // a run wrote it, as its seal says
};

// A key of a setting or a state that its optimizer does not have.
struct ForeignKey {
  TomlTable table;
  std::string key, why;
  bool of_run = false;  // an earlier program wrote it, with those of all rules
};

// All of them, each with why it is one.
std::vector<ForeignKey> foreign_keys(const TomlTable& file, const MeantOptimizers& meant);

}  // namespace lpmm
