// Pictures by gnuplot.
#pragma once

#include <string>

namespace lpmm {

// Runs a script of picture_script and returns the bytes of a whole "png" or "svg". Throws RunError if gnuplot
// is missing or fails, or a disk is full.
std::string gnuplot_picture(const std::string& script, const std::string& type);

}  // namespace lpmm
