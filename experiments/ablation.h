// The measurements behind the presets (`lpmm ablate`), each a CSV file and a plot in one folder:
//   network    parameter bits x rounding x step mode: ResNet-8 on the drawn set, a sweep
//   quadratic  noise floors of SGD and SGDM, measured on packed runs and predicted by theory/floors.h
//   logistic   noise floors and lost updates of logistic regression: theory/logistic.h
//   steps      the constants of sticky steps, and the block: theory/step_study.h
#pragma once

#include <string>
#include <vector>

#include "experiments/commands.h"

namespace lpmm {

struct AblationOptions {
  std::string out;
  std::vector<std::string> parts = {"network", "quadratic", "logistic", "steps", "variance"};
  std::string grid =
      "experiments/ablation/network.toml";  // of the network part; its axis is memory.parameter
  int threads = 0;
  int jobs = 1;        // trainings at a time
  bool quick = false;  // a corner of each grid, to see that it works
};

// Returns the exit code: 0, 1 where a training failed, 130 where the user stopped it. What was finished of
// the network part is kept and not run again. Throws UsageError, RunError.
int run_ablation(const AblationOptions& options);

void add_ablate_command(CLI::App& program, Action& action);

}  // namespace lpmm
