// Charts of runs as SVG inside of a page of HTML.
#pragma once

#include <span>
#include <string>

#include "experiments/plots/chart.h"

namespace lpmm {

// The style of a run's lines, as attributes: after eight runs the colours begin again, with longer dashes
// each time.
std::string run_stroke(std::size_t run);
// A short line of that style.
std::string run_key(std::size_t run);

// A figure with a chart of charts_of_runs: series i is the run called labels[i], of the class run`i`. Each
// curve holds its steps and values (data-steps, data-values), for what shows them under the pointer.
std::string chart_figure(const Chart& chart, std::span<const std::string> labels);

}  // namespace lpmm
