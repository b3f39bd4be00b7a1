#include "experiments/ablation/ablation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "experiments/plots/chart.h"
#include "experiments/plots/plot.h"
#include "kernels/pool.h"
#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/files/files.h"
#include "lpmm/memory/spec.h"
#include "theory/logistic.h"
#include "theory/quadratic.h"
#include "theory/step_study.h"
#include "theory/variance_study.h"

namespace lpmm {
namespace {

namespace fs = std::filesystem;
using theory::GridMotion;
using theory::QuadraticRun;
using theory::StepStudy;

constexpr int kBits[] = {4, 6, 8, 10, 12};
const char* colour(int bits) {
  return kRunColours[static_cast<std::size_t>((bits - 4) / 2)];
}

std::string_view mode_name(StepMode mode) {
  return mode == StepMode::kSticky ? "sticky" : "moving";
}

void write_csv(const AblationOptions& options, const char* name, const std::string& text) {
  write_text((fs::path(options.out) / name).string(), text);
  tell(fmt::format("ablation: wrote {}/{}\n", options.out, name));
}

// ---- quadratic -----------------------------------------------------------------------------------------
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

std::vector<QuadraticCell> quadratic_cells(bool quick) {
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
  std::vector<QuadraticCell> cells;
  for (const double momentum : {0.0, 0.9}) {
    for (const Kind& kind : kKinds) {
      if (kind.error_feedback && momentum == 0) continue;  // it goes through the momentum
      for (const int bits : kBits) {
        for (const double rate : {0.1, 0.03, 0.01, 0.003, 0.001}) {
          if (quick && (bits != 6 || rate != 0.1)) continue;
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
          cells.push_back({run, {}, {}, false});
        }
      }
    }
  }
  return cells;
}

void run_quadratic_part(const AblationOptions& options) {
  std::vector<QuadraticCell> cells = quadratic_cells(options.quick);
  Pool pool(options.threads);
  tell(fmt::format("ablation: {} quadratic runs\n", cells.size()));
  pool.for_each(static_cast<std::int64_t>(cells.size()), [&](std::int64_t item, int) {
    QuadraticCell& cell = cells[static_cast<std::size_t>(item)];
    const bool shaken = cell.run.motion == GridMotion::kShaken;
    if (shaken) {
      // Optima reach to 0.6 of a range of 1.
      const theory::QuadraticResult guess{.step = 1.2 / map_limit(cell.run.parameter.format), .moves = 1};
      cell.predicted = theory::predict(cell.run, guess);
      cell.leaves_range = 0.6 + 3 * std::sqrt(cell.predicted.variance) > 1;
      if (cell.leaves_range) return;
    }
    Pool one(1);
    cell.measured = theory::run_quadratic(cell.run, one);
    if (theory::has_floor(cell.run.parameter.rounding, cell.run.parameter.step_mode))
      cell.predicted = theory::predict(cell.run, cell.measured);
  });

  std::string csv =
      "optimizer,bits,rounding,step_mode,learning_rate,step,moves,measured,deviation,predicted,ratio,"
      "underflow,predicted_underflow\n";
  std::vector<Chart> charts;
  // Lines are predicted, points measured.
  const auto add = [&](double momentum, std::string_view motion, Rounding rounding, Chart chart,
                       double theory::Floor::*predicted, double theory::QuadraticResult::*measured) {
    chart.title = fmt::format("{}{}, {} step, {}", chart.title, momentum == 0 ? "SGD" : "SGDM 0.9", motion,
                              to_string(rounding));
    for (const int bits : kBits) {
      ChartSeries line{"", fmt::format("lines lc '{}'", colour(bits)), {}};
      ChartSeries points{fmt::format("int{}", bits), fmt::format("points pt 7 lc '{}'", colour(bits)), {}};
      for (const QuadraticCell& c : cells) {
        if (c.run.momentum != momentum || c.run.parameter.format.bits != bits ||
            motion_name(c.run) != motion || c.run.parameter.rounding != rounding) {
          continue;
        }
        line.points.emplace_back(c.run.learning_rate, c.predicted.*predicted);
        if (!c.leaves_range) points.points.emplace_back(c.run.learning_rate, c.measured.*measured);
      }
      if (line.points.empty()) continue;
      chart.series.push_back(std::move(line));
      chart.series.push_back(std::move(points));
    }
    if (!chart.series.empty()) charts.push_back(std::move(chart));
  };
  for (const double momentum : {0.0, 0.9}) {
    constexpr std::pair<const char*, Rounding> kCharts[] = {
        {"sticky", Rounding::kStochastic},          {"moving", Rounding::kStochastic},
        {"moving-natural", Rounding::kStochastic},  {"sticky", Rounding::kQuasiStochastic},
        {"sticky-spectrum", Rounding::kStochastic}, {"sticky-feedback", Rounding::kStochastic}};
    for (const auto& [motion, rounding] : kCharts) {
      add(momentum, motion, rounding,
          {"",
           "learning rate",
           "E (x - optimum)^2",
           "set logscale xy\nset yrange [1e-6:1e-1]\nset format '10^{%L}'",
           {}},
          &theory::Floor::variance, &theory::QuadraticResult::variance);
    }
    add(momentum, "sticky", Rounding::kStochastic,
        {"updates lost, ", "learning rate", "share", "set logscale x", {}}, &theory::Floor::underflow,
        &theory::QuadraticResult::underflow);
  }
  for (const QuadraticCell& c : cells) {
    csv += fmt::format("{},{},{},{},{:g},", c.run.momentum == 0 ? "sgd" : "sgdm", c.run.parameter.format.bits,
                       to_string(c.run.parameter.rounding), motion_name(c.run), c.run.learning_rate);
    if (c.leaves_range) {
      csv += fmt::format(",,out of range,,{:.4g},,,\n", c.predicted.variance);
      continue;
    }
    csv += fmt::format("{:.5g},{:.4f},{:.4g},{:.2g},", c.measured.step, c.measured.moves, c.measured.variance,
                       c.measured.error);
    csv += theory::has_floor(c.run.parameter.rounding, c.run.parameter.step_mode)
               ? fmt::format("{:.4g},{:.3f},{:.4f},{:.4f}\n", c.predicted.variance,
                             c.measured.variance / c.predicted.variance, c.measured.underflow,
                             c.predicted.underflow)
               : fmt::format(",,{:.4f},\n", c.measured.underflow);
  }
  write_csv(options, "quadratic.csv", csv);
  draw_charts(options.out, "quadratic", charts);
}

// ---- momentum ------------------------------------------------------------------------------------------
// Floors of SGDM with gradients accumulated in the momentum, beside the floor of fp32.
void run_momentum(const AblationOptions& options) {
  struct Cell {
    const char *parameter, *momentum;
    bool error_feedback;
    QuadraticRun run = {};
    theory::QuadraticResult measured = {};
  };
  constexpr Cell kPolicies[] = {{"fp32", "fp32", false},
                                {"int7:block128:sr:sticky", "int5:block64:sr", false},
                                {"int7:block128:qr:sticky", "int5:block64:qr", false},
                                {"int7:block128:sr:sticky", "int5:block64:sr", true},
                                {"int7:block128:sr:sticky", "int5:block64:qr", true},
                                {"int7:block128:qr:sticky", "int5:block64:sr", true},
                                {"int7:block128:qr:sticky", "int5:block64:qr", true},
                                {"int6:block128:qr:sticky", "int6:block128:qr", true},
                                {"int8:block128:qr:sticky", "soft4:block64:qr", true}};
  std::vector<Cell> cells;
  for (const int microbatches : {1, 2}) {
    for (const double rate : {0.1, 0.03, 0.01, 0.003, 0.001}) {
      if (options.quick && rate != 0.1) continue;
      for (Cell cell : kPolicies) {
        cell.run.parameter = parse_spec(cell.parameter);
        if (microbatches != 1 && is_packed(cell.run.parameter.format) && !cell.error_feedback) continue;
        cell.run.momentum_state = parse_spec(cell.momentum);
        cell.run.curvature = 0.1;
        cell.run.gradient_noise = 0.05;
        cell.run.learning_rate = rate;
        cell.run.momentum = 0.9;
        cell.run.error_feedback = cell.error_feedback;
        cell.run.accumulate_in_momentum = true;
        cell.run.microbatches = microbatches;
        cell.run.blocks = 8;
        cell.run.steps = options.quick ? 200 : 20000;
        cells.push_back(cell);
      }
    }
  }
  tell(fmt::format("ablation: {} quadratic runs with gradients in the momentum\n", cells.size()));
  Pool pool(options.threads);
  pool.for_each(static_cast<std::int64_t>(cells.size()), [&](std::int64_t item, int) {
    Cell& cell = cells[static_cast<std::size_t>(item)];
    Pool one(1);
    cell.measured = theory::run_quadratic(cell.run, one);
  });
  std::string csv =
      "parameter,momentum,error_feedback,microbatches,learning_rate,step_over_move,measured,deviation,"
      "over_fp32\n";
  const auto chart = [](const char* title) {
    return Chart{title,
                 "learning rate",
                 "E (x - optimum)^2 over that of fp32",
                 "set logscale xy\nset xrange [8e-4:0.12]\nset yrange [1:10]",
                 {}};
  };
  std::vector<Chart> charts = {chart("gradients in the momentum"), chart("the same with error feedback"),
                               chart("the same with two microbatches")};
  double fp32 = 1;  // of the same rate and microbatches
  for (const Cell& c : cells) {
    const Spec &parameter = c.run.parameter, &momentum = c.run.momentum_state;
    const bool packed = is_packed(parameter.format);
    if (!packed) fp32 = c.measured.variance;
    const double rate = c.run.learning_rate, ratio = c.measured.variance / fp32;
    csv += fmt::format("{},{},{},{},{:g},{:.3g},{:.4g},{:.2g},{:.4f}\n", c.parameter, c.momentum,
                       c.error_feedback, c.run.microbatches, rate,
                       packed ? c.measured.step / (rate * c.run.gradient_noise) : 0.0, c.measured.variance,
                       c.measured.error, ratio);
    if (!packed) continue;
    const std::string title =
        fmt::format("{} {}, {} {}", to_string(parameter.format), to_string(parameter.rounding),
                    to_string(momentum.format), to_string(momentum.rounding));
    std::vector<ChartSeries>& series =
        charts[c.error_feedback ? static_cast<std::size_t>(c.run.microbatches) : 0].series;
    auto line =
        std::find_if(series.begin(), series.end(), [&](const ChartSeries& s) { return s.title == title; });
    if (line == series.end()) {
      const char* next = kRunColours[series.size() % std::size(kRunColours)];
      line = series.insert(line, {title, fmt::format("linespoints pt 7 lc '{}'", next), {}});
    }
    line->points.emplace_back(rate, ratio);
  }
  write_csv(options, "momentum.csv", csv);
  draw_charts(options.out, "momentum", charts);
}

// ---- logistic ------------------------------------------------------------------------------------------
void run_logistic_part(const AblationOptions& options) {
  struct Cell {
    theory::LogisticRun run;
    theory::LogisticResult measured;
    theory::LogisticFloor predicted;
  };
  std::vector<Cell> cells;
  for (const double momentum : {0.0, 0.9}) {
    for (const int bits : kBits) {
      for (const double rate : {0.3, 0.1, 0.03, 0.01}) {
        if (options.quick && (bits != 6 || rate != 0.1)) continue;
        theory::LogisticRun run;
        run.momentum = momentum;
        run.learning_rate = rate * (1 - momentum);
        run.parameter = parse_spec(fmt::format("int{}:block64:sr:sticky", bits));
        if (options.quick) run.steps = 400;
        cells.push_back({run, {}, {}});
      }
    }
  }
  tell(fmt::format("ablation: {} logistic regressions\n", cells.size()));
  const theory::LogisticProblem problem(0.05, 0.3, 1);
  Pool pool(options.threads);
  pool.for_each(static_cast<std::int64_t>(cells.size()), [&](std::int64_t item, int) {
    Cell& cell = cells[static_cast<std::size_t>(item)];
    Pool one(1);
    cell.measured = theory::run_logistic(problem, cell.run, one);
    cell.predicted = theory::predict(problem, cell.run, cell.measured.step, cell.measured.moves);
  });
  std::string csv =
      "optimizer,bits,learning_rate,step,moves,measured,predicted,ratio,underflow,predicted_underflow\n";
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
      const std::string line = fmt::format("lines lc '{}'", colour(bits)),
                        points = fmt::format("points pt 7 lc '{}'", colour(bits)),
                        title = fmt::format("int{}", bits);
      ChartSeries series[] = {{"", line, {}}, {title, points, {}}, {"", line, {}}, {title, points, {}}};
      for (const Cell& c : cells) {
        if (c.run.momentum != momentum || c.run.parameter.format.bits != bits) continue;
        const double rate = c.run.learning_rate;
        series[0].points.emplace_back(rate, c.predicted.excess);
        series[1].points.emplace_back(rate, c.measured.excess);
        series[2].points.emplace_back(rate, c.predicted.underflow);
        series[3].points.emplace_back(rate, c.measured.underflow);
        csv += fmt::format("{},{},{:g},{:.5g},{:.4f},{:.4g},{:.4g},{:.3f},{:.4f},{:.4f}\n",
                           momentum == 0 ? "sgd" : "sgdm", bits, rate, c.measured.step, c.measured.moves,
                           c.measured.excess, c.predicted.excess, c.measured.excess / c.predicted.excess,
                           c.measured.underflow, c.predicted.underflow);
      }
      floor.series.insert(floor.series.end(), series, series + 2);
      lost.series.insert(lost.series.end(), series + 2, series + 4);
    }
    charts.push_back(std::move(floor));
    charts.push_back(std::move(lost));
  }
  write_csv(options, "logistic.csv", csv);
  draw_charts(options.out, "logistic", charts);
}

