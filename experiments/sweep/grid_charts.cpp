#include "experiments/sweep/grid_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "experiments/plots/records.h"
#include "experiments/sweep/statistics.h"
#include "lpmm/base/text.h"
#include "lpmm/run/run_folder.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

const char* line_colour(std::size_t line) {
  return kRunColours[line % std::size(kRunColours)];
}
// Lines of one colour differ in dashes and marks: discs, squares, triangles, diamonds, and these hollow.
std::string line_style(std::size_t line) {
  constexpr int kMarks[] = {7, 5, 9, 13, 6, 4, 8, 12};
  const std::size_t round = line / std::size(kRunColours);
  return fmt::format("pt {} dt {} lc '{}'", kMarks[round % std::size(kMarks)], round % 5 + 1,
                     line_colour(line));
}

double leading_number(const std::string& text) {
  return std::strtod(text.c_str(), nullptr);
}

// The place of each row on an axis: its number, or where not all are numbers its rank of appearance; with
// `by_rank` always a rank, of numbers by size.
class Axis {
 public:
  Axis(const GridRows& rows, const std::string& name, bool by_rank = false) : name_(name) {
    for (const GridRow* row : rows) {
      if (row->values.contains(name)) continue;
      const std::string& text = row->fields.at(name);
      char* end = nullptr;
      varied_[std::strtod(text.c_str(), &end)] = text;
      if (text.empty() || *end != '\0') categories_ = true;
    }
    constexpr std::size_t kMostMarks = 10;  // more would run into each other
    if (varied_.size() > kMostMarks) varied_.clear();
    if (!categories_ && !by_rank) return;
    for (const auto& [text, some] : split(rows, {name})) ranks_.push_back(text);
    if (categories_) return;
    categories_ = true;
    std::sort(ranks_.begin(), ranks_.end(), [](const std::string& a, const std::string& b) {
      return leading_number(a) < leading_number(b);
    });
  }
  double of(const GridRow& row) const {
    const auto value = row.values.find(name_);
    if (value != row.values.end()) return value->second.mean;
    const std::string& text = row.fields.at(name_);
    if (!categories_) return leading_number(text);
    return static_cast<double>(std::find(ranks_.begin(), ranks_.end(), text) - ranks_.begin());
  }
  // gnuplot's commands for it as the axis x or y. Marks are at the values that were varied.
  std::string scale(char axis, bool is_log) const {
    std::string marks;
    for (const auto& [value, text] : varied_)
      marks += fmt::format("{}'{}' {}", marks.empty() ? "" : ", ", text, value);
    if (!categories_) {
      return (is_log ? fmt::format("set logscale {}\n", axis) : "") +
             (marks.empty() ? "" : fmt::format("set {}tics ({})\n", axis, marks));
    }
    std::string out = fmt::format("set {}tics (", axis);
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      out += fmt::format("{}'{}' {}", i == 0 ? "" : ", ", file_name(ranks_[i]), i);
    }
    return out + ") noenhanced\n";  // a _ is no index
  }

 private:
  std::string name_;
  bool categories_ = false;  // else numbers
  std::map<double, std::string> varied_;
  std::vector<std::string> ranks_;
};

ChartSeries line_of(const GridRows& rows, const Axis& axis, const ChartRequest& request,
                    const std::string& title, std::size_t line) {
  ChartSeries out{title, (request.front ? "points " : "yerrorlines ") + line_style(line), {}};
  GridRows sorted = rows;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const GridRow* a, const GridRow* b) { return axis.of(*a) < axis.of(*b); });
  for (const GridRow* row : sorted) {
    const Interval& y = row->values.at(request.rows.y);
    out.points.emplace_back(axis.of(*row), y.mean);
    if (!request.front) out.bounds.emplace_back(y.low, y.high);
  }
  return out;
}

// A dot for every seed, beside the means of that line, where few were trained.
ChartSeries seeds_of(const GridRows& rows, const Axis& axis, const ChartRequest& request, std::size_t line) {
  constexpr std::size_t kFew = 8;
  ChartSeries out{"", fmt::format("points pt 6 ps 0.4 lc '{}'", line_colour(line)), {}};
  for (const GridRow* row : rows) {
    const std::vector<double>& seeds = row->values.at(request.rows.y).seeds;
    if (seeds.size() < 2 || seeds.size() > kFew) continue;
    for (const double y : seeds) out.points.emplace_back(axis.of(*row), y);
  }
  return out;
}

