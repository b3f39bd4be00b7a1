#include "experiments/sweep/grid_experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "experiments/commands/shipped_configs.h"
#include "experiments/plots/chart.h"
#include "experiments/plots/records.h"
#include "experiments/sweep/grid_charts.h"
#include "experiments/sweep/grid_file.h"
#include "experiments/sweep/grid_rows.h"
#include "experiments/sweep/sweep.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/text.h"
#include "lpmm/data/scores.h"
#include "lpmm/files/files.h"
#include "lpmm/memory/spec.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

// ---- names that a file may use -------------------------------------------------------------------------
class KnownNames {
 public:
  KnownNames(const GridPart& part, std::span<const GridRow> rows) : part_(part) {
    for (const auto& [key, value] : rows[0].fields) fields_.insert(key);
    values_ = {"bits_per_parameter", "final_loss", "test_loss"};
    std::vector<std::string> scores = {kScore};
    for (const ScoreKind& kind : kScores) scores.emplace_back(kind.name);
    const bool has_gaps = !part.grid.baseline.empty();
    if (has_gaps) values_.insert({"loss_gap", "test_loss_gap"});
    for (const std::string& score : scores) {
      values_.insert(score);
      if (has_gaps) values_.insert(score + "_gap");
    }
    for (const Role r : kEveryElementRole) {
      const std::string role(to_string(r));
      values_.insert({"underflow." + role, "relative_error." + role, "update_to_step." + role});
    }
    for (std::string& tag : known_tags()) tags_.insert(std::move(tag));
  }
  void check_field(const std::string& name) const { check(fields_.contains(name), name, fields_); }
  void check_value(const std::string& name) const { check(values_.contains(name), name, values_); }
  void check_tag(const std::string& name) const { check(tags_.contains(name), name, tags_); }
  void check_either(const std::string& name) const {
    std::set<std::string> both = fields_;
    both.insert(values_.begin(), values_.end());
    check(both.contains(name), name, both);
  }
  void check_rows(const Selection& selection) const {
    for (const auto& [key, value] : selection.only) check_field(key);
    if (!selection.best.empty()) check_field(selection.best);
  }

 private:
  void check(bool is_known, const std::string& name, const std::set<std::string>& known) const {
    if (is_known) return;
    const std::vector<std::string_view> names(known.begin(), known.end());
    throw UsageError(fmt::format("{}.toml: there is no {} (known: {}){}", part_.name, name, join(names),
                                 did_you_mean(nearest_name(name, names))));
  }
  const GridPart& part_;
  std::set<std::string> fields_, values_, tags_;
};

// "0.039 (-0.199 to 0.278)"
std::string interval_text(const Interval& value) {
  return value.has_bounds ? fmt::format("{:.4g} ({:.4g} to {:.4g})", value.mean, value.low, value.high)
                          : fmt::format("{:.4g} (one seed, no bounds)", value.mean);
}

// Says of every expectation whether it is met by all its rows, which do not meet it and which leave it open.
// A row without a number, as no run of it came to an end or a loss is not a number, does not meet it.
void judge(const GridPart& part, std::span<const GridRow> rows) {
  for (const Expectation& e : part.expected) {
    GridRows all = with_fields(rows, e.rows.only);
    if (e.rows.y.ends_with("_gap")) {
      std::erase_if(all, [&](const GridRow* row) { return row->fields.at("preset") == part.grid.baseline; });
    }
    std::string outside, open;
    for (const GridRow* row : all) {
      if (!row->values.contains(e.rows.y)) outside += fmt::format("\n  not met by {}: no number", row->group);
    }
    for (const GridRow* row : select(rows, e.rows)) {
      const Interval& y = row->values.at(e.rows.y);
      const Verdict found = verdict(y, e.low, e.high);
      if (found == Verdict::kNotMet) {
        outside += fmt::format("\n  not met by {}: {}", row->group, interval_text(y));
      } else if (found == Verdict::kUndecided) {
        open += fmt::format("\n  not decided by {}: {}", row->group, interval_text(y));
      }
    }
    const char* said = !outside.empty() ? "NOT met" : !open.empty() ? "not decided" : "met";
    fmt::print("{}: {} ({} from {:g} to {:g}, {} rows){}{}\n", said, e.what, e.rows.y, e.low, e.high,
               all.size(), outside, open);
  }
}

// Checks that no two rows of a heat map have the same place.
void check_heat(const GridPart& part, const ChartRequest& chart, std::span<const GridRow> rows) {
  std::vector<std::string> place = chart.panels;
  place.insert(place.end(), {chart.x, chart.heat});
  for (const auto& [name, together] : split(with_fields(rows, chart.rows.only), place)) {
    for (const GridRow* row : together) {
      for (const auto& [field, value] : row->fields) {
        if (field == chart.rows.best || value == together[0]->fields.at(field)) continue;
        throw UsageError(
            fmt::format("{}.toml: runs of different {} have one place in the heat map over {} and {}; "
                        "name it in panels or only",
                        part.name, field, chart.x, chart.heat));
      }
    }
  }
}

