#include "experiments/plots/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "experiments/plots/records.h"
#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"
#include "lpmm/data/scores.h"
#include "lpmm/memory/spec.h"
#include "lpmm/run/run_folder.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

void add_point(Curve& curve, double step, const std::optional<double>& value, double scale = 1) {
  if (value) curve.emplace_back(step, scale * *value);
}

Curve& curve_of(PlotRun& run, const std::string& score) {
  for (auto& [name, curve] : run.scores) {
    if (name == score) return curve;
  }
  return run.scores.emplace_back(score, Curve()).second;
}
Curve curve_of(const PlotRun& run, const std::string& score) {
  for (const auto& [name, curve] : run.scores) {
    if (name == score) return curve;
  }
  return {};
}

// All that some run is scored by, in the order in which they come.
std::vector<std::string> score_names(std::span<const PlotRun> runs) {
  std::vector<std::string> names;
  for (const PlotRun& run : runs) {
    for (const auto& [name, curve] : run.scores) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

constexpr std::size_t kMostPoints = 250;

// Means of equal runs of points, so that a long curve stays readable.
Curve thinned(const Curve& curve) {
  const std::size_t bin = (curve.size() + kMostPoints - 1) / kMostPoints;
  if (bin <= 1) return curve;
  Curve out;
  for (std::size_t first = 0; first < curve.size(); first += bin) {
    const std::size_t end = std::min(curve.size(), first + bin);
    double step = 0, value = 0;
    for (std::size_t i = first; i < end; ++i) {
      step += curve[i].first / static_cast<double>(end - first);
      value += curve[i].second / static_cast<double>(end - first);
    }
    out.emplace_back(step, value);
  }
  return out;
}

// A label that a legend can hold.
std::string shortened(const std::string& given) {
  constexpr std::size_t kMost = 90;
  std::string label = printable(given);
  if (label.size() <= kMost) return label;
  std::size_t end = kMost;
  while ((label[end] & 0xC0) == 0x80) --end;  // not inside of a UTF-8 character
  return label.substr(0, end) + "...";
}

// gnuplot's style of the curve of a run.
std::string style_of(const Curve& curve, std::size_t run) {
  return fmt::format("{} lw 2 lc rgb '{}'", curve.size() <= 12 ? "linespoints pt 7 ps 0.5" : "lines",
                     kRunColours[run % std::size(kRunColours)]);
}

}  // namespace

std::string log_path(const std::string& run) {
  std::error_code none;
  return fs::is_directory(run, none) ? RunFolder(run).log.string() : run;
}

PlotRun plot_run(const NamedRun& named, std::span<const Json> records) {
  PlotRun run;
  run.label = named.label;
  if (run.label.empty()) {
    run.label = fs::absolute(log_path(named.path)).lexically_normal().parent_path().filename().string();
  }
  for (const Json& record : records) {
    const std::string type = record["type"];
    if (type == "summary") run.summary = record.dump();
    if (type == "step") run.summary.clear();  // it went on after it had ended
    const auto step = number_in(record, "step");
    if (!step || *step < 0) continue;
    if (type == "step") add_point(run.loss, *step, number_in(record, "loss"));
    if (type == "eval") {
      add_point(run.test_loss, *step, number_in(record, "loss"));
      for (const NamedScore& score : scores_in(record)) {
        add_point(curve_of(run, score.name), *step, score.value, score_kind(score.name).scale);
      }
    }
    if (type != "underflow") continue;
    for (const Role role : kEveryElementRole) {
      const Json& stored = object_in(object_in(record, "roles"), to_string(role));
      add_point(run.underflow[role], *step, number_in(stored, "share"), 100);
    }
  }
  return run;
}

std::vector<Chart> charts_of_runs(std::span<const PlotRun> runs) {
  std::vector<Chart> charts;
  const auto add = [&](const std::string& title, const std::string& axis, bool percent, auto shown) {
    Chart chart{title, "step", axis, "", {}, percent};
    for (const PlotRun& run : runs) {
      Curve curve = thinned(shown(run));
      chart.series.push_back({"", style_of(curve, chart.series.size()), std::move(curve)});
    }
    const auto is_empty = [](const ChartSeries& s) { return s.points.empty(); };
    if (!std::all_of(chart.series.begin(), chart.series.end(), is_empty)) charts.push_back(std::move(chart));
  };
  const char* nats = "cross entropy (nats)";
  add("training loss", nats, false, [](const PlotRun& r) { return r.loss; });
  add("test loss", nats, false, [](const PlotRun& r) { return r.test_loss; });
  for (const std::string& name : score_names(runs)) {
    const ScoreKind kind = score_kind(name);
    add(fmt::format("test {}", kind.title), kind.name == "accuracy" ? "correct (%)" : std::string(kind.title),
        false, [&](const PlotRun& r) { return curve_of(r, name); });
  }
  for (const Role role : kEveryElementRole) {
    add(fmt::format("underflow, {}", to_string(role)), "increments lost (%)", true,
        [&](const PlotRun& r) { return r.underflow[role]; });
  }
  return charts;
}

void draw_runs(std::span<const PlotRun> runs, const std::string& prefix, bool svg) {
  constexpr std::size_t kMostRuns = std::size(kRunColours);
  if (runs.size() > kMostRuns) {
    throw UsageError(
        fmt::format("{} runs on one plot; {} at most can be told apart", runs.size(), kMostRuns));
  }
  Picture picture{charts_of_runs(runs)};
  if (picture.charts.empty()) throw RunError("nothing to plot: the logs hold no steps yet");
  double last = 1;
  for (const Chart& chart : picture.charts) {
    for (const ChartSeries& s : chart.series)
      last = std::max(last, s.points.empty() ? 0 : s.points.back().first);
  }
  // Losses and scores in a first row, the roles' shares in a last one.
  std::size_t shares = 0;
  for (const Chart& chart : picture.charts) shares += chart.percent ? 1 : 0;
  for (Chart& chart : picture.charts) {
    const bool narrow = chart.percent && shares > 3;  // its marks would run into each other
    chart.scales =
        fmt::format("set xrange [0:{}]\nset xtics {}", last, tic_distance(narrow ? 2 * last : last));
  }
  for (const std::size_t row : {picture.charts.size() - shares, shares}) {
    if (row > 0) picture.rows.push_back(row);
  }
  for (const PlotRun& run : runs) picture.key.push_back(shortened(run.label));
  draw_picture(picture, prefix, svg);
}

}  // namespace lpmm
