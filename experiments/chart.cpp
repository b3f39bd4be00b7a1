#include "experiments/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "experiments/process.h"
#include "lpmm/error.h"
#include "lpmm/files.h"

namespace lpmm {
namespace fs = std::filesystem;

void draw_charts(const std::string& out, const std::string& name, const std::vector<Chart>& charts) {
  std::string script;
  std::string body;
  int block = 0;
  for (const Chart& chart : charts) {
    body += fmt::format(
        "unset logscale\nset autoscale\nset format\nset title '{}'\nset xlabel '{}'\nset ylabel '{}'\n{}\n",
        chart.title, chart.x_label, chart.y_label, chart.scales);
    std::string plots;
    for (const ChartSeries& s : chart.series) {
      if (s.points.empty()) continue;
      script += fmt::format("$d{} << EOD\n", block);
      for (const auto& [x, y] : s.points) script += fmt::format("{:.6g} {:.6g}\n", x, y);
      script += "EOD\n";
      plots += fmt::format("{}$d{} using 1:2 with {} {}", plots.empty() ? "plot " : ", ", block, s.style,
                           s.title.empty() ? "notitle" : "title '" + s.title + "'");
      ++block;
    }
    body += plots + "\n";
  }
  const std::size_t columns = std::min<std::size_t>(3, charts.size());
  const std::size_t rows = (charts.size() + columns - 1) / columns;
  const auto page = [&](const char* terminal, const char* extension) {
    return fmt::format("set terminal {}\nset output '{}.{}'\nset multiplot layout {},{}\n{}unset multiplot\n",
                       terminal, name, extension, rows, columns, body);
  };
  script +=
      "set grid\nset key bmargin center maxrows 2 samplen 2 width -1\nset bmargin 6\nset xlabel offset "
      "0,0.6\n";
  script += page(fmt::format("png size {},{}", 560 * columns, 480 * rows).c_str(), "png");
  script += page(fmt::format("svg size {},{} dynamic background 'white'", 560 * columns, 480 * rows).c_str(),
                 "svg");
  write_text((fs::path(out) / (name + ".gp")).string(), script);
  const std::string log = (fs::path(out) / (name + ".gnuplot.txt")).string();
  const int code = wait_process(start_process({"gnuplot", "--default-settings", name + ".gp"}, {log, out}));
  if (code != 0) throw RunError(fmt::format("gnuplot failed on {}/{}.gp: see {}", out, name, log));
  fs::remove(log);
}

}  // namespace lpmm
