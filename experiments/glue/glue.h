// `lpmm experiment glue`: tasks of sentences that an imported model is fine-tuned for, each a grid of presets
// and seeds (experiments/sweep/grid_experiment.h), and one table of all of them.
#pragma once

#include <string>

#include "experiments/sweep/grid_experiment.h"

namespace lpmm {

struct GlueExperiment {
  GridExperiment grid;  // its parts are the tasks
  std::string init;     // the checkpoint that every training starts from
  // Results of experiments/zoo/glue.py, a JSON object a line: task, seed, scores, sentences_per_second. If
  // empty, OUT/pytorch.jsonl is read if it exists.
  std::string pytorch = {};
};

// Leaves what run_grid_experiment does, and of all tasks of the folder that have ended OUT/glue.md, which it
// prints, OUT/glue.csv and OUT/glue.png. Returns the exit code. Throws UsageError, RunError.
int run_glue_experiment(const GlueExperiment& experiment);

}  // namespace lpmm
