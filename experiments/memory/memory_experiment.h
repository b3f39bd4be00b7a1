// Experiments with a name (`lpmm experiment NAME`): each leaves tables (CSV) and charts in one folder, and
// experiments/NAME/README.md says what is expected and what was found.
#pragma once

#include <string>
#include <vector>

#include "lpmm/memory/policy.h"

namespace lpmm {

struct MemoryExperiment {
  std::string out;
  std::string configs = "experiments/configs";  // folder of the shipped ones
  std::vector<std::string> presets{preset_names().begin(), preset_names().end()};
  std::string models = "*";                          // pattern of the names of those that are planned
  std::vector<int> gigabytes = {6, 11, 16, 24, 80};  // to find the largest models for
  bool quick = false;                                // trains the small ones only, and 6 GB
  bool svg = false;                                  // draws its charts as SVG too
  int threads = 0;                                   // threads of a training; 0: all processors
};

// Plans every model with every preset, trains what fits into this machine and compares, and finds the largest
// GPT and ResNet that train within a number of bytes. Leaves OUT/memory.csv, largest.csv and memory.png.
// Returns the exit code: 0, or 130 where the user stopped it. Throws UsageError, RunError.
int run_memory_experiment(const MemoryExperiment& options);

}  // namespace lpmm
