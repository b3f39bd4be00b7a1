// Charts of numbers, drawn by gnuplot from a script that holds its data.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lpmm {

struct ChartSeries {
  std::string title;  // empty: not in the key
  std::string style;  // gnuplot's, after `with`
  std::vector<std::pair<double, double>> points;
  // Of each point, or none: the ends of its bar, or of the band between them (filledcurves).
  std::vector<std::pair<double, double>> bounds = {};
  // Of each point, or none: the number in the unit square around it and the square's colour, 0xRRGGBB.
  // `style` is of the squares: "boxxyerror lc rgb variable".
  std::vector<std::pair<double, std::uint32_t>> heat = {};
};
struct Chart {
  std::string title, x_label, y_label;
  std::string scales;  // gnuplot commands
  std::vector<ChartSeries> series;
};

// Leaves OUT/NAME.gp, which holds its data, and NAME.png and NAME.svg drawn from it, up to three charts in a
// row. Throws RunError where gnuplot is missing or fails.
void draw_charts(const std::string& out, const std::string& name, const std::vector<Chart>& charts);

}  // namespace lpmm
