#include "experiments/plots/watch_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lpmm/run/watch/watch.h"

namespace lpmm {
namespace {

constexpr std::size_t kMostRows = 40;  // whose names can be read
constexpr double kMostDoublings = 4;

// White where all is usual, yellow to red where it is more, blue where it is less.
std::uint32_t doubling_colour(double doublings) {
  const double x = std::clamp(doublings, -1.0, kMostDoublings);
  const auto mix = [](double share, int from, int to) {
    return static_cast<std::uint32_t>(std::lround(from + share * (to - from)));
  };
  const auto blend = [&](double share, const int(&a)[3], const int(&b)[3]) {
    return mix(share, a[0], b[0]) << 16 | mix(share, a[1], b[1]) << 8 | mix(share, a[2], b[2]);
  };
  constexpr int kWhite[] = {255, 255, 255}, kBlue[] = {120, 170, 220}, kYellow[] = {245, 200, 80},
                kRed[] = {150, 0, 40};
  if (x < 0) return blend(-x, kWhite, kBlue);
  const double half = kMostDoublings / 2;
  return x < half ? blend(x / half, kWhite, kYellow) : blend(x / half - 1, kYellow, kRed);
}

double doublings_of(const WatchPicture& of, const UpdateStatistics& s, std::size_t tensor) {
  double most = -1;
  for (const Measure& measure : kMeasures) {
    const std::optional<Usual> before = usual(of.statistics, of.spike, tensor, measure);
    if (!before || !(before->mean > 0)) continue;
    const double value = s.tensors[tensor].*measure.value;
    most = std::max(most, std::isfinite(value) ? std::log2(value / before->mean) : kMostDoublings);
  }
  return most;
}

// The tensors that moved, in their order, and then the rest, as many as can be shown.
std::vector<std::size_t> shown_tensors(const WatchPicture& of) {
  std::vector<std::size_t> shown;
  for (const Move& move : of.moves) shown.push_back(move.tensor);
  for (std::size_t t = 0; t < of.tensors.size(); ++t) {
    if (std::find(shown.begin(), shown.end(), t) == shown.end()) shown.push_back(t);
  }
  if (shown.size() > kMostRows) shown.resize(kMostRows);
  return shown;
}

ChartSeries losses(std::span<const UpdateStatistics> statistics, std::int64_t first, const std::string& title,
                   const char* colour) {
  ChartSeries series{title, fmt::format("linespoints lw 2 pt 7 ps 0.4 lc rgb '{}'", colour), {}};
  for (const UpdateStatistics& s : statistics) {
    if (s.step >= first && std::isfinite(s.loss)) {
      series.points.emplace_back(static_cast<double>(s.step), s.loss);
    }
  }
  return series;
}

}  // namespace

Picture watch_picture(const WatchPicture& of) {
  const std::vector<std::size_t> shown = shown_tensors(of);
  const std::int64_t first = of.spike - 2 * kStepsBefore;
  const std::int64_t last = of.statistics.empty() ? of.spike : of.statistics.back().step;
  ChartSeries map{"", "boxxyerror fs solid noborder lc rgb variable", {}};
  map.has_heat_labels = false;
  for (std::size_t row = 0; row < shown.size(); ++row) {
    for (const UpdateStatistics& s : of.statistics) {
      if (s.step < first || s.tensors.size() <= shown[row]) continue;
      const double doublings = doublings_of(of, s, shown[row]);
      map.points.emplace_back(static_cast<double>(s.step), -static_cast<double>(row));
      map.heat.emplace_back(doublings, doubling_colour(doublings));
    }
  }
  std::string names;
  for (std::size_t row = 0; row < shown.size(); ++row) {
    names += fmt::format("{}{} -{}", row == 0 ? "" : ", ", quoted(of.tensors[shown[row]]), row);
  }
  const std::string range = fmt::format("set xrange [{}:{}]\nset lmargin 26\n",
                                        static_cast<double>(first) - 0.5, static_cast<double>(last) + 0.5);
  Picture picture;
  picture.rows = {1, 1};
  picture.charts.push_back({fmt::format("update, RMS or gradient, the furthest above its usual value: yellow "
                                        "4 times, red 16 times; the spike is at step {}",
                                        of.spike),
                            "step",
                            "",
                            range + fmt::format("set ytics ({}) noenhanced font ',8'\nset yrange [{}:0.5]\n",
                                                names, 0.5 - static_cast<double>(shown.size())),
                            {map}});
  Chart loss{"loss of each step", "step", "loss", range + "set yrange [*:*]\n", {}};
  loss.series.push_back(losses(of.statistics, first, "as it was", kRunColours[1]));
  if (!of.without.empty()) {
    loss.series.push_back(losses(of.without, first, "without " + of.left_out, kRunColours[0]));
  }
  picture.charts.push_back(std::move(loss));
  return picture;
}

}  // namespace lpmm
