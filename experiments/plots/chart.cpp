#include "experiments/plots/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <string_view>

#include "experiments/plots/gnuplot.h"
#include "experiments/plots/palette.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

// Short enough for a square.
std::string heat_label(double value) {
  const double size = std::abs(value);
  if (size < 0.0005) return "0";
  if (size >= 1000) return fmt::format("{:.2g}", value);
  return fmt::format("{:.{}f}", value, size < 1 ? 3 : size < 10 ? 2 : 1);
}

bool has_bounds(const ChartSeries& s) {
  return s.bounds.size() == s.points.size();
}
bool has_heat(const ChartSeries& s) {
  return s.heat.size() == s.points.size();
}

// $d0, $d1...: the points of every series that has some.
std::string data_blocks(const std::vector<Chart>& charts) {
  std::string out;
  int block = 0;
  for (const Chart& chart : charts) {
    for (const ChartSeries& s : chart.series) {
      if (s.points.empty()) continue;
      out += fmt::format("$d{} << EOD\n", block++);
      for (std::size_t i = 0; i < s.points.size(); ++i) {
        out += fmt::format("{:.6g} {:.6g}", s.points[i].first, s.points[i].second);
        if (has_bounds(s)) out += fmt::format(" {:.6g} {:.6g}", s.bounds[i].first, s.bounds[i].second);
        if (has_heat(s)) out += fmt::format(" {} {}", s.heat[i].second, heat_label(s.heat[i].first));
        out += "\n";
      }
      out += "EOD\n";
    }
  }
  return out;
}

// Its series as the blocks from `block` on, which it moves behind them.
std::string plot_command(const Chart& chart, int& block) {
  std::string out;
  for (const ChartSeries& s : chart.series) {
    if (s.points.empty()) continue;
    const char* columns = has_heat(s)                           ? "1:2:(0.5):(0.5):3"
                          : !has_bounds(s)                      ? "1:2"
                          : s.style.starts_with("filledcurves") ? "1:3:4"
                                                                : "1:2:3:4";
    out += fmt::format("{}$d{} using {} with {} {}", out.empty() ? "plot " : ", ", block, columns, s.style,
                       s.title.empty() ? "notitle" : "title " + quoted(s.title) + " noenhanced");
    if (has_heat(s) && s.has_heat_labels) out += fmt::format(", $d{} using 1:2:4 with labels notitle", block);
    ++block;
  }
  return out + "\n";
}

// Gives the key as many lines as its entries need, three in a line if they are short.
std::string own_key(const Chart& chart) {
  std::size_t entries = 0, longest = 0;
  for (const ChartSeries& s : chart.series) {
    entries += s.title.empty() || s.points.empty() ? 0 : 1;
    longest = std::max(longest, s.title.size());
  }
  const std::size_t in_line = longest <= 11 ? 3 : 2, lines = (entries + in_line - 1) / in_line;
  // Two long ones beside each other would be cut off at the edge.
  return fmt::format(
      "set key bmargin center maxrows {} {}\nset bmargin {}\n", std::max<std::size_t>(1, lines),
      longest <= 24 ? "samplen 2 width 1" : "samplen 1 width -1", 4 + std::max<std::size_t>(2, lines));
}

std::string gnuplot_settings(const Chart& chart, bool one_key) {
  return fmt::format(
      "unset logscale\nset autoscale\nset format\nset xtics auto norotate enhanced\n"
      "set ytics auto enhanced\n"
      "set title {} noenhanced\nset xlabel {} noenhanced\nset ylabel {} noenhanced\n{}{}{}\n",
      quoted(chart.title), quoted(chart.x_label), quoted(chart.y_label), one_key ? "" : own_key(chart),
      chart.percent ? "set yrange [0:100]\n" : "", chart.scales);
}

// The places of everything on the page, in pixels.
struct PageLayout {
  std::vector<std::size_t> rows;
  bool one_line = true;  // the key takes one line
  int width = 0, strip = 0, height = 0;
};
PageLayout layout_of(const Picture& picture) {
  PageLayout out{.rows = picture.rows};
  const std::size_t charts = picture.charts.size(), columns = std::min<std::size_t>(3, charts);
  for (std::size_t placed = 0; picture.rows.empty() && placed < charts; placed += columns)
    out.rows.push_back(columns);
  const auto rows = static_cast<int>(out.rows.size());
  if (picture.key.empty()) {
    out.width = 560 * static_cast<int>(columns);
    out.height = 480 * rows;
    return out;
  }
  std::size_t letters = 0;
  for (const std::string& entry : picture.key) letters += 8 + entry.size();
  out.one_line = letters <= 85;
  out.width = 1100;
  out.strip = 14 + 22 * (out.one_line ? 1 : static_cast<int>(picture.key.size()));
  out.height = out.strip + 340 * rows;
  return out;
}

