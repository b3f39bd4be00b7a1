// Noise floors and lost updates of logistic regression.
#include "theory/logistic.h"

#include <fmt/format.h>

#include "experiments/ablation/part.h"
#include "experiments/plots/csv.h"
#include "lpmm/memory/spec.h"

namespace lpmm {
namespace {

struct LogisticCell {
  theory::LogisticRun run;
  theory::LogisticResult measured = {};
  theory::LogisticFloor predicted = {};
};

std::vector<LogisticCell> logistic_cells(bool quick) {
  std::vector<LogisticCell> cells;
  for (const double momentum : {0.0, 0.9}) {
    for (const int bits : kBits) {
      for (const double rate : {0.3, 0.1, 0.03, 0.01}) {
        if (quick && (bits != 6 || rate != 0.1)) continue;
        theory::LogisticRun run;
        run.momentum = momentum;
        run.learning_rate = rate * (1 - momentum);
        run.parameter = parse_spec(fmt::format("int{}:block64:sr:sticky", bits));
        if (quick) run.steps = 400;
        cells.push_back({run});
      }
    }
  }
  return cells;
}

std::string logistic_row(const LogisticCell& c) {
  return csv_line(c.run.momentum == 0 ? "sgd" : "sgdm", c.run.parameter.format.bits,
                  fmt::format("{:g}", c.run.learning_rate), fmt::format("{:.5g}", c.measured.step),
                  fmt::format("{:.4f}", c.measured.moves), fmt::format("{:.4g}", c.measured.excess),
                  fmt::format("{:.4g}", c.predicted.excess),
                  fmt::format("{:.3f}", c.measured.excess / c.predicted.excess),
                  fmt::format("{:.4f}", c.measured.underflow), fmt::format("{:.4f}", c.predicted.underflow));
}

}  // namespace

void run_logistic_floors(const AblationOptions& options) {
  std::vector<LogisticCell> cells = logistic_cells(options.quick);
  const theory::LogisticProblem problem(0.05, 0.3, 1);
  measure_all(options, cells, "logistic regressions", [&](LogisticCell& cell, Device& one) {
    cell.measured = theory::run_logistic(problem, cell.run, one);
    cell.predicted = theory::predict(problem, cell.run, cell.measured.step, cell.measured.moves);
  });
  std::string csv = csv_line("optimizer", "bits", "learning_rate", "step", "moves", "measured", "predicted",
                             "ratio", "underflow", "predicted_underflow");
  std::vector<Chart> charts;
  for (const double momentum : {0.0, 0.9}) {
    const char* optimizer = momentum == 0 ? "SGD" : "SGDM 0.9";
    Chart floor{fmt::format("logistic regression, {}", optimizer),
                "learning rate",
                "loss above the optimum's",
                "set logscale xy\nset format '10^{%L}'",
                {}};
    Chart lost{fmt::format("updates lost, {}", optimizer), "learning rate", "share", "set logscale x", {}};
    for (const int bits : kBits) {
      const std::string line = fmt::format("lines lc '{}'", colour_of(bits)),
                        points = fmt::format("points pt 7 lc '{}'", colour_of(bits)),
                        title = fmt::format("int{}", bits);
      ChartSeries series[] = {{"", line, {}}, {title, points, {}}, {"", line, {}}, {title, points, {}}};
      for (const LogisticCell& c : cells) {
        if (c.run.momentum != momentum || c.run.parameter.format.bits != bits) continue;
        const double rate = c.run.learning_rate;
        series[0].points.emplace_back(rate, c.predicted.excess);
        series[1].points.emplace_back(rate, c.measured.excess);
        series[2].points.emplace_back(rate, c.predicted.underflow);
        series[3].points.emplace_back(rate, c.measured.underflow);
        csv += logistic_row(c);
      }
      floor.series.insert(floor.series.end(), series, series + 2);
      lost.series.insert(lost.series.end(), series + 2, series + 4);
    }
    charts.push_back(std::move(floor));
    charts.push_back(std::move(lost));
  }
  write_part(options, "logistic", csv, std::move(charts));
}

}  // namespace lpmm
