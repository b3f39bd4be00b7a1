#include "experiments/plots/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "experiments/plots/figures.h"
#include "experiments/plots/html.h"
#include "experiments/plots/records.h"
#include "experiments/plots/svg.h"
#include "experiments/report_page.h"
#include "lpmm/base/process.h"
#include "lpmm/base/progress.h"
#include "lpmm/base/text.h"
#include "lpmm/memory/spec.h"
#include "lpmm/run/plan.h"
#include "lpmm/run/records.h"

namespace lpmm {
namespace {

struct ReportedRun {
  std::string path;
  PlotRun curves;
  Json config = Json::object(), system = Json::object(), ledger = Json::object(),
       underflow = Json::object();  // the last record of each type
  Json summary = Json::object();    // empty unless the run has ended
  Json known;                       // its figures: bits and memory from the start, the rest from its end
  double last_step = 0;

  const std::string& label() const { return curves.label; }
  const Json& memory() const { return object_in(ledger, "model_memory_bytes"); }
  std::string state() const {
    const std::string step = fmt::format("step {}", with_commas(last_step));
    if (summary.empty()) return last_step == 0 ? "before its first step" : "at " + step;
    if (const std::string error = text_in(summary, "error"); !error.empty()) return "failed: " + error;
    if (diverged(summary)) return "diverged by " + step;
    return summary.value("interrupted", Json()) == false ? "done" : "interrupted, " + step;
  }
};

ReportedRun read(const NamedRun& given) {
  const std::vector<Json> records = read_log(log_path(given.path));
  ReportedRun run;
  run.path = given.path;
  run.curves = plot_run(given, records);
  for (const Json& record : records) {
    const std::string type = text_in(record, "type");
    if (type == "config") run.config = record;
    if (type == "system") run.system = record;
    if (type == "ledger") run.ledger = record;
    if (type == "underflow") run.underflow = record;
    if (const auto step = number_in(record, "step")) run.last_step = *step;
  }
  if (!run.curves.summary.empty()) run.summary = Json::parse(run.curves.summary);
  run.known = run.ledger;
  run.known.erase("tensors");
  run.known.update(run.summary);
  return run;
}

// Bytes as people read them.
std::string in_units(double bytes) {
  return format_bytes(static_cast<std::int64_t>(bytes));
}

HtmlCell cell_of(std::optional<double> value, const std::function<std::string(double)>& text) {
  return value ? HtmlCell{text(*value), value} : HtmlCell{};
}

// Model memory has a table of its own.
void add_figures(std::vector<HtmlColumn>& columns, const std::vector<ReportedRun>& runs, bool of_memory) {
  std::vector<Json> known;
  for (const ReportedRun& run : runs) known.push_back(run.known);
  for (const Figure& figure : figures(known)) {
    if (figure.of_memory != of_memory) continue;
    HtmlColumn column{figure.title.substr(0, figure.title.find(", bytes"))};
    bool has_any = false;
    for (const ReportedRun& run : runs) {
      const auto value = value_of(figure, run.known);
      has_any = has_any || value.value_or(0) != 0;
      column.cells.push_back(cell_of(value, figure.of_bytes ? std::function(in_units) : figure.text));
    }
    if (has_any) columns.push_back(std::move(column));
  }
}

std::string runs_table(const std::vector<ReportedRun>& runs) {
  HtmlColumn names{"run", true}, states{"state", true}, presets{"preset", true}, seeds{"seed"};
  for (std::size_t r = 0; r < runs.size(); ++r) {
    names.cells.push_back(
        {fmt::format("<label><input type=\"checkbox\" checked data-run=\"{}\"> {}{}</label>", r, run_key(r),
                     html(runs[r].label())),
         {}});
    states.cells.push_back({html(runs[r].state()), {}});
    presets.cells.push_back({html(text_in(runs[r].config, "preset")), {}});
    const auto seed = runs[r].config.find("seed");
    const bool whole = seed != runs[r].config.end() && seed->is_number_integer();
    seeds.cells.push_back(whole ? HtmlCell{seed->dump(), seed->get<double>()} : HtmlCell{});
  }
  std::vector<HtmlColumn> columns = {names, states, presets, seeds};
  add_figures(columns, runs, false);
  return html_table(columns, "runs");
}

// ---- curves --------------------------------------------------------------------------------------------
// False for one point per run, which the table has, and for shares that nowhere reach one percent.
bool tells_something(const Chart& chart) {
  return std::any_of(chart.series.begin(), chart.series.end(), [&](const ChartSeries& s) {
    const auto is_little = [](const auto& point) { return point.second < 1; };
    return s.points.size() > 1 &&
           !(chart.percent && std::all_of(s.points.begin(), s.points.end(), is_little));
  });
}

std::string curves_section(const std::vector<ReportedRun>& runs) {
  std::vector<PlotRun> curves;
  std::vector<std::string> labels;
  for (const ReportedRun& run : runs) {
    curves.push_back(run.curves);
    labels.push_back(run.label());
  }
  std::string figures;
  bool has_shares = false;
  for (const Chart& chart : charts_of_runs(curves)) {
    if (!tells_something(chart)) continue;
    has_shares = has_shares || chart.percent;
    figures += chart_figure(chart, labels);
  }
  if (figures.empty()) return "";
  return fmt::format("<h2>How training went</h2>\n{}<div class=\"panels\">\n{}</div>\n",
                     has_shares ? "<p>Underflow: the share of changes that were too small to change the "
                                  "stored number.</p>\n"
                                : "",
                     figures);
}

// ---- memory --------------------------------------------------------------------------------------------
constexpr const char* kPartColours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#800080",
                                        "#F0E442", "#0000A0", "#E69F00", "#555555", "#8C8C00", "#66CCEE"};
static_assert(std::size(kPartColours) == kMemoryParts);

// Returns the bytes that the same tensors and roles would take in fp32; 0 if the log does not list the
// tensors.
double fp32_bytes(const ReportedRun& run) {
  const auto tensors = run.ledger.find("tensors");
  if (tensors == run.ledger.end() || !tensors->is_array()) return 0;
  double bytes = number_in(run.memory(), "buffers").value_or(0);
  for (const Json& tensor : *tensors) {
    const auto shape = tensor.find("shape");
    if (!tensor.is_object() || shape == tensor.end() || !shape->is_array()) return 0;
    double elements = 1;
    for (const Json& length : *shape) elements *= length.is_number() ? length.get<double>() : 0;
    const Json& specs = object_in(tensor, "specs");  // fp32 parameters have no compensation
    bytes += 4 * elements * static_cast<double>(specs.size() - specs.count(to_string(Role::kCompensation)));
  }
  return bytes;
}

// "2.7 MB, 3.8 times smaller than in fp32"
std::string size_text(const ReportedRun& run, double total) {
  const double ratio = total > 0 ? fp32_bytes(run) / total : 0;
  std::string out = in_units(total);
  if (ratio >= 1.05 && ratio < 1000) out += fmt::format(", {:.1f} times smaller than in fp32", ratio);
  return out;
}

std::string memory_bar(const ReportedRun& run, double largest) {
  const double total = number_in(run.memory(), "total").value_or(0);
  std::string out = fmt::format("<span>{}</span><div class=\"bar\" style=\"width:{:.2f}%\">",
                                html(run.label()), 100 * std::clamp(total / largest, 0.0, 1.0));
  const auto parts = memory_parts();
  for (std::size_t p = 0; p < kMemoryParts; ++p) {
    const double bytes = number_in(run.memory(), parts[p]).value_or(0);
    if (bytes <= 0 || total <= 0) continue;
    out += fmt::format("<span style=\"background:{};width:{:.2f}%\" title=\"{}: {} ({} bytes)\"></span>",
                       kPartColours[p], 100 * bytes / total, parts[p], in_units(bytes), with_commas(bytes));
  }
  return out +
         fmt::format("</div><span title=\"{} bytes\">{}</span>\n", with_commas(total), size_text(run, total));
}

std::string memory_section(const std::vector<ReportedRun>& runs) {
  double largest = 0;
  for (const ReportedRun& run : runs)
    largest = std::max(largest, number_in(run.memory(), "total").value_or(0));
  if (largest <= 0) return "";
  std::string out = "<h2>What the model takes in memory</h2>\n<p>";
  const auto parts = memory_parts();
  for (std::size_t p = 0; p < kMemoryParts; ++p) {
    const auto has_part = [&](const ReportedRun& run) {
      return number_in(run.memory(), parts[p]).value_or(0) > 0;
    };
    if (std::none_of(runs.begin(), runs.end(), has_part)) continue;
    out += fmt::format("<span class=\"key\" style=\"background:{}\"></span>{} &nbsp; ", kPartColours[p],
                       parts[p]);
  }
  out += "</p>\n<div class=\"bars\">\n";
  for (const ReportedRun& run : runs) out += memory_bar(run, largest);
  out += "</div>\n";
  std::vector<HtmlColumn> columns = {{"run", true}};
  for (const ReportedRun& run : runs) columns[0].cells.push_back({html(run.label())});
  add_figures(columns, runs, true);
  return out + html_table(columns, "model memory");
}

// ---- every run by itself -------------------------------------------------------------------------------
// Its tensors: how each is stored, and the share of its last measured increments that changed no code.
std::string tensors_table(const ReportedRun& run) {
  HtmlColumn names{"tensor", true}, shapes{"shape", true}, bytes{"size"};
  std::vector<HtmlColumn> specs, shares;
  for (std::size_t r = 0; r < kElementRoles; ++r) {
    const std::string role(to_string(static_cast<Role>(r)));
    specs.push_back({role, true});
    shares.push_back({"underflow, " + role});
  }
  const auto tensors = run.ledger.find("tensors");
  if (tensors == run.ledger.end() || !tensors->is_array()) return "";
  for (const Json& tensor : *tensors) {
    if (!tensor.is_object()) continue;
    const std::string name = text_in(tensor, "name");
    const Json& stored = object_in(tensor, "specs");
    const Json& lost = object_in(object_in(run.underflow, "tensors"), name);
    names.cells.push_back({html(name), {}});
    const auto shape = tensor.find("shape");
    shapes.cells.push_back({shape == tensor.end() ? "" : html(shape->dump()), {}});
    bytes.cells.push_back(cell_of(number_in(tensor, "bytes"), in_units));
    for (std::size_t r = 0; r < kElementRoles; ++r) {
      const std::string role(to_string(static_cast<Role>(r)));
      specs[r].cells.push_back({html(text_in(stored, role)), {}});
      shares[r].cells.push_back(cell_of(number_in(object_in(lost, role), "share"),
                                        [](double v) { return fmt::format("{:.2f} %", 100 * v); }));
    }
  }
  std::vector<HtmlColumn> columns = {names, shapes, bytes};
  columns.insert(columns.end(), specs.begin(), specs.end());
  columns.insert(columns.end(), shares.begin(), shares.end());
  return html_table(columns, "tensors");
}

std::string run_section(const ReportedRun& run, std::size_t number) {
  std::string out = fmt::format("<details><summary>{}{}</summary>\n", run_key(number), html(run.label()));
  const std::string cpu = text_in(run.system, "cpu");
  if (!cpu.empty()) {
    const Json& by = object_in(run.system, "computed_by");
    out += fmt::format("<p>lpmm {} on {}, {}, {} threads, {}</p>\n", html(text_in(by, "version")), html(cpu),
                       html(text_in(by, "compute_library")), number_in(run.system, "threads").value_or(0),
                       html(text_in(run.system, "time")));
  }
  const std::string toml = text_in(run.config, "toml");
  if (!toml.empty()) {
    const std::filesystem::path config =
        std::filesystem::path(log_path(run.path)).parent_path() / "config.toml";
    std::error_code none;
    if (std::filesystem::exists(config, none)) {
      const std::string again[] = {"lpmm", "train", path_argument(config.string()), "--out",
                                   "runs/again_" + file_name(run.label())};
      out += fmt::format(
          "<p>To train it again, with the same result to the last bit on the same kind of "
          "machine:</p>\n<pre>{}</pre>\n",
          html(shell_command(again)));
    }
  }
  if (const std::string tensors = tensors_table(run); !tensors.empty()) {
    out += "<details><summary>How each tensor is stored</summary>\n" + tensors + "</details>\n";
  }
  if (!toml.empty()) {
    out += fmt::format("<details><summary>All settings</summary>\n<pre>{}</pre></details>\n", html(toml));
  }
  return out + "</details>\n";
}

}  // namespace

std::string report_html(std::span<const NamedRun> given, const std::string& command) {
  std::vector<ReportedRun> runs;
  for (const NamedRun& run : given) runs.push_back(read(run));
  std::string details;
  for (std::size_t r = 0; r < runs.size(); ++r) details += run_section(runs[r], r);
  return filled(kReportPage, {{"title", runs.size() == 1 ? "one run" : fmt::format("{} runs", runs.size())},
                              {"runs", runs_table(runs)},
                              {"curves", curves_section(runs)},
                              {"memory", memory_section(runs)},
                              {"details", details},
                              {"command", html(command)}});
}

std::string report_begin() {
  const std::string page = kReportPage;
  return page.substr(0, page.find("{{title}}"));
}

}  // namespace lpmm
