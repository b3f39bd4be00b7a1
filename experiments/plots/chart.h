// Charts of numbers: what is drawn. gnuplot draws them for files (draw_picture), and experiments/plots/svg.h
// for pages of HTML.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lpmm {

// Okabe and Ito's colours, told apart with any colour vision.
inline constexpr const char* kRunColours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                              "#E69F00", "#56B4E9", "#000000", "#8C8C00"};

struct ChartSeries {
  std::string title;  // empty: not in the key
  std::string style;  // gnuplot's, after `with`
  std::vector<std::pair<double, double>> points;
  // One for each point, or none: the ends of its bar, or of the band between them (filledcurves).
  std::vector<std::pair<double, double>> bounds = {};
  // One for each point, or none: the number in the unit square around it and the square's colour, 0xRRGGBB.
  // `style` is then that of the squares: "boxxyerror lc rgb variable".
  std::vector<std::pair<double, std::uint32_t>> heat = {};
  bool has_heat_labels = true;  // the numbers are written into the squares
};
struct Chart {
  std::string title, x_label, y_label;
  std::string scales;  // gnuplot commands
  std::vector<ChartSeries> series;
  bool percent = false;  // y goes from 0 to 100
};

struct Picture {
  std::vector<Chart> charts;
  std::vector<std::size_t> rows = {};  // the number of charts in each row; empty: up to three
  // The meaning of the colours of kRunColours in all charts, shown in a strip at the top; if empty, each
  // chart has a key of its own.
  std::vector<std::string> key = {};
};

// The commands that draw it, with its data: `gnuplot NAME.gp` leaves NAME.png, `gnuplot -c NAME.gp svg`
// NAME.svg, and `gnuplot -c NAME.gp TYPE FILE` another file.
std::string picture_script(const Picture& picture, const std::string& name);

// Leaves PREFIX.gp, which holds its data, PREFIX.png drawn from it with a palette of 256 colours, and with
// `svg` PREFIX.svg. Pictures are replaced as a whole. Throws RunError where gnuplot is missing or fails, or a
// disk is full.
void draw_picture(const Picture& picture, const std::string& prefix, bool svg);

// gnuplot runs what a script says, programs too. Throws RunError naming the line of `path` where one has
// another form than those of picture_script.
void check_script(const std::string& script, const std::string& path);

// The same pictures of a script that picture_script made.
void draw_script(const std::string& script, const std::string& prefix, bool svg);

// A gnuplot string. Whatever its parser could take for more than text is written as an octal code, which only
// double quotes know; a quote in single quotes would end some.
std::string quoted(const std::string& text);

// The distance of at most six marks from 0 to `last`: 1, 2 or 5 times a power of ten.
double tic_distance(double last);

}  // namespace lpmm
