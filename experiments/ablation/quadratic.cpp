// Noise floors of SGD and SGDM on quadratics.
#include <fmt/format.h>

#include <cmath>
#include <string_view>
#include <utility>

#include "experiments/ablation/part.h"
#include "experiments/plots/csv.h"
#include "lpmm/memory/spec.h"
#include "theory/quadratic.h"

namespace lpmm {
namespace {

using theory::GridMotion;
using theory::QuadraticRun;

struct QuadraticCell {
  QuadraticRun run;
  theory::QuadraticResult measured;
  theory::Floor predicted;
  bool leaves_range = false;  // not run: the predicted floor does not fit into a block's range
};

const char* motion_name(const QuadraticRun& run) {
  if (run.error_feedback) return "sticky-feedback";
  if (run.condition != 1) return "sticky-spectrum";
  if (run.parameter.step_mode == StepMode::kSticky) return "sticky";
  return run.motion == GridMotion::kShaken ? "moving" : "moving-natural";
}

struct Kind {
  Rounding rounding;
  StepMode steps;
  GridMotion motion = GridMotion::kFixed;
  double condition = 1;
  bool error_feedback = false;
};
constexpr Rounding kSr = Rounding::kStochastic, kQr = Rounding::kQuasiStochastic, kRn = Rounding::kNearest;
constexpr StepMode kSticky = StepMode::kSticky, kMoving = StepMode::kMoving;
constexpr Kind kKinds[] = {{kSr, kSticky},
                           {kSr, kMoving, GridMotion::kShaken},
                           {kSr, kMoving, GridMotion::kNatural},
                           {kQr, kSticky},
                           {kQr, kMoving, GridMotion::kNatural},
                           {kRn, kSticky},
                           {kRn, kMoving, GridMotion::kNatural},
                           {kSr, kSticky, GridMotion::kFixed, 16},
                           {kSr, kSticky, GridMotion::kFixed, 1, true}};

QuadraticRun run_of(const Kind& kind, double momentum, int bits, double rate, bool quick) {
  QuadraticRun run;
  run.blocks = quick ? 2 : 16;
  run.momentum = momentum;
  run.learning_rate = rate * (1 - momentum);
  run.condition = kind.condition;
  run.curvature = std::sqrt(kind.condition);
  run.error_feedback = kind.error_feedback;
  // Nearest rounding has no floor: it stops on the way, so its runs start away from the optimum.
  if (kind.rounding == kRn) run.start = 0.5;
  run.parameter = {{Map::kLinear, static_cast<std::uint8_t>(bits)}, 128, kind.rounding, kind.steps};
  run.motion = kind.motion;
  return run;
}

std::vector<QuadraticCell> quadratic_cells(bool quick) {
  std::vector<QuadraticCell> cells;
  for (const double momentum : {0.0, 0.9}) {
    for (const Kind& kind : kKinds) {
      if (kind.error_feedback && momentum == 0) continue;  // it goes through the momentum
      for (const int bits : kBits) {
        for (const double rate : {0.1, 0.03, 0.01, 0.003, 0.001}) {
          if (quick && (bits != 6 || rate != 0.1)) continue;
          cells.push_back({run_of(kind, momentum, bits, rate, quick), {}, {}, false});
        }
      }
    }
  }
  return cells;
}

bool has_prediction(const QuadraticCell& cell) {
  return theory::has_floor(cell.run.parameter.rounding, cell.run.parameter.step_mode);
}

void measure(QuadraticCell& cell, Device& one) {
  if (cell.run.motion == GridMotion::kShaken) {
    // Optima reach to 0.6 of a range of 1.
    const theory::QuadraticResult guess{.step = 1.2 / map_limit(cell.run.parameter.format), .moves = 1};
    cell.predicted = theory::predict(cell.run, guess);
    cell.leaves_range = 0.6 + 3 * std::sqrt(cell.predicted.variance) > 1;
    if (cell.leaves_range) return;
  }
  cell.measured = theory::run_quadratic(cell.run, one);
  if (has_prediction(cell)) cell.predicted = theory::predict(cell.run, cell.measured);
}

// The cells of one chart, and what of them it shows.
struct View {
  double momentum;
  std::string_view motion;
  Rounding rounding;
  double theory::Floor::*predicted;
  double theory::QuadraticResult::*measured;
};

// Lines are predicted, points measured.
Chart filled(Chart chart, const std::vector<QuadraticCell>& cells, const View& view) {
  chart.title = fmt::format("{}{}, {} step, {}", chart.title, view.momentum == 0 ? "SGD" : "SGDM 0.9",
                            view.motion, to_string(view.rounding));
  for (const int bits : kBits) {
    ChartSeries line{"", fmt::format("lines lc '{}'", colour_of(bits)), {}};
    ChartSeries points{fmt::format("int{}", bits), fmt::format("points pt 7 lc '{}'", colour_of(bits)), {}};
    for (const QuadraticCell& c : cells) {
      if (c.run.momentum != view.momentum || c.run.parameter.format.bits != bits ||
          motion_name(c.run) != view.motion || c.run.parameter.rounding != view.rounding) {
        continue;
      }
      line.points.emplace_back(c.run.learning_rate, c.predicted.*view.predicted);
      if (!c.leaves_range) points.points.emplace_back(c.run.learning_rate, c.measured.*view.measured);
    }
    if (line.points.empty()) continue;
    chart.series.push_back(std::move(line));
    chart.series.push_back(std::move(points));
  }
  return chart;
}

std::vector<Chart> charts_of(const std::vector<QuadraticCell>& cells) {
  std::vector<Chart> charts;
  const auto add = [&](Chart chart) {
    if (!chart.series.empty()) charts.push_back(std::move(chart));
  };
  for (const double momentum : {0.0, 0.9}) {
    constexpr std::pair<const char*, Rounding> kCharts[] = {
        {"sticky", kSr}, {"moving", kSr},          {"moving-natural", kSr},
        {"sticky", kQr}, {"sticky-spectrum", kSr}, {"sticky-feedback", kSr}};
    for (const auto& [motion, rounding] : kCharts) {
      const Chart floors{"",
                         "learning rate",
                         "E (x - optimum)^2",
                         "set logscale xy\nset yrange [1e-6:1e-1]\nset format '10^{%L}'",
                         {}};
      add(filled(floors, cells,
                 {momentum, motion, rounding, &theory::Floor::variance, &theory::QuadraticResult::variance}));
    }
    const Chart lost{"updates lost, ", "learning rate", "share", "set logscale x", {}};
    add(filled(lost, cells,
               {momentum, "sticky", kSr, &theory::Floor::underflow, &theory::QuadraticResult::underflow}));
  }
  return charts;
}

std::string quadratic_row(const QuadraticCell& c) {
  const auto line = [&](const auto&... results) {
    return csv_line(c.run.momentum == 0 ? "sgd" : "sgdm", c.run.parameter.format.bits,
                    to_string(c.run.parameter.rounding), motion_name(c.run),
                    fmt::format("{:g}", c.run.learning_rate), results...);
  };
  if (c.leaves_range) {
    return line("", "", "out of range", "", fmt::format("{:.4g}", c.predicted.variance), "", "", "");
  }
  const auto measured = [&](const auto&... predicted) {
    return line(fmt::format("{:.5g}", c.measured.step), fmt::format("{:.4f}", c.measured.moves),
                fmt::format("{:.4g}", c.measured.variance), fmt::format("{:.2g}", c.measured.error),
                predicted...);
  };
  const std::string underflow = fmt::format("{:.4f}", c.measured.underflow);
  if (!has_prediction(c)) return measured("", "", underflow, "");
  return measured(fmt::format("{:.4g}", c.predicted.variance),
                  fmt::format("{:.3f}", c.measured.variance / c.predicted.variance), underflow,
                  fmt::format("{:.4f}", c.predicted.underflow));
}

}  // namespace

void run_quadratic_floors(const AblationOptions& options) {
  std::vector<QuadraticCell> cells = quadratic_cells(options.quick);
  measure_all(options, cells, "quadratic runs", measure);
  std::string csv =
      csv_line("optimizer", "bits", "rounding", "step_mode", "learning_rate", "step", "moves", "measured",
               "deviation", "predicted", "ratio", "underflow", "predicted_underflow");
  for (const QuadraticCell& cell : cells) csv += quadratic_row(cell);
  write_part(options, "quadratic", csv, charts_of(cells));
}

}  // namespace lpmm
