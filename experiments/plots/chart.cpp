#include "experiments/plots/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "experiments/plots/gnuplot.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace fs = std::filesystem;

namespace {

// A gnuplot string without escapes, shown as it is: in single quotes only a quote is special.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) continue;
    out += c;
    if (c == '\'') out += c;
  }
  return out + "'";
}

// Short enough for a square.
std::string heat_label(double value) {
  const double size = std::abs(value);
  if (size < 0.0005) return "0";
  return size < 1000 ? fmt::format("{:.{}f}", value,
                                   size < 1    ? 3
                                   : size < 10 ? 2
                                               : 1)
                     : fmt::format("{:.2g}", value);
}

}  // namespace

void draw_charts(const std::string& out, const std::string& name, const std::vector<Chart>& charts) {
  std::string script;
  std::string body;
  int block = 0;
  for (const Chart& chart : charts) {
    body += fmt::format(
        "unset logscale\nset autoscale\nset format\nset xtics auto norotate\nset ytics auto\nset title {} "
        "noenhanced\n"
        "set xlabel {} noenhanced\nset ylabel {} noenhanced\n{}\n",
        quoted(chart.title), quoted(chart.x_label), quoted(chart.y_label), chart.scales);
    // As many lines of the key as its entries need, three in a line where they are short.
    std::size_t entries = 0, longest = 0;
    for (const ChartSeries& s : chart.series) {
      entries += s.title.empty() || s.points.empty() ? 0 : 1;
      longest = std::max(longest, s.title.size());
    }
    const std::size_t in_line = longest <= 11 ? 3 : 2, lines = (entries + in_line - 1) / in_line;
    // Two long ones beside each other would be cut off at the edge.
    body += fmt::format(
        "set key bmargin center maxrows {} {}\nset bmargin {}\n", std::max<std::size_t>(1, lines),
        longest <= 24 ? "samplen 2 width 1" : "samplen 1 width -1", 4 + std::max<std::size_t>(2, lines));
    std::string plots;
    for (const ChartSeries& s : chart.series) {
      if (s.points.empty()) continue;
      script += fmt::format("$d{} << EOD\n", block);
      const bool bounded = s.bounds.size() == s.points.size(), hot = s.heat.size() == s.points.size();
      for (std::size_t i = 0; i < s.points.size(); ++i) {
        script += fmt::format("{:.6g} {:.6g}", s.points[i].first, s.points[i].second);
        if (bounded) script += fmt::format(" {:.6g} {:.6g}", s.bounds[i].first, s.bounds[i].second);
        if (hot) script += fmt::format(" {} {}", s.heat[i].second, heat_label(s.heat[i].first));
        script += "\n";
      }
      script += "EOD\n";
      const char* columns = hot                                   ? "1:2:(0.5):(0.5):3"
                            : !bounded                            ? "1:2"
                            : s.style.starts_with("filledcurves") ? "1:3:4"
                                                                  : "1:2:3:4";
      plots += fmt::format("{}$d{} using {} with {} {}", plots.empty() ? "plot " : ", ", block, columns,
                           s.style, s.title.empty() ? "notitle" : "title " + quoted(s.title) + " noenhanced");
      if (hot) plots += fmt::format(", $d{} using 1:2:4 with labels notitle", block);
      ++block;
    }
    body += plots + "\n";
  }
  const std::size_t columns = std::min<std::size_t>(3, charts.size());
  const std::size_t rows = (charts.size() + columns - 1) / columns;
  const auto page = [&](const char* terminal, const char* extension) {
    return fmt::format("set terminal {}\nset output {}\nset multiplot layout {},{}\n{}unset multiplot\n",
                       terminal, quoted(name + "." + extension), rows, columns, body);
  };
  script += "set grid\nset xlabel offset 0,0.6\n";
  script += page(fmt::format("pngcairo font 'sans,11' size {},{}", 560 * columns, 480 * rows).c_str(), "png");
  script += page(fmt::format("svg size {},{} dynamic background 'white'", 560 * columns, 480 * rows).c_str(),
                 "svg");
  write_text((fs::path(out) / (name + ".gp")).string(), script);
  draw_with_gnuplot(script, name, (fs::path(out) / name).string());
}

}  // namespace lpmm
