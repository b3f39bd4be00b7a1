// The results of a run, as tables show them.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/plots/plot.h"

namespace lpmm {

// A number of a run's summary, as tables show it.
struct Figure {
  std::string title;
  std::string path;  // JSON pointer into the summary
  std::function<std::string(double value)> text;
  bool of_memory = false;  // a part of model memory
  bool of_bytes = false;
};
std::vector<Figure> figures(std::span<const Json> summaries);
// The figure's value; also of derived ones, such as what the run added to the memory it started with.
std::optional<double> value_of(const Figure& figure, const Json& summary);

// The nearest whole number: 1234567 as "1,234,567".
std::string with_commas(double number);

// One Markdown table, a column a run: bits per parameter, model memory by role, loss, accuracy, underflow
// shares, planned and measured peak memory. Throws RunError for a run that did not end.
std::string results_table(std::span<const PlotRun> runs);

}  // namespace lpmm
