// Plots and tables of runs, from their logs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/format.h"
#include "lpmm/run/log.h"

namespace lpmm {

struct PlotPoint {
  double step = 0, value = 0;
};
using Curve = std::vector<PlotPoint>;

// What plots and tables show of one run.
struct PlotRun {
  std::string label;
  Curve loss, test_loss, accuracy;      // training and test loss in nats; test accuracy in percent
  std::array<Curve, kRoles> underflow;  // percent of the increments that changed no code
  std::string summary;                  // the last record, JSON; empty where the run did not end
};

struct NamedRun {
  std::string path;   // its folder or its log.jsonl
  std::string label;  // empty: its folder's name
};
std::string log_path(const std::string& run);
// From the records of its log.
PlotRun plot_run(const NamedRun& run, std::span<const Json> records);

// One diagram of a picture: a curve a run, some of them empty.
struct Panel {
  std::string title, axis;
  std::vector<Curve> curves;
  bool share = false;  // percent, 0 to 100
};
// Losses, accuracy and underflow shares by role; those that some run has. Long curves are thinned.
std::vector<Panel> panels_of(std::span<const PlotRun> runs);

// Okabe and Ito's colours, told apart with any colour vision.
inline constexpr const char* kRunColours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                              "#E69F00", "#56B4E9", "#000000", "#8C8C00"};

// The parts of model memory, as summaries name them.
inline constexpr const char* kMemoryParts[] = {"parameter", "accumulator", "momentum",
                                               "variance",  "exempt",      "buffers"};

// What a summary says of a run, as tables show it. Rows that no run has are left out.
struct Figure {
  std::string title;
  std::string path;  // JSON pointer into the summary
  std::string (*text)(double value);
  bool of_memory = false;  // a part of model memory
};
std::vector<Figure> figures();
// The figure's value; also of derived ones, such as what the run added to the memory it started with.
std::optional<double> value_of(const Figure& figure, const Json& summary);

// The distance of at most six marks from 0 to `last`: 1, 2 or 5 times a power of ten.
double tic_distance(double last);

// The nearest whole number: 1234567 as "1,234,567".
std::string with_commas(double number);

// Writes PREFIX.png and PREFIX.svg with gnuplot: loss, accuracy and underflow shares by role over steps, one
// colour a run. Throws RunError where gnuplot is missing or fails.
void draw_plot(std::span<const PlotRun> runs, const std::string& prefix);

// One Markdown table, a column a run: bits per parameter, model memory by role, loss, accuracy, underflow
// shares, planned and measured peak memory. Throws RunError for a run that did not end.
std::string results_table(std::span<const PlotRun> runs);

}  // namespace lpmm
