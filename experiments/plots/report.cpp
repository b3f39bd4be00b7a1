#include "experiments/plots/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "experiments/plots/records.h"
#include "lpmm/base/process.h"
#include "lpmm/base/text.h"
#include "lpmm/memory/spec.h"

namespace lpmm {
namespace {

constexpr const char* kStyle = R"(
:root { --ground: #ffffff; --text: #1c1e21; --quiet: #5f6670; --line: #d8dce1; --soft: #f4f5f7; --colour6: #000000;
  color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #15171a; --text: #e6e8ea; --quiet: #9aa1ab; --line: #363b42; --soft: #1f2328; --colour6: #ffffff; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 84rem; background: var(--ground); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
p { margin: .3rem 0; color: var(--quiet); }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { background: var(--soft); padding: .7rem .9rem; border-radius: 6px; margin: .5rem 0; white-space: pre-wrap;
  overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; }
th, td { padding: .28rem .75rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; padding-left: .2rem; }
td:first-child { white-space: normal; overflow-wrap: anywhere; min-width: 16em; }
td.word, th.word { text-align: left; }
th { font-weight: 600; color: var(--quiet); vertical-align: bottom; white-space: normal; }
th button { all: unset; cursor: pointer; }
th button:focus-visible { outline: 2px solid #0072B2; outline-offset: 2px; }
th[aria-sort=ascending] button::after { content: " \2191"; }
th[aria-sort=descending] button::after { content: " \2193"; }
.panels { display: grid; gap: 1.2rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); }
figure { margin: 0; }
figcaption { font-weight: 600; font-size: 14px; }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--quiet); font: 12px system-ui, sans-serif; }
.grid { stroke: var(--line); stroke-width: 1; }
.curve { fill: none; stroke-width: 2; stroke-linejoin: round; }
.line { display: inline-block; width: 1.6em; height: .6em; margin-right: .4em; stroke-width: 4; }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .45em; }
.bar { display: flex; height: 1.1rem; min-width: 2px; border-radius: 3px; overflow: hidden; }
.bars { display: grid; grid-template-columns: fit-content(26em) 1fr max-content; gap: .4rem .8rem;
  align-items: center; overflow-wrap: anywhere; margin: .6rem 0 1rem; }
@media (max-width: 44rem) {
  body { padding: 1rem; }
  .bars { grid-template-columns: 1fr; gap: 0; }
  .bars > :nth-child(3n) { margin-bottom: .6rem; color: var(--quiet); }
}
details { border-top: 1px solid var(--line); padding: .5rem 0; }
summary { cursor: pointer; font-weight: 600; }
label { cursor: pointer; }
.off { display: none; }
)";

// Sorting by a column, and curves that can be switched off.
constexpr const char* kScript = R"(
for (const button of document.querySelectorAll("th button")) button.onclick = () => {
  const head = button.parentElement, body = head.closest("table").tBodies[0];
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const value = row => row.cells[head.cellIndex].dataset.value ?? row.cells[head.cellIndex].textContent;
  const order = (a, b) => {
    if (a === "" || b === "") return (a === "") - (b === "");  // what is missing comes last
    const both = a - b;
    return (down ? -1 : 1) * (Number.isNaN(both) ? a.localeCompare(b) : both);
  };
  body.append(...[...body.rows].sort((a, b) => order(value(a), value(b))));
};
for (const box of document.querySelectorAll("input[data-run]")) box.onchange = () => {
  for (const curve of document.querySelectorAll(".run" + box.dataset.run)) curve.classList.toggle("off", !box.checked);
};
)";

