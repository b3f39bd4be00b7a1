// One page of HTML about runs that holds everything it shows: no other file, no network.
#pragma once

#include <span>
#include <string>

#include "experiments/plots/plot.h"

namespace lpmm {

// Shows each run's results, curves (SVG) and model memory by role, and for every run its tensors, its
// resolved config and the command that repeats it. Runs that have not ended are shown as far as they came.
// `command` is the one that makes this page. Throws RunError for a log that is none.
std::string report_html(std::span<const NamedRun> runs, const std::string& command);
// Returns the beginning that all such pages share.
std::string report_begin();

}  // namespace lpmm
