// The constants of sticky steps, and the block.
#include <fmt/format.h>

#include <map>
#include <utility>

#include "experiments/ablation/part.h"
#include "experiments/plots/csv.h"
#include "theory/step_study.h"

namespace lpmm {
namespace {

using theory::StepStudy;

constexpr theory::StudyProblem kProblems[] = {theory::StudyProblem::kQuadratic,
                                              theory::StudyProblem::kLogistic};

struct StepCell {
  StepStudy study;
  theory::StepStudyResult result;  // mean over the seeds
};

std::vector<StepCell> step_cells(bool quick) {
  std::vector<StepCell> cells;
  for (const auto problem : kProblems) {
    cells.push_back({{.problem = problem, .bits = 0}, {}});
    for (const int bits : {4, 6, 8}) {
      if (quick && bits != 8) continue;
      const StepStudy base{.problem = problem, .bits = bits};
      const auto add = [&](auto change) {
        StepStudy study = base;
        change(study);
        cells.push_back({study, {}});
      };
      for (const double room : {1.0, 1.0625, 1.125, 1.25, 1.5}) {
        for (const double slack : {0.25, 0.5, 0.6, 0.66, 0.75, 0.8, 0.85}) {
          if (quick && (room != 1.125 || slack != 0.5)) continue;
          if (room * slack < 1) add([&](StepStudy& s) { s.room = room, s.slack = slack; });
        }
      }
      for (const int block : {64, 256, 512}) {
        if (!quick) add([&](StepStudy& s) { s.block = block; });
      }
      add([&](StepStudy& s) { s.moving = true; });
    }
  }
  return cells;
}

const char* mode_of(const StepStudy& study) {
  if (study.bits == 0) return "fp32";
  return study.moving ? "moving" : "sticky";
}

// Blocks of 128, by slack: a line for all bits and each room that is near that of the presets.
Chart chart_of(const std::vector<StepCell>& cells, theory::StudyProblem problem) {
  Chart chart{problem == theory::StudyProblem::kQuadratic ? "quadratic" : "logistic regression",
              "slack (room 1.0625 and 1.125)",
              "final loss",
              "set logscale y",
              {}};
  std::map<std::pair<int, double>, ChartSeries> lines;
  for (const StepCell& c : cells) {
    const StepStudy& s = c.study;
    if (s.problem != problem || s.bits == 0 || s.moving || s.block != 128 || s.room < 1.05 || s.room > 1.2)
      continue;
    ChartSeries& line = lines[{s.bits, s.room}];
    line.title = fmt::format("int{}, room {}", s.bits, s.room);
    line.style = fmt::format("linespoints lc '{}' pt {}", colour_of(s.bits), s.room < 1.1 ? 7 : 4);
    line.points.emplace_back(s.slack, c.result.loss);
  }
  for (auto& [key, line] : lines) chart.series.push_back(std::move(line));
  return chart;
}

}  // namespace

void run_step_constants(const AblationOptions& options) {
  std::vector<StepCell> cells = step_cells(options.quick);
  const int seeds = options.quick ? 1 : 3;
  measure_all(options, cells, fmt::format("step studies of {} seeds", seeds), [&](StepCell& cell, Device&) {
    for (int seed = 1; seed <= seeds; ++seed) {
      cell.study.seed = static_cast<std::uint64_t>(seed);
      const theory::StepStudyResult r = theory::run_step_study(cell.study);
      cell.result.loss += r.loss / seeds;
      cell.result.moves += r.moves / seeds;
      cell.result.used_range += r.used_range / seeds;
    }
  });
  std::string csv =
      csv_line("problem", "bits", "block", "step_mode", "room", "slack", "loss", "moves", "used_range");
  for (const StepCell& c : cells) {
    const StepStudy& s = c.study;
    csv += csv_line(s.problem == theory::StudyProblem::kQuadratic ? "quadratic" : "logistic", s.bits, s.block,
                    mode_of(s), s.room, s.slack, fmt::format("{:.6g}", c.result.loss),
                    fmt::format("{:.4f}", c.result.moves), fmt::format("{:.3f}", c.result.used_range));
  }
  std::vector<Chart> charts;
  for (const auto problem : kProblems) charts.push_back(chart_of(cells, problem));
  write_part(options, "steps", csv, std::move(charts));
}

}  // namespace lpmm