// ---- text ----------------------------------------------------------------------------------------------
std::string html(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// ---- one run -------------------------------------------------------------------------------------------
struct Run {
  std::string path;
  PlotRun curves;
  Json config = Json::object(), system = Json::object(), ledger = Json::object(),
       underflow = Json::object();  // the last record of each type
  Json summary = Json::object();    // of a run that has ended
  Json known;                       // its figures: bits and memory from the start, the rest from its end
  double last_step = 0;

  const std::string& label() const { return curves.label; }
  const Json& memory() const { return object_in(ledger, "model_memory_bytes"); }
  std::string state() const {
    const std::string step = fmt::format("step {}", with_commas(last_step));
    if (summary.empty()) return last_step == 0 ? "before its first step" : "at " + step;
    if (const std::string error = text_in(summary, "error"); !error.empty()) return "failed: " + error;
    return summary.value("interrupted", Json()) == false ? "done" : "interrupted, " + step;
  }
};

Run read(const NamedRun& given) {
  const std::vector<Json> records = read_log(log_path(given.path));
  Run run;
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

std::string colour(std::size_t run) {
  const std::size_t at = run % std::size(kRunColours);
  // Black curves are white on a dark page.
  return std::string_view(kRunColours[at]) == "#000000" ? "var(--colour6)" : kRunColours[at];
}

// After eight runs the colours begin again, with longer dashes each time.
std::string stroke(std::size_t run) {
  const std::size_t round = run / std::size(kRunColours);
  const std::string dashes =
      round == 0 ? "" : fmt::format(" stroke-dasharray=\"{} {}\"", 2 + 2 * round, 1 + round);
  return fmt::format(" style=\"stroke:{}\"{}", colour(run), dashes);
}

std::string key(std::size_t run) {
  return fmt::format("<svg class=\"line\" viewBox=\"0 0 22 8\"><line x2=\"22\" y1=\"4\" y2=\"4\"{}/></svg>",
                     stroke(run));
}

// ---- tables --------------------------------------------------------------------------------------------
struct Cell {
  std::string html;
  std::optional<double> value;  // what the column is sorted by, where it is a number
};
Cell cell_of(std::optional<double> value, std::string (*text)(double)) {
  return value ? Cell{text(*value), value} : Cell{};
}

struct Column {
  std::string title;
  bool words = false;
  std::vector<Cell> cells = {};  // one a row
};

// Columns that are empty in every row are left out.
std::string table(const std::vector<Column>& columns) {
  std::vector<const Column*> shown;
  for (const Column& c : columns) {
    if (std::any_of(c.cells.begin(), c.cells.end(), [](const Cell& cell) { return !cell.html.empty(); }))
      shown.push_back(&c);
  }
  if (shown.empty()) return "";
  std::string out = "<div class=\"wide\"><table><thead><tr>";
  for (const Column* c : shown) {
    out += fmt::format("<th{}><button>{}</button></th>", c->words ? " class=\"word\"" : "", html(c->title));
  }
  out += "</tr></thead><tbody>\n";
  for (std::size_t row = 0; row < shown[0]->cells.size(); ++row) {
    out += "<tr>";
    for (const Column* c : shown) {
      const Cell& cell = c->cells[row];
      out += fmt::format("<td{}{}>{}</td>", c->words ? " class=\"word\"" : "",
                         cell.value ? fmt::format(" data-value=\"{}\"", *cell.value) : "", cell.html);
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

// Model memory has a table of its own.
void add_figures(std::vector<Column>& columns, const std::vector<Run>& runs, bool of_memory) {
  for (const Figure& figure : figures()) {
    if (figure.of_memory != of_memory) continue;
    columns.push_back({figure.title});
    for (const Run& run : runs) {
      columns.back().cells.push_back(cell_of(value_of(figure, run.known), figure.text));
    }
  }
}

std::string runs_table(const std::vector<Run>& runs) {
  Column names{"run", true}, states{"state", true}, presets{"preset", true}, seeds{"seed"};
  for (std::size_t r = 0; r < runs.size(); ++r) {
    names.cells.push_back(
        {fmt::format("<label><input type=\"checkbox\" checked data-run=\"{}\"> {}{}</label>", r, key(r),
                     html(runs[r].label())),
         {}});
    states.cells.push_back({html(runs[r].state()), {}});
    presets.cells.push_back({html(text_in(runs[r].config, "preset")), {}});
    const auto seed = runs[r].config.find("seed");
    const bool whole = seed != runs[r].config.end() && seed->is_number_integer();
    seeds.cells.push_back(whole ? Cell{seed->dump(), seed->get<double>()} : Cell{});
  }
  std::vector<Column> columns = {names, states, presets, seeds};
  add_figures(columns, runs, false);
  return table(columns);
}

// ---- curves --------------------------------------------------------------------------------------------
// Positions in the picture of a range of values.
struct Scale {
  double low = 0, high = 1, from = 0, to = 1;
  double operator()(double value) const { return from + (value - low) / (high - low) * (to - from); }
  double distance() const { return tic_distance(high - low); }
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
void fit(Scale& scale, double low, double high) {
  const double room = std::max({0.04 * (high - low), 1e-6 * std::max(std::abs(low), std::abs(high)), 1e-9});
  scale.low = low - room;
  scale.high = high + room;
}

// With as many digits as tell a mark from its neighbours.
std::string tic_text(double value, double distance) {
  if (std::abs(value) >= 1e7) return fmt::format("{:.6g}", value);
  const int digits = std::max(0, static_cast<int>(-std::floor(std::log10(distance) + 1e-9)));
  return fmt::format("{:.{}f}", value, digits);
}

std::string drawing(const Panel& panel, const std::vector<Run>& runs) {
  constexpr double kWidth = 460, kHeight = 280, kLeft = 52, kRight = 12, kTop = 10, kBottom = 40;
  double low = HUGE_VAL, high = -HUGE_VAL, last = 1;
  for (const Curve& curve : panel.curves) {
    for (const PlotPoint& p : curve) {
      low = std::min(low, p.value);
      high = std::max(high, p.value);
      last = std::max(last, p.step);
    }
  }
  Scale x{0, last, kLeft, kWidth - kRight}, y{0, 100, kHeight - kBottom, kTop};
  if (!panel.share) fit(y, low, high);
  std::string out = fmt::format(
      "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n",
      html(panel.title), kWidth, kHeight, html(panel.title + " over steps"));
  for (const double v : y.tics()) {
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/><text x=\"{3}\" "
        "y=\"{4:.1f}\" "
        "text-anchor=\"end\">{5}</text>\n",
        kLeft, kWidth - kRight, y(v), kLeft - 6, y(v) + 4, tic_text(v, y.distance()));
  }
  for (const double v : x.tics()) {
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", x(v),
                       kHeight - kBottom + 17, tic_text(v, x.distance()));
  }
  out += fmt::format(
      "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">step</text>"
      "<text transform=\"translate(12 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
      (kLeft + kWidth - kRight) / 2, kHeight - 6, (kTop + kHeight - kBottom) / 2, html(panel.axis));
  for (std::size_t r = 0; r < panel.curves.size(); ++r) {
    const Curve& curve = panel.curves[r];
    if (curve.empty()) continue;
    std::string points;
    for (const PlotPoint& p : curve) points += fmt::format("{:.1f},{:.1f} ", x(p.step), y(p.value));
    const std::string title = html(fmt::format("{}: {:.6g} at step {}", runs[r].label(), curve.back().value,
                                               with_commas(curve.back().step)));
    out += fmt::format("<g class=\"run{}\"{}><title>{}</title>", r, stroke(r), title);
    out += curve.size() == 1 ? fmt::format("<circle r=\"3\" style=\"fill:{}\" cx=\"{:.1f}\" cy=\"{:.1f}\"/>",
                                           colour(r), x(curve[0].step), y(curve[0].value))
                             : fmt::format("<polyline class=\"curve\" points=\"{}\"/>", points);
    out += "</g>\n";
  }
  return out + "</svg></figure>\n";
}

// ---- memory --------------------------------------------------------------------------------------------
constexpr const char* kPartColours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#8C8C00"};

std::string memory_section(const std::vector<Run>& runs) {
  double largest = 0;
  for (const Run& run : runs) largest = std::max(largest, number_in(run.memory(), "total").value_or(0));
  if (largest <= 0) return "";
  std::string out = "<h2>Model memory</h2>\n<p>";
  for (std::size_t p = 0; p < std::size(kMemoryParts); ++p) {
    out += fmt::format("<span class=\"key\" style=\"background:{}\"></span>{} &nbsp; ", kPartColours[p],
                       kMemoryParts[p]);
  }
  out += "</p>\n<div class=\"bars\">\n";
  for (const Run& run : runs) {
    const double total = number_in(run.memory(), "total").value_or(0);
    out += fmt::format("<span>{}</span><div class=\"bar\" style=\"width:{:.2f}%\">", html(run.label()),
                       100 * std::clamp(total / largest, 0.0, 1.0));
    for (std::size_t p = 0; p < std::size(kMemoryParts); ++p) {
      const double bytes = number_in(run.memory(), kMemoryParts[p]).value_or(0);
      if (bytes <= 0 || total <= 0) continue;
      out += fmt::format("<span style=\"background:{};width:{:.2f}%\" title=\"{}: {} bytes\"></span>",
                         kPartColours[p], 100 * bytes / total, kMemoryParts[p], with_commas(bytes));
    }
    out += fmt::format("</div><span>{} bytes</span>\n", with_commas(total));
  }
  out += "</div>\n";
  std::vector<Column> columns = {{"run", true}};
  for (const Run& run : runs) columns[0].cells.push_back({html(run.label()), {}});
  add_figures(columns, runs, true);
  return out + table(columns);
}

// ---- every run by itself -------------------------------------------------------------------------------
// Its tensors: how each is stored, and the share of its last measured increments that changed no code.
std::string tensors_table(const Run& run) {
  Column names{"tensor", true}, shapes{"shape", true}, bytes{"bytes"};
  std::vector<Column> specs, shares;
  for (std::size_t r = 0; r < kRoles; ++r) {
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
    bytes.cells.push_back(cell_of(number_in(tensor, "bytes"), with_commas));
    for (std::size_t r = 0; r < kRoles; ++r) {
      const std::string role(to_string(static_cast<Role>(r)));
      specs[r].cells.push_back({html(text_in(stored, role)), {}});
      shares[r].cells.push_back(cell_of(number_in(object_in(lost, role), "share"),
                                        [](double v) { return fmt::format("{:.2f} %", 100 * v); }));
    }
  }
  std::vector<Column> columns = {names, shapes, bytes};
  columns.insert(columns.end(), specs.begin(), specs.end());
  columns.insert(columns.end(), shares.begin(), shares.end());
  return table(columns);
}

std::string run_section(const Run& run, std::size_t number) {
  std::string out = fmt::format("<details><summary>{}{}</summary>\n", key(number), html(run.label()));
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
      out += fmt::format("<p>Again, with the same bits on the same kind of machine:</p>\n<pre>{}</pre>\n",
                         html(shell_command(again)));
    }
  }
  if (const std::string tensors = tensors_table(run); !tensors.empty()) {
    out += "<details><summary>Tensors</summary>\n" + tensors + "</details>\n";
  }
  if (!toml.empty()) {
    out += fmt::format("<details><summary>Config</summary>\n<pre>{}</pre></details>\n", html(toml));
  }
  return out + "</details>\n";
}

}  // namespace

std::string report_html(std::span<const NamedRun> given, const std::string& command) {
  std::vector<Run> runs;
  std::vector<PlotRun> curves;
  for (const NamedRun& run : given) {
    runs.push_back(read(run));
    curves.push_back(runs.back().curves);
  }
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n"
      "<title>lpmm: {0}</title>\n<style>{1}</style></head><body>\n"
      "<h1>{0}</h1>\n<p>A head sorts its table; a box switches a run's curves.</p>\n",
      runs.size() == 1 ? "one run" : fmt::format("{} runs", runs.size()), kStyle);
  out += runs_table(runs);
  out += "<h2>Curves</h2>\n<div class=\"panels\">\n";
  for (const Panel& panel : panels_of(curves)) out += drawing(panel, runs);
  out += "</div>\n" + memory_section(runs);
  out += "<h2>Every run</h2>\n";
  for (std::size_t r = 0; r < runs.size(); ++r) out += run_section(runs[r], r);
  out += fmt::format("<h2>This page</h2>\n<pre>{}</pre>\n<script>{}</script></body></html>\n", html(command),
                     kScript);
  return out;
}

}  // namespace lpmm
