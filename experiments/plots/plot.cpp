#include "experiments/plots/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "experiments/plots/gnuplot.h"
#include "experiments/plots/records.h"
#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/files/files.h"
#include "lpmm/memory/spec.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

// ---- curves --------------------------------------------------------------------------------------------
void add_point(Curve& curve, double step, const std::optional<double>& value, double scale = 1) {
  if (value) curve.push_back({step, scale * *value});
}

constexpr std::size_t kMostPoints = 250;

// Means of equal runs of points, so that a long curve stays readable.
Curve thinned(const Curve& curve) {
  const std::size_t bin = (curve.size() + kMostPoints - 1) / kMostPoints;
  if (bin <= 1) return curve;
  Curve out;
  for (std::size_t first = 0; first < curve.size(); first += bin) {
    const std::size_t end = std::min(curve.size(), first + bin);
    PlotPoint mean;
    for (std::size_t i = first; i < end; ++i) {
      mean.step += curve[i].step / static_cast<double>(end - first);
      mean.value += curve[i].value / static_cast<double>(end - first);
    }
    out.push_back(mean);
  }
  return out;
}

// ---- the gnuplot script --------------------------------------------------------------------------------
constexpr std::size_t kMostRuns = std::size(kRunColours);

// A gnuplot string. Whatever its parser could take for more than text (quotes, backquotes, backslashes) is
// written as an octal code.
std::string quoted(const std::string& text) {
  constexpr std::string_view kPlain = " .,_-+=%()/:";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      out += ' ';
    } else if (byte >= 0x80 || std::isalnum(byte) != 0 || kPlain.find(c) != kPlain.npos) {
      out += c;
    } else {
      out += fmt::format("\\{:03o}", byte);
    }
  }
  return out + '"';
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

// The legend in a strip at the top, loss and accuracy below it, the roles' underflow shares in a last row.
std::string plot_script(std::span<const PlotRun> runs) {
  const std::vector<Panel> panels = panels_of(runs);
  const auto shares =
      static_cast<int>(std::count_if(panels.begin(), panels.end(), [](const Panel& p) { return p.share; }));
  const int curves = static_cast<int>(panels.size()) - shares;
  std::size_t letters = 0;
  for (const PlotRun& run : runs) letters += 8 + shortened(run.label).size();
  const bool one_line = letters <= 85;
  const int rows = (curves > 0 ? 1 : 0) + (shares > 0 ? 1 : 0);
  const int width = 1100, legend = 14 + 22 * (one_line ? 1 : static_cast<int>(runs.size()));
  const int height = legend + 340 * rows;
  const double legend_share = static_cast<double>(legend) / height, row_share = (1 - legend_share) / rows;

  double last_step = 1;
  for (const Panel& panel : panels) {
    for (const Curve& curve : panel.curves) {
      if (!curve.empty()) last_step = std::max(last_step, curve.back().step);
    }
  }

  std::string s = "set encoding utf8\n";
  for (std::size_t p = 0; p < panels.size(); ++p) {
    for (std::size_t c = 0; c < panels[p].curves.size(); ++c) {
      if (panels[p].curves[c].empty()) continue;
      s += fmt::format("$curve_{}_{} << end_of_curve\n", p, c);
      for (const PlotPoint& point : panels[p].curves[c]) s += fmt::format("{} {}\n", point.step, point.value);
      s += "end_of_curve\n";
    }
  }
  for (const char* type : {"png", "svg"}) {
    const std::string_view terminal = type[0] == 'p' ? "pngcairo font 'sans,11'" : "svg font 'sans,13'";
    s += fmt::format("set terminal {} size {},{} background '#ffffff'\nset output 'plot.{}'\nset multiplot\n",
                     terminal, width, height, type);
    // The legend: lines without points in a panel without axes.
    s += fmt::format(
        "set origin 0,{}\nset size 1,{}\nset lmargin 0\nset rmargin 0\nset tmargin 0\nset bmargin 0\n"
        "unset border\nunset tics\nunset grid\nunset title\nunset xlabel\nunset ylabel\n"
        "set xrange [0:1]\nset yrange [0:1]\n"
        "set key at screen 0.5,{} center center Left reverse samplen 2.5 noenhanced {}\nplot ",
        1 - legend_share, legend_share, 1 - legend_share / 2,
        one_line ? "horizontal maxrows 1" : "vertical maxcols 1");
    for (std::size_t r = 0; r < runs.size(); ++r) {
      s += fmt::format("{}NaN with lines lw 3 lc rgb '{}' title {}", r == 0 ? "" : ", ", kRunColours[r],
                       quoted(shortened(runs[r].label)));
    }
    s += "\nunset key\nset border 3 lc rgb '#606060' lw 0.8\n"
         "set xtics nomirror out scale 0.5\nset ytics nomirror out scale 0.5\n"
         "set grid lc rgb '#d9d9d9' lw 0.7 lt 1\nset lmargin 8\nset rmargin 2.5\nset tmargin 2.2\n"
         "set bmargin 3.4\nset xlabel 'step' offset 0,0.4\n";
    s += fmt::format("set xrange [0:{}]\nset xtics {}\n", last_step, tic_distance(last_step));
    for (std::size_t p = 0; p < panels.size(); ++p) {
      const Panel& panel = panels[p];
      const int place = static_cast<int>(p) - (panel.share ? curves : 0);
      const int across = std::max(2, panel.share ? shares : curves);
      const int row = panel.share ? rows - 1 : 0;
      s += fmt::format("set origin {},{}\nset size {},{}\n", static_cast<double>(place) / across,
                       1 - legend_share - (row + 1) * row_share, 1.0 / across, row_share);
      s += fmt::format("set title {} offset 0,-0.4\nset ylabel {} offset 1,0\nset yrange {}\nplot ",
                       quoted(panel.title), quoted(panel.axis), panel.share ? "[0:100]" : "[*:*]");
      bool first = true;
      for (std::size_t c = 0; c < panel.curves.size(); ++c) {
        if (panel.curves[c].empty()) continue;
        const bool few = panel.curves[c].size() <= 12;
        s += fmt::format("{}$curve_{}_{} using 1:2 with {} lw 2 lc rgb '{}' notitle", first ? "" : ", ", p, c,
                         few ? "linespoints pt 7 ps 0.5" : "lines", kRunColours[c]);
        first = false;
      }
      s += "\n";
    }
    s += "unset multiplot\nset output\n";
  }
  return s;
}