// The key of all charts: lines without points in a panel without axes.
std::string key_strip(const Picture& picture, const PageLayout& layout) {
  const double share = static_cast<double>(layout.strip) / layout.height;
  std::string out = fmt::format(
      "set origin 0,{}\nset size 1,{}\nset lmargin 0\nset rmargin 0\nset tmargin 0\nset bmargin 0\n"
      "unset border\nunset tics\nunset grid\nset xrange [0:1]\nset yrange [0:1]\n"
      "set key at screen 0.5,{} center center Left reverse samplen 2.5 noenhanced {}\nplot ",
      1 - share, share, 1 - share / 2, layout.one_line ? "horizontal maxrows 1" : "vertical maxcols 1");
  for (std::size_t r = 0; r < picture.key.size(); ++r) {
    out += fmt::format("{}NaN with lines lw 3 lc rgb '{}' title {}", r == 0 ? "" : ", ", kRunColours[r],
                       quoted(picture.key[r]));
  }
  return out + "\nunset key\nset lmargin 8\nset rmargin 2.5\nset tmargin 2.2\nset bmargin 3.4\n";
}

}  // namespace

std::string quoted(const std::string& text) {
  constexpr std::string_view kPlain = " .,_-+=%()/:^*<>|&#!?;[]{}~";
  std::string out;
  bool has_codes = false;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      out += ' ';
    } else if (byte >= 0x80 || std::isalnum(byte) != 0 || kPlain.find(c) != kPlain.npos) {
      out += c;
    } else {
      out += fmt::format("\\{:03o}", byte);
      has_codes = true;
    }
  }
  return has_codes ? '"' + out + '"' : "'" + out + "'";
}

double tic_distance(double last) {
  if (!(last > 0)) return 1;
  double power = 1;
  while (power * 10 < last) power *= 10;
  while (power > last) power /= 10;
  for (const double factor : {0.1, 0.2, 0.5, 1.0}) {
    if (5 * factor * power >= last) return factor * power;
  }
  return 2 * power;
}

std::string picture_script(const Picture& picture, const std::string& name) {
  const PageLayout layout = layout_of(picture);
  std::string out = "set encoding utf8\n" + data_blocks(picture.charts);
  out += fmt::format(
      "type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'\n"
      "file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : {1} . '.' . type\n"
      "if (type eq 'svg') {{\n  set terminal svg font 'sans,13' size {0} dynamic background '#ffffff'\n"
      "}} else {{\n  set terminal pngcairo font 'sans,11' size {0} background '#ffffff'\n}}\n"
      "set output file\nset multiplot\n",
      fmt::format("{},{}", layout.width, layout.height), quoted(name));
  if (!picture.key.empty()) out += key_strip(picture, layout);
  out +=
      "set border 3 lc rgb '#606060' lw 0.8\nset xtics nomirror out scale 0.5\nset ytics nomirror out scale "
      "0.5\nset grid lc rgb '#d9d9d9' lw 0.7 lt 1\nset xlabel offset 0,0.4\n";
  const double strip = static_cast<double>(layout.strip) / layout.height;
  const double high = (1 - strip) / static_cast<double>(layout.rows.size());
  int block = 0;
  std::size_t next = 0;
  for (std::size_t row = 0; row < layout.rows.size(); ++row) {
    // One chart alone in its row of many would be far too wide.
    const std::size_t across =
        picture.key.empty() ? layout.rows[0] : std::max<std::size_t>(2, layout.rows[row]);
    for (std::size_t column = 0; column < layout.rows[row] && next < picture.charts.size(); ++column) {
      const Chart& chart = picture.charts[next++];
      const double wide = 1 / static_cast<double>(across);
      out += fmt::format("set origin {},{}\nset size {},{}\n", static_cast<double>(column) * wide,
                         1 - strip - static_cast<double>(row + 1) * high, wide, high);
      out += gnuplot_settings(chart, !picture.key.empty()) + plot_command(chart, block);
    }
  }
  return out + "unset multiplot\nset output\n";
}

void draw_picture(const Picture& picture, const std::string& prefix, bool svg) {
  const fs::path path(prefix);
  if (const fs::path above = path.parent_path(); !above.empty()) make_folder(above.string());
  const std::string script = picture_script(picture, path.filename().string());
  remove_leftovers(path.parent_path().string());
  write_text(prefix + ".gp", script);
  draw_script(script, prefix, svg);
}

void draw_script(const std::string& script, const std::string& prefix, bool svg) {
  const std::string png = palette_png(gnuplot_picture(script, "png"));
  const std::string scalable = svg ? gnuplot_picture(script, "svg") : "";
  write_text(prefix + ".png", png);
  if (svg) write_text(prefix + ".svg", scalable);
}

}  // namespace lpmm