// ---- steps ---------------------------------------------------------------------------------------------
void run_steps(const AblationOptions& options) {
  struct Cell {
    StepStudy study;
    theory::StepStudyResult result;  // mean over the seeds
  };
  std::vector<Cell> cells;
  for (const auto problem : {theory::StudyProblem::kQuadratic, theory::StudyProblem::kLogistic}) {
    cells.push_back({{.problem = problem, .bits = 0}, {}});
    for (const int bits : {4, 6, 8}) {
      if (options.quick && bits != 8) continue;
      const StepStudy base{.problem = problem, .bits = bits};
      const auto add = [&](auto change) {
        StepStudy study = base;
        change(study);
        cells.push_back({study, {}});
      };
      for (const double room : {1.0, 1.0625, 1.125, 1.25, 1.5}) {
        for (const double slack : {0.25, 0.5, 0.6, 0.66, 0.75, 0.8, 0.85}) {
          if (options.quick && (room != 1.125 || slack != 0.5)) continue;
          if (room * slack < 1) add([&](StepStudy& s) { s.room = room, s.slack = slack; });
        }
      }
      for (const int block : {64, 256, 512}) {
        if (!options.quick) add([&](StepStudy& s) { s.block = block; });
      }
      add([&](StepStudy& s) { s.moving = true; });
    }
  }
  const int seeds = options.quick ? 1 : 3;
  tell(fmt::format("ablation: {} step studies of {} seeds\n", cells.size(), seeds));
  Pool pool(options.threads);
  pool.for_each(static_cast<std::int64_t>(cells.size()), [&](std::int64_t item, int) {
    Cell& cell = cells[static_cast<std::size_t>(item)];
    for (int seed = 1; seed <= seeds; ++seed) {
      cell.study.seed = static_cast<std::uint64_t>(seed);
      const theory::StepStudyResult r = theory::run_step_study(cell.study);
      cell.result.loss += r.loss / seeds;
      cell.result.moves += r.moves / seeds;
      cell.result.used_range += r.used_range / seeds;
    }
  });
  std::string csv = "problem,bits,block,step_mode,room,slack,loss,moves,used_range\n";
  std::vector<Chart> charts;
  for (const auto problem : {theory::StudyProblem::kQuadratic, theory::StudyProblem::kLogistic}) {
    const bool quadratic = problem == theory::StudyProblem::kQuadratic;
    Chart chart{quadratic ? "quadratic" : "logistic regression",
                "slack (room 1.0625 and 1.125)",
                "final loss",
                "set logscale y",
                {}};
    std::map<std::pair<int, double>, ChartSeries> lines;
    for (const Cell& c : cells) {
      const StepStudy& s = c.study;
      if (s.problem != problem) continue;
      csv += fmt::format("{},{},{},{},{},{},{:.6g},{:.4f},{:.3f}\n", quadratic ? "quadratic" : "logistic",
                         s.bits, s.block,
                         s.bits == 0 ? "fp32" : mode_name(s.moving ? StepMode::kMoving : StepMode::kSticky),
                         s.room, s.slack, c.result.loss, c.result.moves, c.result.used_range);
      if (s.bits == 0 || s.moving || s.block != 128 || s.room < 1.05 || s.room > 1.2) continue;
      ChartSeries& line = lines[{s.bits, s.room}];
      line.title = fmt::format("int{}, room {}", s.bits, s.room);
      line.style = fmt::format("linespoints lc '{}' pt {}", colour(s.bits), s.room < 1.1 ? 7 : 4);
      line.points.emplace_back(s.slack, c.result.loss);
    }
    for (const auto& [key, line] : lines) chart.series.push_back(line);
    charts.push_back(chart);
  }
  write_csv(options, "steps.csv", csv);
  draw_charts(options.out, "steps", charts);
}