// ---- the table -----------------------------------------------------------------------------------------
// Measured as planned: what the run added to the memory the process started with.
constexpr const char* kAddedMemory = "/added";

struct TableRow {
  std::string title;
  std::vector<std::string> cells;
};

std::size_t shown_width(const std::string& text) {  // UTF-8 continuation bytes take no place
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string markdown(const std::vector<TableRow>& rows) {
  std::vector<std::size_t> widths(rows[0].cells.size() + 1);
  const auto cell = [](const TableRow& row, std::size_t c) -> const std::string& {
    return c == 0 ? row.title : row.cells[c - 1];
  };
  for (const TableRow& row : rows) {
    for (std::size_t c = 0; c < widths.size(); ++c)
      widths[c] = std::max(widths[c], shown_width(cell(row, c)));
  }
  std::string out;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t c = 0; c < widths.size(); ++c) {
      const std::string& text = cell(rows[r], c);
      const std::string space(widths[c] - shown_width(text), ' ');
      out += "| " + (c == 0 ? text + space : space + text) + ' ';
    }
    out += "|\n";
    if (r > 0) continue;
    for (std::size_t c = 0; c < widths.size(); ++c) {
      out += '|' + std::string(widths[c] + 1, '-') + (c == 0 ? '-' : ':');
    }
    out += "|\n";
  }
  return out;
}

}  // namespace

std::vector<Figure> figures() {
  constexpr auto mebibytes = [](double v) { return fmt::format("{:.1f} MiB", v / (1 << 20)); };
  constexpr auto percent = [](double v) { return fmt::format("{:.2f} %", 100 * v); };
  constexpr auto nats = [](double v) { return fmt::format("{:.4f}", v); };
  constexpr auto whole = [](double v) { return fmt::format("{:.0f}", v); };
  std::vector<Figure> all = {
      {"bits per parameter", "/bits_per_parameter", [](double v) { return fmt::format("{:.2f}", v); }}};
  const auto add_memory = [&](const std::string& part) {
    all.push_back({part + ", bytes", "/model_memory_bytes/" + part, with_commas, true});
  };
  for (const char* part : kMemoryParts) add_memory(part);
  add_memory("total");
  all.push_back({"final training loss", "/final_loss", nats});
  all.push_back({"test loss", "/test_loss", nats});
  all.push_back({"test accuracy", "/test_accuracy", percent});
  for (std::size_t r = 0; r < kRoles; ++r) {
    const std::string role(to_string(static_cast<Role>(r)));
    all.push_back({"underflow, " + role, "/underflow/" + role, percent});
  }
  all.push_back({"images per second", "/images_per_second", whole});
  all.push_back({"tokens per second", "/tokens_per_second", whole});
  all.push_back({"peak memory, planned", "/plan_peak_bytes", mebibytes});
  all.push_back({"peak memory, measured", kAddedMemory, mebibytes});
  return all;
}