// y of the best of these rows, from the least to the greatest x of the series.
ChartSeries level_of(const GridRows& rows, const ChartRequest& request, const std::string& title,
                     std::span<const ChartSeries> series) {
  ChartSeries out{title, "lines lw 2 lc '#808080'", {}};
  const double sign = more_is_better(request.rows.y) ? -1 : 1;
  double best = INFINITY, low = INFINITY, high = -INFINITY;
  for (const GridRow* row : rows) best = std::min(best, sign * row->values.at(request.rows.y).mean);
  for (const ChartSeries& s : series) {
    for (const auto& [x, y] : s.points) {
      low = std::min(low, x);
      high = std::max(high, x);
    }
  }
  if (std::isfinite(best) && low <= high) out.points = {{low, sign * best}, {high, sign * best}};
  return out;
}

// The points that no other one beats in x and y, from left to right.
ChartSeries front_of(const GridRows& rows, const Axis& axis, const ChartRequest& request) {
  ChartSeries out{"front", "lines lw 2 lc 'black'", {}};
  const double sign = more_is_better(request.rows.y) ? -1 : 1;
  const auto place = [&](const GridRow* row) {
    return std::pair(axis.of(*row), sign * row->values.at(request.rows.y).mean);
  };
  GridRows sorted = rows;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const GridRow* a, const GridRow* b) { return place(a) < place(b); });
  double best = INFINITY;
  for (const GridRow* row : sorted) {
    const double y = place(row).second;
    if (y >= best) continue;
    best = y;
    out.points.emplace_back(axis.of(*row), sign * y);
  }
  return out;
}

// Blue at 0, which is good, by white to red at 1.
std::uint32_t heat_colour(double place) {
  constexpr int kGood[] = {0x21, 0x66, 0xac}, kMiddle[] = {0xf7, 0xf7, 0xf7}, kBad[] = {0xd6, 0x60, 0x4d};
  const double t = 2 * std::clamp(place, 0.0, 1.0) - 1;
  std::uint32_t out = 0;
  for (int i = 0; i < 3; ++i) {
    const double part = kMiddle[i] + std::abs(t) * ((t < 0 ? kGood[i] : kBad[i]) - kMiddle[i]);
    out = out << 8 | static_cast<std::uint32_t>(std::lround(part));
  }
  return out;
}

// y as the colours of squares over x and the field `heat`.
Chart heat_map_of(const GridRows& rows, const ChartRequest& request, const std::string& title) {
  const Axis x(rows, request.x, true), y(rows, request.heat, true);
  const auto value = [&](const GridRow* row) { return row->values.at(request.rows.y).mean; };
  double low = INFINITY, high = -INFINITY;
  for (const GridRow* row : rows) {
    low = std::min(low, value(row));
    high = std::max(high, value(row));
  }
  if (!request.limits.empty()) {
    low = request.limits[0];
    high = request.limits[1];
  }
  ChartSeries squares{"", "boxxyerror fs solid noborder lc rgb variable", {}};
  for (const GridRow* row : rows) {
    const double place = high > low ? (value(row) - low) / (high - low) : 0.5;
    squares.points.emplace_back(x.of(*row), y.of(*row));
    squares.heat.emplace_back(value(row), heat_colour(more_is_better(request.rows.y) ? 1 - place : place));
  }
  return {title, request.x, request.heat, x.scale('x', false) + y.scale('y', false), {std::move(squares)}};
}

// A tag of the logs over steps: the mean of the seeds, and a band from the lowest to the highest.
void add_curve(const GridRows& rows, const std::string& tag, const std::string& title, std::size_t line,
               Chart& chart) {
  constexpr std::size_t kMostPoints = 200;
  std::map<std::int64_t, std::vector<double>> steps;
  for (const GridRow* row : rows) {
    for (const fs::path& folder : row->folders) {
      for (const Scalar& s : scalars_of(read_log(RunFolder(folder.string()).log.string()))) {
        if (s.tag == tag) steps[s.step].push_back(s.value);
      }
    }
  }
  ChartSeries band{
      "", fmt::format("filledcurves fs transparent solid 0.2 noborder lc '{}'", line_colour(line)), {}};
  ChartSeries mean{title, "lines lw 2 " + line_style(line), {}};
  const std::size_t bin = std::max<std::size_t>(1, (steps.size() + kMostPoints - 1) / kMostPoints);
  bool has_band = false;
  for (auto at = steps.begin(); at != steps.end();) {
    // Means of `bin` steps, seed by seed as far as all have them.
    double step = 0, low = 0, high = 0, middle = 0, n = 0;
    for (std::size_t i = 0; i < bin && at != steps.end(); ++i, ++at, n += 1) {
      step += static_cast<double>(at->first);
      const auto [least, most] = std::minmax_element(at->second.begin(), at->second.end());
      low += *least;
      high += *most;
      middle += mean_of(at->second).mean;
      has_band = has_band || at->second.size() > 1;
    }
    mean.points.emplace_back(step / n, middle / n);
    band.points.emplace_back(step / n, middle / n);
    band.bounds.emplace_back(low / n, high / n);
  }
  if (has_band) chart.series.push_back(std::move(band));
  chart.series.push_back(std::move(mean));
}

