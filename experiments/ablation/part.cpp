#include "experiments/ablation/part.h"

#include <fmt/format.h>

#include <filesystem>

#include "lpmm/base/text.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace fs = std::filesystem;

const char* colour_of(int bits) {
  return kRunColours[static_cast<std::size_t>((bits - 4) / 2)];
}

void say_of_part(const std::string& text) {
  tell(fmt::format("ablation: {}\n", text));
}

void add_format_point(std::vector<Chart>& charts, const Chart& empty, Format format, double y) {
  auto chart =
      std::find_if(charts.begin(), charts.end(), [&](const Chart& x) { return x.title == empty.title; });
  if (chart == charts.end()) chart = charts.insert(charts.end(), empty);
  const std::string map(row_of(format.map).name);
  auto line = std::find_if(chart->series.begin(), chart->series.end(),
                           [&](const ChartSeries& s) { return s.title == map; });
  if (line == chart->series.end()) {
    const char* next = kRunColours[chart->series.size() % std::size(kRunColours)];
    line = chart->series.insert(line, {map, fmt::format("linespoints pt 7 lc '{}'", next), {}});
  }
  line->points.emplace_back(format.bits, y);
}

void write_part(const AblationOptions& options, const std::string& name, const std::string& csv,
                std::vector<Chart> charts) {
  const std::string prefix = (fs::path(options.out) / name).string();
  write_text(prefix + ".csv", csv);
  say_of_part(fmt::format("wrote {}.csv", prefix));
  draw_picture({std::move(charts)}, prefix, options.svg);
}

}  // namespace lpmm
