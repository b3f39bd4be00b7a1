#include "experiments/sweep/grid_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "lpmm/files/toml_table.h"

namespace lpmm {
namespace {

Selection read_selection(const TomlTable& table) {
  Selection out{.y = table.text("y").value_or(""), .only = {}, .best = table.text("best").value_or("")};
  const TomlTable only = table.table("only");
  for (const std::string& key : only.keys()) out.only[key] = *only.text(key);
  if (out.y.empty()) table.refuse("y names what is shown");
  if (!out.best.empty() && out.y.ends_with("_gap")) {
    table.refuse("the best of gaps is where the baseline is worst: with best, show what the gap is of");
  }
  return out;
}

void check_chart(const TomlTable& table, const ChartRequest& chart) {
  if (chart.x.empty()) table.refuse("x names what y is shown over");
  if (chart.x == "step" && (chart.front || !chart.rows.best.empty())) {
    table.refuse("front and best are of results: x cannot be step");
  }
  if (!chart.heat.empty() &&
      (chart.x == "step" || chart.front || !chart.lines.empty() || !chart.log.empty())) {
    table.refuse("a heat map has x and heat, and neither lines, front, log nor steps");
  }
  if (!table.has("limits")) return;
  if (chart.limits.size() != 2 || !(chart.limits[0] < chart.limits[1]))
    table.refuse("limits", "limits are the least and the largest number shown");
  if (chart.log.ends_with('y') && chart.limits[0] <= 0)
    table.refuse("limits", "limits of a log axis are above 0");
}

ChartRequest read_chart(const TomlTable& table) {
  constexpr std::string_view kLogs[] = {"x", "y", "xy"};
  ChartRequest out;
  out.rows = read_selection(table);
  out.title = table.text("title").value_or("");
  out.x = table.text("x").value_or("");
  if (const auto log = table.choice("log", kLogs)) out.log = kLogs[*log];
  out.lines = table.texts("lines").value_or(out.lines);
  out.panels = table.texts("panels").value_or(out.panels);
  out.heat = table.text("heat").value_or("");
  out.limits = table.numbers("limits").value_or(out.limits);
  out.front = table.boolean("front").value_or(false);
  table.refuse_unknown();
  check_chart(table, out);
  return out;
}

Expectation read_expectation(const TomlTable& table) {
  Expectation out;
  out.rows = read_selection(table);
  out.what = table.text("what").value_or("");
  out.low = table.number("low").value_or(out.low);
  out.high = table.number("high").value_or(out.high);
  table.refuse_unknown();
  if (out.what.empty()) table.refuse("what says what is expected");
  if (!(out.low <= out.high) || (std::isinf(out.low) && std::isinf(out.high)))
    table.refuse("low, high or both bound what is expected, low at most high");
  return out;
}

void make_quick(const TomlTable& quick, SweepGrid& grid) {
  for (std::string& setting : quick.texts("set").value_or(std::vector<std::string>()))
    grid.settings.push_back(std::move(setting));
  grid.configs = quick.texts("configs").value_or(grid.configs);
  if (auto presets = quick.texts("presets")) {
    if (std::find(presets->begin(), presets->end(), grid.baseline) == presets->end()) grid.baseline.clear();
    grid.presets = std::move(*presets);
  }
  constexpr std::int64_t kMostSeeds = 1000;
  const auto seeds = static_cast<std::size_t>(quick.integer("seeds", 1, kMostSeeds).value_or(1));
  if (seeds < grid.seeds.size()) grid.seeds.resize(seeds);
  const TomlTable axes = quick.table("axes");
  for (const std::string& key : axes.keys()) {
    const auto axis =
        std::find_if(grid.axes.begin(), grid.axes.end(), [&](const SweepAxis& a) { return a.key == key; });
    if (axis == grid.axes.end()) axes.refuse(fmt::format("the grid has no axis {}", key));
    axis->values = *axes.plain_values(key);
  }
}

}  // namespace

GridPart load_part(const std::filesystem::path& path, bool quick) {
  const TomlTable root = TomlTable::load(path.string());
  GridPart part{path.stem().string(), read_grid(root), {}, {}};
  for (const TomlTable& chart : root.tables("chart")) part.charts.push_back(read_chart(chart));
  for (const TomlTable& expected : root.tables("expected"))
    part.expected.push_back(read_expectation(expected));
  const TomlTable of_quick = root.table("quick");
  if (quick) {
    make_quick(of_quick, part.grid);                               // without [quick] one seed of all
    for (ChartRequest& chart : part.charts) chart.limits.clear();  // they are of whole runs
  } else {
    root.skip("quick");
  }
  root.refuse_unknown();
  return part;
}

}  // namespace lpmm
