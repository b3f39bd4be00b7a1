// Curves of runs over steps, from their logs.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "experiments/plots/chart.h"
#include "kernels/roles.h"
#include "lpmm/run/log.h"

namespace lpmm {

using Curve = std::vector<std::pair<double, double>>;  // step, value

// The data of one run that plots and tables show.
struct PlotRun {
  std::string label;
  Curve loss, test_loss;                              // training and test loss in nats
  std::vector<std::pair<std::string, Curve>> scores;  // by name, as they are printed
  RoleArray<Curve> underflow;                         // percent of the increments that changed no code
  std::string summary;  // the last record, JSON; empty where the run did not end
};

struct NamedRun {
  std::string path;   // its folder or its log.jsonl
  std::string label;  // empty: its folder's name
};
std::string log_path(const std::string& run);
// Reads a run's curves from the records of its log.
PlotRun plot_run(const NamedRun& run, std::span<const Json> records);

// Losses, scores and underflow shares by role over steps: those that some run has. Each chart has a series
// for every run, some of them empty; long curves are thinned.
std::vector<Chart> charts_of_runs(std::span<const PlotRun> runs);

// Writes PREFIX.gp, PREFIX.png and with `svg` PREFIX.svg: the charts of up to eight runs, one colour per run.
// Throws RunError where gnuplot is missing or fails.
void draw_runs(std::span<const PlotRun> runs, const std::string& prefix, bool svg);

}  // namespace lpmm
