// Plots and tables of runs, from their logs.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "kernels/format.h"
#include "lpmm/log.h"

namespace lpmm {

struct PlotPoint {
  double step = 0, value = 0;
};
using Curve = std::vector<PlotPoint>;

// What plots and tables show of one run.
struct PlotRun {
  std::string label;
  Curve loss, accuracy;                 // training loss; test accuracy in percent
  std::array<Curve, kRoles> underflow;  // percent of the increments that changed no code
  std::string summary;                  // the last record, JSON; empty where the run did not end
};

// Reads a run's folder or its log.jsonl. Throws RunError for a log that is none.
PlotRun read_run(const std::string& path, const std::string& label);

// Writes PREFIX.png and PREFIX.svg with gnuplot: loss, accuracy and underflow shares by role over steps, one
// colour a run. Throws RunError where gnuplot is missing or fails.
void draw_plot(std::span<const PlotRun> runs, const std::string& prefix);

// One Markdown table, a column a run: bits per parameter, model memory by role, loss, accuracy, underflow
// shares, planned and measured peak memory. Throws RunError for a run that did not end.
std::string results_table(std::span<const PlotRun> runs);

}  // namespace lpmm
