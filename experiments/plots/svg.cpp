#include "experiments/plots/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "experiments/plots/figures.h"
#include "experiments/plots/html.h"

namespace lpmm {
namespace {

std::string colour(std::size_t run) {
  const std::size_t at = run % std::size(kRunColours);
  // Black curves are white on a dark page.
  return std::string_view(kRunColours[at]) == "#000000" ? "var(--colour6)" : kRunColours[at];
}

// Positions in the picture of a range of values.
struct AxisScale {
  double low = 0, high = 1, from = 0, to = 1;
  double density = 1;  // density of marks: at most six times as many
  double operator()(double value) const { return from + (value - low) / (high - low) * (to - from); }
  double distance() const { return tic_distance((high - low) / density); }
  std::vector<double> tics() const {
    const double distance = this->distance();
    std::vector<double> out;
    const double first = std::ceil(low / distance - 1e-9);
    for (int i = 0; i < 12 && (first + i) * distance <= high + 1e-9 * distance; ++i) {
      out.push_back((first + i) * distance + 0.0);  // no -0
    }
    return out;
  }
};

// The range of some values, a little wider, and never empty.
void fit(AxisScale& scale, double low, double high) {
  const double room = std::max({0.04 * (high - low), 1e-6 * std::max(std::abs(low), std::abs(high)), 1e-9});
  scale.low = low - room;
  scale.high = high + room;
}

// Writes a number with as many digits as tell a mark from its neighbours.
std::string tic_text(double value, double distance) {
  if (std::abs(value) >= 1e7) return fmt::format("{:.6g}", value);
  const int digits = std::max(0, static_cast<int>(-std::floor(std::log10(distance) + 1e-9)));
  return fmt::format("{:.{}f}", value, digits);
}

// Never with an exponent, whatever it is.
std::string value_text(double value) {
  if (std::abs(value) >= 1e7) return with_commas(value);
  return fmt::format("{:.{}f}", value, std::abs(value) >= 100 ? 2 : 5);
}

constexpr double kWidth = 460, kHeight = 280, kLeft = 52, kRight = 22, kTop = 10, kBottom = 40;

struct Axes {
  AxisScale x{0, 1, kLeft, kWidth - kRight}, y{0, 100, kHeight - kBottom, kTop};
};
Axes axes_of(const Chart& chart) {
  double low = HUGE_VAL, high = -HUGE_VAL, last = 1;
  for (const ChartSeries& series : chart.series) {
    for (const auto& [step, value] : series.points) {
      low = std::min(low, value);
      high = std::max(high, value);
      last = std::max(last, step);
    }
  }
  Axes axes;
  axes.x.high = last;
  axes.y.density = 1.5;
  if (!chart.percent) fit(axes.y, low, high);
  return axes;
}

std::string drawn(const Axes& axes, const Chart& chart) {
  const auto& [x, y] = axes;
  std::string out;
  for (const double v : y.tics()) {
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/><text x=\"{3}\" "
        "y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        kLeft, kWidth - kRight, y(v), kLeft - 6, y(v) + 4, tic_text(v, y.distance()));
  }
  for (const double v : x.tics()) {
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", x(v),
                       kHeight - kBottom + 17, tic_text(v, x.distance()));
  }
  return out + fmt::format(
                   "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>"
                   "<text transform=\"translate(12 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                   (kLeft + kWidth - kRight) / 2, kHeight - 6, html(chart.x_label),
                   (kTop + kHeight - kBottom) / 2, html(chart.y_label));
}

std::string curve(const Axes& axes, const ChartSeries& series, std::size_t run, const std::string& label) {
  std::string points, steps, values;
  for (const auto& [step, value] : series.points) {
    points += fmt::format("{:.1f},{:.1f} ", axes.x(step), axes.y(value));
    steps += fmt::format("{:.0f} ", step);
    values += fmt::format("{} ", value_text(value));
  }
  const auto& [last, reached] = series.points.back();
  const std::string shape =
      series.points.size() == 1
          ? fmt::format("<circle r=\"3\" style=\"fill:{}\" cx=\"{:.1f}\" cy=\"{:.1f}\"/>", colour(run),
                        axes.x(last), axes.y(reached))
          : fmt::format("<polyline class=\"curve\" points=\"{}\"/>", points);
  return fmt::format(
      "<g class=\"run{}\" data-label=\"{}\" data-steps=\"{}\" data-values=\"{}\"{}><title>{}</title>{}</g>\n",
      run, html(label), steps, values, run_stroke(run),
      html(fmt::format("{}: {} at step {}", label, value_text(reached), with_commas(last))), shape);
}

}  // namespace

std::string run_stroke(std::size_t run) {
  const std::size_t round = run / std::size(kRunColours);
  const std::string dashes =
      round == 0 ? "" : fmt::format(" stroke-dasharray=\"{} {}\"", 2 + 2 * round, 1 + round);
  return fmt::format(" style=\"stroke:{}\"{}", colour(run), dashes);
}

std::string run_key(std::size_t run) {
  return fmt::format("<svg class=\"line\" viewBox=\"0 0 22 8\"><line x2=\"22\" y1=\"4\" y2=\"4\"{}/></svg>",
                     run_stroke(run));
}

std::string chart_figure(const Chart& chart, std::span<const std::string> labels) {
  const Axes axes = axes_of(chart);
  std::string out = fmt::format(
      "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\" "
      "data-first=\"{:.1f}\" data-last=\"{:.1f}\" data-steps=\"{:.0f}\">\n",
      html(chart.title), kWidth, kHeight, html(chart.title + " over steps"), axes.x.from, axes.x.to,
      axes.x.high);
  out += drawn(axes, chart);
  for (std::size_t r = 0; r < chart.series.size(); ++r) {
    if (!chart.series[r].points.empty()) out += curve(axes, chart.series[r], r, labels[r]);
  }
  return out + fmt::format("<line class=\"here off\" y1=\"{}\" y2=\"{}\"/></svg></figure>\n", kTop,
                           kHeight - kBottom);
}

}  // namespace lpmm