// ---- variance ------------------------------------------------------------------------------------------
void run_variance(const AblationOptions& options) {
  constexpr const char* kSpecs[] = {"sqrt08:block128:sr:sticky", "sqrt04:block128:sr:sticky",
                                    "sqrt04:block64:sr:sticky",  "sqrt04:block128:sr",
                                    "sqrt03:block128:sr:sticky", "sqrt02:block128:sr",
                                    "ude8:block256:rn"};
  constexpr double kSpreads[] = {0.3, 0.6, 1.2};
  struct Cell {
    std::string spec;
    theory::VarianceStudy study;
    theory::VarianceStudyResult result;
  };
  std::vector<Cell> cells;
  for (const double beta2 : {0.95, 0.99, 0.999}) {
    for (const char* spec : kSpecs) {
      for (const double spread : kSpreads) {
        if (options.quick && (beta2 > 0.95 || spread != 0.6)) continue;
        cells.push_back({spec, {.variance = parse_spec(spec), .beta2 = beta2, .spread = spread}, {}});
      }
    }
  }
  tell(fmt::format("ablation: {} variance studies\n", cells.size()));
  Pool pool(options.threads);
  pool.for_each(static_cast<std::int64_t>(cells.size()), [&](std::int64_t item, int) {
    Cell& cell = cells[static_cast<std::size_t>(item)];
    Pool one(1);
    cell.result = theory::run_variance_study(cell.study, one);
  });
  std::string csv = "variance,beta2,spread,step_ratio,value_ratio\n";
  std::vector<Chart> charts;
  for (const Cell& c : cells) {
    csv += fmt::format("{},{},{},{:.5f},{:.5f}\n", c.spec, c.study.beta2, c.study.spread, c.result.step_ratio,
                       c.result.value_ratio);
    const std::string title = fmt::format("beta2 {}", c.study.beta2);
    if (charts.empty() || charts.back().title != title) {
      charts.push_back(
          {title, "deviation of ln s within a block", "steps, stored over exact variance", "", {}});
    }
    std::vector<ChartSeries>& series = charts.back().series;
    if (series.empty() || series.back().title != c.spec) {
      series.push_back(
          {c.spec,
           fmt::format("linespoints pt 7 lc '{}'", kRunColours[series.size() % std::size(kRunColours)]),
           {}});
    }
    series.back().points.emplace_back(c.study.spread, c.result.step_ratio);
  }
  write_csv(options, "variance.csv", csv);
  draw_charts(options.out, "variance", charts);
}

}  // namespace

int run_ablation(const AblationOptions& options) {
  make_folder(options.out);
  for (const std::string& part : options.parts) {
    if (part == "quadratic") {
      run_quadratic_part(options);
    } else if (part == "momentum") {
      run_momentum(options);
    } else if (part == "logistic") {
      run_logistic_part(options);
    } else if (part == "steps") {
      run_steps(options);
    } else if (part == "variance") {
      run_variance(options);
    } else {
      throw UsageError(
          fmt::format("unknown part '{}': quadratic, momentum, logistic, steps or variance", part));
    }
  }
  return 0;
}

}  // namespace lpmm
