// Noise floors of SGDM with gradients accumulated in the momentum, beside the floor of fp32.
#include <fmt/format.h>

#include <algorithm>

#include "experiments/ablation/part.h"
#include "experiments/plots/csv.h"
#include "lpmm/memory/spec.h"
#include "theory/quadratic.h"

namespace lpmm {
namespace {

struct MomentumCell {
  const char *parameter, *momentum;
  bool error_feedback;
  theory::QuadraticRun run = {};
  theory::QuadraticResult measured = {};
};
constexpr MomentumCell kPolicies[] = {{"fp32", "fp32", false},
                                      {"int7:block128:sr:sticky", "int5:block64:sr", false},
                                      {"int7:block128:qr:sticky", "int5:block64:qr", false},
                                      {"int7:block128:sr:sticky", "int5:block64:sr", true},
                                      {"int7:block128:sr:sticky", "int5:block64:qr", true},
                                      {"int7:block128:qr:sticky", "int5:block64:sr", true},
                                      {"int7:block128:qr:sticky", "int5:block64:qr", true},
                                      {"int6:block128:qr:sticky", "int6:block128:qr", true},
                                      {"int8:block128:qr:sticky", "soft4:block64:qr", true}};

MomentumCell cell_of(const MomentumCell& policy, int microbatches, double rate, bool quick) {
  MomentumCell cell = policy;
  cell.run.parameter = parse_spec(cell.parameter);
  cell.run.momentum_state = parse_spec(cell.momentum);
  cell.run.curvature = 0.1;
  cell.run.gradient_noise = 0.05;
  cell.run.learning_rate = rate;
  cell.run.momentum = 0.9;
  cell.run.error_feedback = cell.error_feedback;
  cell.run.accumulate_in_momentum = true;
  cell.run.microbatches = microbatches;
  cell.run.blocks = 8;
  cell.run.steps = quick ? 200 : 20000;
  return cell;
}

std::vector<MomentumCell> momentum_cells(bool quick) {
  std::vector<MomentumCell> cells;
  for (const int microbatches : {1, 2}) {
    for (const double rate : {0.1, 0.03, 0.01, 0.003, 0.001}) {
      if (quick && rate != 0.1) continue;
      for (const MomentumCell& policy : kPolicies) {
        MomentumCell cell = cell_of(policy, microbatches, rate, quick);
        if (microbatches != 1 && is_packed(cell.run.parameter.format) && !cell.error_feedback) continue;
        cells.push_back(cell);
      }
    }
  }
  return cells;
}

// Adds a point to the line of the cell's formats, which is the next one where there is none.
void add_point(std::vector<ChartSeries>& series, const MomentumCell& cell, double ratio) {
  const Spec &parameter = cell.run.parameter, &momentum = cell.run.momentum_state;
  const std::string title =
      fmt::format("{} {}, {} {}", to_string(parameter.format), to_string(parameter.rounding),
                  to_string(momentum.format), to_string(momentum.rounding));
  auto line =
      std::find_if(series.begin(), series.end(), [&](const ChartSeries& s) { return s.title == title; });
  if (line == series.end()) {
    const char* next = kRunColours[series.size() % std::size(kRunColours)];
    line = series.insert(line, {title, fmt::format("linespoints pt 7 lc '{}'", next), {}});
  }
  line->points.emplace_back(cell.run.learning_rate, ratio);
}

Chart empty_chart(const char* title) {
  return {title,
          "learning rate",
          "E (x - optimum)^2 over that of fp32",
          "set logscale xy\nset xrange [8e-4:0.12]\nset yrange [1:10]",
          {}};
}

}  // namespace

void run_momentum_floors(const AblationOptions& options) {
  std::vector<MomentumCell> cells = momentum_cells(options.quick);
  measure_all(options, cells, "quadratic runs with gradients in the momentum",
              [](MomentumCell& cell, Device& one) { cell.measured = theory::run_quadratic(cell.run, one); });
  std::string csv = csv_line("parameter", "momentum", "error_feedback", "microbatches", "learning_rate",
                             "step_over_move", "measured", "deviation", "over_fp32");
  std::vector<Chart> charts = {empty_chart("gradients in the momentum"),
                               empty_chart("the same with error feedback"),
                               empty_chart("the same with two microbatches")};
  double fp32 = 1;  // the variance in fp32 at the same rate and microbatches
  for (const MomentumCell& c : cells) {
    const bool packed = is_packed(c.run.parameter.format);
    if (!packed) fp32 = c.measured.variance;
    const double rate = c.run.learning_rate, ratio = c.measured.variance / fp32;
    csv += csv_line(c.parameter, c.momentum, c.error_feedback, c.run.microbatches, fmt::format("{:g}", rate),
                    fmt::format("{:.3g}", packed ? c.measured.step / (rate * c.run.gradient_noise) : 0.0),
                    fmt::format("{:.4g}", c.measured.variance), fmt::format("{:.2g}", c.measured.error),
                    fmt::format("{:.4f}", ratio));
    const std::size_t chart = c.error_feedback ? static_cast<std::size_t>(c.run.microbatches) : 0;
    if (packed) add_point(charts[chart].series, c, ratio);
  }
  write_part(options, "momentum", csv, std::move(charts));
}

}  // namespace lpmm
