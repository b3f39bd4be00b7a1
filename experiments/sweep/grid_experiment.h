// Experiments that are sweeps: a folder of TOML files, each a grid (experiments/sweep/sweep.h) with what is
// drawn of it and what is expected. A new one needs no code.
//
//   [quick]                   what --quick trains instead: set (added), seeds (how many), configs, presets,
//   axes."a.b" (replaced)
//   [[chart]]                 one picture per file, drawn from all charts
//     title, x, y             a field or a value below; x = "step": y is a tag of the log, as in "train/loss"
//     lines = [fields]        one line for each combination of their values
//     panels = [fields]       one chart for each
//     only = {field = value}  rows that are drawn
//     best = axis             of rows that differ in it alone, the one with the best y
//     log = "x", "y" or "xy"; front = true: points, which of them no other beats in both x and
//                             y, and the baseline's best y
//     heat = field            y as colours over the fields x and heat
//     limits = [low, high]    of the y axis or the colours
//   [[expected]]              what, y, only, best, low, high: the band that every row's y should lie in.
//                             Met where the 95 % bounds of all of them do, not met where those of one lie
//                             outside, else not decided by these seeds
//
// Fields: preset, the axes, and of every run optimizer.learning_rate, train.batch, train.microbatches,
// memory.error_feedback, memory.ROLE and memory.ROLE.bits, .format, .block, .rounding, .steps. Values:
// bits_per_parameter, final_loss, test_loss, what the run is scored by (accuracy, f1, ...;
// lpmm/data/scores.h) and `score` for the first of these, in points, loss_gap, test_loss_gap and SCORE_gap to
// the baseline, more is worse, underflow.ROLE, relative_error.ROLE and update_to_step.ROLE (means over the
// run).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lpmm {

struct GridExperiment {
  std::string name;
  std::string folder;  // the folder of the TOML files
  std::string file;    // the only file, in place of a folder; empty: all of the folder
  std::string out;
  std::string parts = "*";                // pattern of the files' names, without .toml
  std::vector<std::string> settings;      // "a.b=c", for every cell
  std::vector<std::uint64_t> seeds = {};  // in place of the parts' own; empty: their own
  bool quick = false;
  bool only_draws = false;    // trains nothing, and throws if a run is not finished
  bool svg = false;           // draws its charts as SVG too
  int jobs = 1, threads = 0;  // as in SweepOptions
};

// Leaves OUT/PART.csv, a line for every group of cells that differ in their seed only, OUT/PART.png and
// .gp, and the cells in OUT/PART/. Finished cells are not run again. Returns the exit code: 0, 1 where a
// training failed, 130 where the user stopped it. Throws UsageError, RunError.
int run_grid_experiment(const GridExperiment& experiment);

}  // namespace lpmm