std::optional<double> value_of(const Figure& figure, const Json& summary) {
  if (figure.path == kAddedMemory) {
    const auto peak = number_in(summary, "peak_rss_bytes"), start = number_in(summary, "rss_at_start_bytes");
    return peak && start ? std::optional(*peak - *start) : std::nullopt;
  }
  const std::size_t cut = figure.path.rfind('/');
  const std::string key = figure.path.substr(cut + 1);
  return number_in(cut == 0 ? summary : object_in(summary, figure.path.substr(1, cut - 1)), key);
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

std::string with_commas(double number) {
  const auto n = std::llround(std::clamp(number, -9e18, 9e18));
  std::string out = std::to_string(n);
  for (std::ptrdiff_t at = std::ssize(out) - 3; at > (n < 0 ? 1 : 0); at -= 3) {
    out.insert(static_cast<std::size_t>(at), ",");
  }
  return out;
}

std::string log_path(const std::string& run) {
  std::error_code none;
  return fs::is_directory(run, none) ? (fs::path(run) / "log.jsonl").string() : run;
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
      add_point(run.accuracy, *step, number_in(record, "accuracy"), 100);
    }
    if (type != "underflow") continue;
    for (std::size_t r = 0; r < kRoles; ++r) {
      const Json& role = object_in(object_in(record, "roles"), to_string(static_cast<Role>(r)));
      add_point(run.underflow[r], *step, number_in(role, "share"), 100);
    }
  }
  return run;
}

std::vector<Panel> panels_of(std::span<const PlotRun> runs) {
  const auto panel = [&](const std::string& title, const char* axis, bool share, auto curve) {
    Panel out{title, axis, {}, share};
    for (const PlotRun& run : runs) out.curves.push_back(thinned(curve(run)));
    return out;
  };
  const char* nats = "cross entropy (nats)";
  std::vector<Panel> panels = {
      panel("training loss", nats, false, [](const PlotRun& r) { return r.loss; }),
      panel("test loss", nats, false, [](const PlotRun& r) { return r.test_loss; }),
      panel("test accuracy", "correct (%)", false, [](const PlotRun& r) { return r.accuracy; })};
  for (std::size_t role = 0; role < kRoles; ++role) {
    panels.push_back(panel(fmt::format("underflow, {}", to_string(static_cast<Role>(role))),
                           "increments lost (%)", true, [&](const PlotRun& r) { return r.underflow[role]; }));
  }
  std::erase_if(panels, [](const Panel& p) {
    return std::all_of(p.curves.begin(), p.curves.end(), [](const Curve& c) { return c.empty(); });
  });
  return panels;
}

void draw_plot(std::span<const PlotRun> runs, const std::string& prefix) {
  if (runs.size() > kMostRuns) {
    throw UsageError(
        fmt::format("{} runs on one plot; {} at most can be told apart", runs.size(), kMostRuns));
  }
  if (panels_of(runs).empty()) throw RunError("nothing to plot: the logs hold no steps yet");
  draw_with_gnuplot(plot_script(runs), "plot", prefix);
}

std::string results_table(std::span<const PlotRun> runs) {
  std::vector<TableRow> rows = {{"", {}}};
  std::vector<Json> summaries;
  for (const PlotRun& run : runs) {
    if (run.summary.empty()) {
      throw RunError(fmt::format("{}: has not ended, so there is no summary for the table", run.label));
    }
    std::string label = run.label;
    std::replace_if(
        label.begin(), label.end(), [](char c) { return c == '|' || c == '\n'; }, ' ');
    rows[0].cells.push_back(label);
    summaries.push_back(Json::parse(run.summary));
    const Json& last = summaries.back();
    if (last.value("interrupted", Json()) == true) {
      throw RunError(fmt::format("{}: was cut short ({}); go on with it (--resume) before it is compared",
                                 run.label, last.contains("error") ? last["error"].dump() : "interrupted"));
    }
  }
  for (const Figure& figure : figures()) {
    TableRow row{figure.title, {}};
    bool any = false;
    for (const Json& summary : summaries) {
      const auto value = value_of(figure, summary);
      row.cells.push_back(value ? figure.text(*value) : "-");
      any = any || (value && *value != 0);
    }
    if (any) rows.push_back(std::move(row));
  }
  return markdown(rows);
}

}  // namespace lpmm
