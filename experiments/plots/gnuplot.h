// Pictures by gnuplot.
#pragma once

#include <string>

namespace lpmm {

// Runs a script that leaves NAME.png and NAME.svg in its folder, and writes them as PREFIX.png and
// PREFIX.svg, each as a whole or not at all. Throws RunError where gnuplot is missing or fails, or a disk is
// full.
void draw_with_gnuplot(const std::string& script, const std::string& name, const std::string& prefix);

}  // namespace lpmm