// Checks that charts and expectations speak of what the runs will have.
void check_names(const GridPart& part, std::span<const GridRow> rows, bool quick) {
  const KnownNames names(part, rows);
  for (const ChartRequest& chart : part.charts) {
    names.check_rows(chart.rows);
    for (const std::string& field : chart.lines) names.check_field(field);
    for (const std::string& field : chart.panels) names.check_field(field);
    if (!chart.heat.empty()) {
      names.check_field(chart.heat);
      names.check_field(chart.x);
      check_heat(part, chart, rows);
    }
    if (chart.x == "step") {
      names.check_tag(chart.rows.y);
      continue;
    }
    names.check_either(chart.x);
    names.check_value(chart.rows.y);
  }
  for (const Expectation& e : part.expected) {
    names.check_rows(e.rows);
    names.check_value(e.rows.y);
    if (quick || !with_fields(rows, e.rows.only).empty()) continue;
    throw UsageError(fmt::format("{}.toml: no run has what \"{}\" speaks of", part.name, e.what));
  }
}

// A part whose cells and names are in order.
struct Prepared {
  GridPart part;
  std::vector<SweepCell> cells;
  std::vector<GridRow> rows;
};
Prepared prepare(GridPart part, const fs::path& file, const GridExperiment& o) {
  try {
    std::vector<SweepCell> cells =
        sweep_cells(part.grid, (fs::path(o.out) / part.name).string(), o.only_draws);
    std::vector<GridRow> rows = rows_of(part.grid, cells);
    check_names(part, rows, o.quick);
    return {std::move(part), std::move(cells), std::move(rows)};
  } catch (const UsageError& e) {
    throw UsageError(fmt::format("{}: {}", file.string(), e.what()));
  }
}

// The charts of a part; false where they could not be drawn.
bool draw(const GridExperiment& o, const GridPart& part, std::span<const GridRow> rows) {
  std::vector<Chart> charts;
  for (const ChartRequest& request : part.charts) {
    for (Chart& chart : charts_of(rows, request, part.grid.baseline)) {
      const bool is_empty = std::all_of(chart.series.begin(), chart.series.end(),
                                        [](const ChartSeries& s) { return s.points.empty(); });
      if (is_empty) {
        tell(fmt::format("{}: nothing to draw of {} over {}\n", o.name, request.rows.y, request.x));
      } else {
        charts.push_back(std::move(chart));
      }
    }
  }
  if (charts.empty()) return true;
  try {
    draw_picture({std::move(charts)}, (fs::path(o.out) / part.name).string(), o.svg);
  } catch (const RunError& e) {
    tell(fmt::format("{}: {}\n", o.name, e.what()));
    return false;
  }
  return true;
}

int run_part(const GridExperiment& o, Prepared& prepared) {
  const GridPart& part = prepared.part;
  const fs::path cells_folder = fs::path(o.out) / part.name;
  tell(fmt::format("{}: {}\n", o.name, part.name));
  const SweepResult result =
      run_sweep(prepared.cells, {cells_folder.string(), o.jobs, o.threads, o.only_draws});
  if (result.interrupted) return kInterrupted;
  fill(prepared.rows, prepared.cells, result.answer, cells_folder);
  write_text((fs::path(o.out) / (part.name + ".csv")).string(), csv_of(prepared.rows));
  if (!o.quick) judge(part, prepared.rows);
  const bool drawn = draw(o, part, prepared.rows);
  tell(fmt::format("{}: wrote {}/{}.csv{}\n", o.name, o.out, part.name, drawn ? " and charts" : ""));
  return result.failed == 0 && drawn ? kDone : kRunFailed;
}

std::vector<fs::path> files_of(const GridExperiment& o) {
  if (!o.file.empty()) return {o.file};
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(o.folder, error)) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  }
  if (error) {
    throw UsageError(
        fmt::format("{}: {}; its parts lie in lpmm's sources: start this there, or name them with --folder",
                    o.folder, error.message()));
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) throw UsageError(fmt::format("{}: holds no .toml file, which is a part", o.folder));
  return files;
}

}  // namespace

int run_grid_experiment(const GridExperiment& o) {
  const std::vector<fs::path> files = files_of(o);
  std::vector<std::string> names;
  std::vector<Prepared> prepared;  // all are in order before the first is run
  for (const fs::path& file : files) {
    names.push_back(file.stem().string());
    if (!matches_pattern(o.parts, names.back())) continue;
    GridPart part = load_part(file, o.quick);
    for (std::string& config : part.grid.configs) config = find_config(config);
    part.grid.settings.insert(part.grid.settings.end(), o.settings.begin(), o.settings.end());
    if (!o.seeds.empty()) part.grid.seeds = o.seeds;
    prepared.push_back(prepare(std::move(part), file, o));
  }
  if (prepared.empty()) {
    const std::vector<std::string_view> views(names.begin(), names.end());
    throw UsageError(fmt::format("{}: no part is called {}; there are {}", o.folder, o.parts, join(views)));
  }
  make_folder(o.out);
  int code = kDone;
  for (Prepared& one : prepared) {
    const int own = run_part(o, one);
    if (own == kInterrupted) return own;
    code = std::max(code, own);
  }
  return code;
}

}  // namespace lpmm
