// Adam's steps with a packed variance.
#include <fmt/format.h>

#include "experiments/ablation/part.h"
#include "experiments/plots/csv.h"
#include "lpmm/memory/spec.h"
#include "theory/variance_study.h"

namespace lpmm {
namespace {

constexpr const char* kSpecs[] = {
    "sqrt08:block128:sr:sticky", "sqrt04:block128:sr:sticky", "sqrt04:block128:ar:sticky",
    "sqrt04:block128:ur:sticky", "sqrt04:block64:sr:sticky",  "sqrt04:block128:sr",
    "sqrt03:block128:sr:sticky", "sqrt02:block128:sr",        "ude8:block256:rn"};
constexpr double kSpreads[] = {0.3, 0.6, 1.2};

struct VarianceCell {
  std::string spec;
  theory::VarianceStudy study;
  theory::VarianceStudyResult result = {};
};

std::vector<VarianceCell> variance_cells(bool quick) {
  std::vector<VarianceCell> cells;
  for (const double beta2 : {0.95, 0.99, 0.999}) {
    for (const char* spec : kSpecs) {
      for (const double spread : kSpreads) {
        if (quick && (beta2 > 0.95 || spread != 0.6)) continue;
        cells.push_back({spec, {.variance = parse_spec(spec), .beta2 = beta2, .spread = spread}});
      }
    }
  }
  return cells;
}

// A chart for each beta2, a line for each spec: cells of one lie beside each other.
void add_point(std::vector<Chart>& charts, const VarianceCell& c) {
  const std::string title = fmt::format("beta2 {}", c.study.beta2);
  if (charts.empty() || charts.back().title != title) {
    charts.push_back(
        {title, "deviation of ln s within a block", "steps, stored over exact variance", "", {}});
  }
  std::vector<ChartSeries>& series = charts.back().series;
  if (series.empty() || series.back().title != c.spec) {
    const char* next = kRunColours[series.size() % std::size(kRunColours)];
    const int points = series.size() < std::size(kRunColours) ? 7 : 4;  // colours come again with hollow ones
    series.push_back({c.spec, fmt::format("linespoints pt {} lc '{}'", points, next), {}});
  }
  series.back().points.emplace_back(c.study.spread, c.result.step_ratio);
}

}  // namespace

void run_variance_steps(const AblationOptions& options) {
  std::vector<VarianceCell> cells = variance_cells(options.quick);
  measure_all(options, cells, "variance studies", [](VarianceCell& cell, Device& one) {
    cell.result = theory::run_variance_study(cell.study, one);
  });
  std::string csv = csv_line("variance", "beta2", "spread", "step_ratio", "value_ratio");
  std::vector<Chart> charts;
  for (const VarianceCell& c : cells) {
    csv += csv_line(c.spec, c.study.beta2, c.study.spread, fmt::format("{:.5f}", c.result.step_ratio),
                    fmt::format("{:.5f}", c.result.value_ratio));
    add_point(charts, c);
  }
  write_part(options, "variance", csv, std::move(charts));
}

}  // namespace lpmm