// A front is drawn below or above what it is compared with, where there is anything else: the baseline's
// rows, taken out of the others.
GridRows take_compared(GridRows& rows, const std::string& baseline) {
  const auto is_other = [&](const GridRow* row) { return row->fields.at("preset") != baseline; };
  const auto first = std::stable_partition(rows.begin(), rows.end(), is_other);
  if (first == rows.begin()) return {};
  GridRows compared(first, rows.end());
  rows.erase(first, rows.end());
  return compared;
}

// The front of a panel, and the best baseline of those that have its fields.
void add_front(const GridRows& in_panel, GridRows compared, const Axis& axis, const ChartRequest& request,
               const std::string& baseline, Chart& chart) {
  chart.series.push_back(front_of(in_panel, axis, request));
  const GridRow& shown = *in_panel[0];
  for (const std::string& field : request.panels) {
    if (field == "preset" || field.starts_with("memory.")) continue;
    std::erase_if(compared,
                  [&](const GridRow* row) { return row->fields.at(field) != shown.fields.at(field); });
  }
  if (!compared.empty()) chart.series.push_back(level_of(compared, request, baseline, chart.series));
}

std::string scales_of(const Axis& axis, const ChartRequest& request) {
  std::string scales = axis.scale('x', request.log.find('x') != request.log.npos);
  if (request.log.ends_with('y')) scales += "set logscale y\nset format y '%g'\n";
  if (!request.limits.empty())
    scales += fmt::format("set yrange [{}:{}]\n", request.limits[0], request.limits[1]);
  return scales;
}

}  // namespace

std::vector<Chart> charts_of(std::span<const GridRow> rows, const ChartRequest& request,
                             const std::string& baseline) {
  const bool is_curve = request.x == "step";
  GridRows selected = is_curve ? with_fields(rows, request.rows.only) : select(rows, request.rows);
  if (!is_curve) {  // a baseline has no gap to itself
    std::erase_if(selected, [&](const GridRow* row) {
      return !row->fields.contains(request.x) && !row->values.contains(request.x);
    });
  }
  GridRows compared;
  if (request.front && !baseline.empty()) compared = take_compared(selected, baseline);
  // A line keeps its colour in charts that lack others, as one of gaps lacks the baseline.
  const auto named = split(with_fields(rows, request.rows.only), request.lines);
  const auto place_of = [&](const std::string& name) {
    const auto at = std::find_if(named.begin(), named.end(), [&](const auto& n) { return n.first == name; });
    return static_cast<std::size_t>(at - named.begin());
  };
  std::vector<Chart> charts;
  for (const auto& [panel, in_panel] : split(selected, request.panels)) {
    std::string title = request.title.empty() ? request.rows.y : request.title;
    if (!panel.empty()) title += ": " + panel;
    if (!request.heat.empty()) {
      charts.push_back(heat_map_of(in_panel, request, title));
      continue;
    }
    const Axis axis(is_curve ? GridRows{} : in_panel, request.x);
    Chart chart{title, request.x, request.rows.y, scales_of(axis, request), {}};
    for (const auto& [name, in_line] : split(in_panel, request.lines)) {
      if (is_curve) {
        add_curve(in_line, request.rows.y, name, place_of(name), chart);
      } else {
        chart.series.push_back(line_of(in_line, axis, request, name, place_of(name)));
        if (!request.front) chart.series.push_back(seeds_of(in_line, axis, request, place_of(name)));
      }
    }
    if (request.front) add_front(in_panel, compared, axis, request, baseline, chart);
    charts.push_back(std::move(chart));
  }
  return charts;
}

}  // namespace lpmm
