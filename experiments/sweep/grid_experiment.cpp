#include "experiments/sweep/grid_experiment.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>

#include "experiments/plots/chart.h"
#include "experiments/plots/plot.h"
#include "experiments/plots/records.h"
#include "experiments/sweep/statistics.h"
#include "experiments/sweep/sweep.h"
#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/files/files.h"
#include "lpmm/memory/spec.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

// ---- what a file asks for ------------------------------------------------------------------------------
using Fields = std::map<std::string, std::string>;

// A number of some rows.
struct Selection {
  std::string y;
  Fields only;
  std::string best;
};
struct ChartRequest {
  Selection rows;
  std::string title, x, log, heat;
  std::vector<std::string> lines, panels;
  std::vector<double> limits;
  bool front = false;
};
struct Expectation {
  Selection rows;
  std::string what;
  double low = -INFINITY, high = INFINITY;
};
struct Part {
  std::string name;
  SweepGrid grid;
  std::vector<ChartRequest> charts;
  std::vector<Expectation> expected;
};

constexpr std::string_view kOwnKeys[] = {"quick", "chart", "expected"};

// Reads a table and refuses keys that nobody asks for.
class TableReader {
 public:
  TableReader(std::string path, const toml::table& table) : path_(std::move(path)), table_(table) {}

  [[noreturn]] void refuse(const std::string& what) const {
    throw UsageError(fmt::format("{}:{}: {}", path_, table_.source().begin.line, what));
  }
  template <class T>
  T take(const char* key, T otherwise, const char* type) {
    const toml::node* node = find(key);
    if (node == nullptr) return otherwise;
    const auto value = node->value<T>();
    if (!value) refuse(fmt::format("{} is {}", key, type));
    return *value;
  }
  std::string text(const char* key) { return take<std::string>(key, "", "text"); }
  std::vector<std::string> texts(const char* key) {
    std::vector<std::string> out;
    const toml::node* node = find(key);
    if (node == nullptr) return out;
    if (!node->is_array()) refuse(fmt::format("{} is an array of text", key));
    for (const toml::node& item : *node->as_array()) {
      const auto value = item.value<std::string>();
      if (!value) refuse(fmt::format("{} holds text only", key));
      out.push_back(*value);
    }
    return out;
  }
  std::optional<std::vector<double>> numbers(const char* key) {
    const toml::node* node = find(key);
    if (node == nullptr) return {};
    std::vector<double> out;
    if (!node->is_array()) refuse(fmt::format("{} is an array of numbers", key));
    for (const toml::node& item : *node->as_array()) {
      const auto value = item.value<double>();
      if (!value || !std::isfinite(*value)) refuse(fmt::format("{} holds finite numbers only", key));
      out.push_back(*value);
    }
    return out;
  }
  // The keys of an inner table, each read by `body`(reader of that table, key).
  template <class Body>
  void each(const char* key, const Body& body) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    if (!node->is_table()) refuse(fmt::format("{} is a table", key));
    TableReader inner(path_, *node->as_table());
    for (const auto& [name, value] : *node->as_table()) body(inner, std::string(name.str()).c_str());
  }
  void finish() const {
    for (const auto& [name, node] : table_) {
      if (asked_.contains(std::string(name.str()))) continue;
      const std::vector<std::string_view> names(asked_.begin(), asked_.end());
      refuse(fmt::format("unknown key {}; did you mean {}? (known: {})", name.str(),
                         nearest_name(name.str(), names), join(names)));
    }
  }

 private:
  const toml::node* find(const char* key) {
    asked_.insert(key);
    return table_.get(key);
  }
  std::string path_;
  const toml::table& table_;
  std::set<std::string, std::less<>> asked_;
};

Selection read_selection(TableReader& reader) {
  Selection out{.y = reader.text("y"), .only = {}, .best = reader.text("best")};
  reader.each("only", [&](TableReader& fields, const char* key) { out.only[key] = fields.text(key); });
  if (out.y.empty()) reader.refuse("y names what is shown");
  if (!out.best.empty() && out.y.ends_with("_gap")) {
    reader.refuse("the best of gaps is where the baseline is worst: with best, show what the gap is of");
  }
  return out;
}

ChartRequest read_chart(TableReader reader) {
  ChartRequest out;
  out.rows = read_selection(reader);
  out.title = reader.text("title");
  out.x = reader.text("x");
  out.log = reader.text("log");
  out.lines = reader.texts("lines");
  out.panels = reader.texts("panels");
  out.heat = reader.text("heat");
  const auto limits = reader.numbers("limits");
  out.front = reader.take("front", false, "true or false");
  reader.finish();
  if (out.x.empty()) reader.refuse("x names what y is shown over");
  if (out.x == "step" && (out.front || !out.rows.best.empty())) {
    reader.refuse("front and best are of results: x cannot be step");
  }
  if (!out.heat.empty() && (out.x == "step" || out.front || !out.lines.empty() || !out.log.empty())) {
    reader.refuse("a heat map has x and heat, and neither lines, front, log nor steps");
  }
  if (limits) {
    if (limits->size() != 2 || !((*limits)[0] < (*limits)[1]))
      reader.refuse("limits are the least and the largest number shown");
    if (out.log.ends_with('y') && (*limits)[0] <= 0) reader.refuse("limits of a log axis are above 0");
    out.limits = *limits;
  }
  constexpr std::string_view kLogs[] = {"", "x", "y", "xy"};
  if (std::find(std::begin(kLogs), std::end(kLogs), out.log) == std::end(kLogs)) {
    reader.refuse("log is \"x\", \"y\" or \"xy\"");
  }
  return out;
}

Expectation read_expectation(TableReader reader) {
  Expectation out;
  out.rows = read_selection(reader);
  out.what = reader.text("what");
  out.low = reader.take("low", out.low, "a number");
  out.high = reader.take("high", out.high, "a number");
  reader.finish();
  if (out.what.empty()) reader.refuse("what says what is expected");
  if (!(out.low <= out.high) || (std::isinf(out.low) && std::isinf(out.high)))
    reader.refuse("low, high or both bound what is expected, low at most high");
  return out;
}

void make_quick(TableReader reader, SweepGrid& grid) {
  for (std::string& setting : reader.texts("set")) grid.settings.push_back(std::move(setting));
  if (auto configs = reader.texts("configs"); !configs.empty()) grid.configs = std::move(configs);
  if (auto presets = reader.texts("presets"); !presets.empty()) {
    if (std::find(presets.begin(), presets.end(), grid.baseline) == presets.end()) grid.baseline.clear();
    grid.presets = std::move(presets);
  }
  const auto seeds = reader.take<std::int64_t>("seeds", 1, "a number of seeds");
  if (seeds < 1) reader.refuse("seeds is the number of seeds, at least 1");
  if (static_cast<std::size_t>(seeds) < grid.seeds.size()) grid.seeds.resize(static_cast<std::size_t>(seeds));
  reader.each("axes", [&](TableReader& axes, const char* key) {
    const auto axis =
        std::find_if(grid.axes.begin(), grid.axes.end(), [&](const SweepAxis& a) { return a.key == key; });
    if (axis == grid.axes.end()) axes.refuse(fmt::format("the grid has no axis {}", key));
    axis->values = axes.texts(key);
    if (axis->values.empty()) axes.refuse(fmt::format("{} has no value", key));
  });
  reader.finish();
}

Part load_part(const fs::path& path, bool quick) {
  Part part{path.stem().string(), load_grid(path.string(), kOwnKeys), {}, {}};
  const toml::table root = toml::parse(read_text(path.string(), 1 << 20), path.string());
  const auto each = [&](const char* key, const auto& body) {
    const toml::node* node = root.get(key);
    if (node == nullptr) return;
    if (!node->is_array_of_tables()) {
      throw UsageError(fmt::format("{}:{}: write [[{}]]", path.string(), node->source().begin.line, key));
    }
    for (const toml::node& item : *node->as_array()) body(TableReader(path.string(), *item.as_table()));
  };
  each("chart", [&](TableReader reader) { part.charts.push_back(read_chart(std::move(reader))); });
  each("expected", [&](TableReader reader) { part.expected.push_back(read_expectation(std::move(reader))); });
  if (const toml::node* node = root.get("quick"); node != nullptr && !node->is_table()) {
    throw UsageError(fmt::format("{}:{}: quick is a table", path.string(), node->source().begin.line));
  }
  if (quick) {
    // Without [quick] one seed of all.
    const toml::table none;
    const toml::table* table = root["quick"].as_table();
    make_quick(TableReader(path.string(), table == nullptr ? none : *table), part.grid);
    for (ChartRequest& chart : part.charts) chart.limits.clear();  // they are of whole runs
  }
  return part;
}

// ---- what came out -------------------------------------------------------------------------------------
struct Number {
  double mean = 0, low = 0, high = 0;  // two-sided 95 % bounds, or the mean where there is one seed
};
// Cells that differ in their seed only.
struct Row {
  std::string group;
  Fields fields;
  std::map<std::string, Number> values;
  std::vector<fs::path> folders;
};
using Rows = std::vector<const Row*>;

Fields fields_of(const SweepGrid& grid, const SweepCell& cell) {
  const RunConfig& c = cell.config;
  Fields out = {{"preset", c.policy.preset},
                {"optimizer.learning_rate", fmt::format("{:g}", c.optimizer.learning_rate)},
                {"train.batch", std::to_string(c.train.batch)},
                {"train.microbatches", std::to_string(c.train.microbatches)},
                {"memory.error_feedback", c.policy.error_feedback ? "feedback" : ""}};
  for (std::size_t r = 0; r < kRoles; ++r) {
    const Spec& spec = c.policy.specs[r];
    const std::string role = "memory." + std::string(to_string(static_cast<Role>(r)));
    if (static_cast<Role>(r) == Role::kAccumulator && c.policy.accumulate_in_momentum) {
      out[role] = out[role + ".format"] = kInMomentum;
      out[role + ".bits"] = "0";
      for (const char* part : {".block", ".rounding", ".steps"}) out[role + part] = "";
      continue;
    }
    out[role] = to_string(spec);
    out[role + ".bits"] = std::to_string(spec.format.bits);
    out[role + ".format"] = to_string(spec.format);
    out[role + ".block"] = is_packed(spec.format) ? std::to_string(spec.block) : "";
    out[role + ".rounding"] = is_packed(spec.format) ? std::string(to_string(spec.rounding)) : "";
    out[role + ".steps"] = !is_packed(spec.format)               ? ""
                           : spec.step_mode == StepMode::kSticky ? "sticky"
                                                                 : "moving";
  }
  // What else the grid varies, as it was written.
  for (const std::string& setting : cell.options.settings) {
    const std::size_t equals = setting.find('=');
    const std::string key = setting.substr(0, equals);
    const bool varies = std::any_of(grid.axes.begin(), grid.axes.end(), [&](const SweepAxis& axis) {
      const std::vector<std::string> keys = keys_of(axis);
      return std::find(keys.begin(), keys.end(), key) != keys.end();
    });
    if (varies) out.try_emplace(key, setting.substr(equals + 1));
  }
  return out;
}

Number number_of(std::span<const double> values) {
  const Mean mean = mean_of(values);
  Number out{mean.mean, mean.mean, mean.mean};
  if (mean.count > 1) {
    const MeanBounds bounds = bounds_95(mean);
    out.low = bounds.low;
    out.high = bounds.high;
  }
  return out;
}

// The mean over the run of what its log says of a role's changes.
void add_changes(const fs::path& folder, std::map<std::string, std::vector<double>>& values) {
  std::map<std::string, std::vector<double>> errors;
  for (const Scalar& s : scalars_of(read_log((folder / "log.jsonl").string()))) {
    const std::size_t slash = s.tag.find('/');
    const std::string kind = s.tag.substr(0, slash);
    if (kind != "relative_error" && kind != "update_to_step") continue;
    errors[kind + "." + s.tag.substr(slash + 1)].push_back(s.value);
  }
  for (const auto& [key, all] : errors) values[key].push_back(mean_of(all).mean);
}

// One row a group, without values yet. All have the same fields.
std::vector<Row> rows_of(const SweepGrid& grid, const std::vector<SweepCell>& cells) {
  std::vector<Row> rows;
  std::set<std::string> keys;
  for (const SweepCell& cell : cells) {
    if (std::any_of(rows.begin(), rows.end(), [&](const Row& row) { return row.group == cell.group; }))
      continue;
    rows.push_back({cell.group, fields_of(grid, cell), {}, {}});
    for (const auto& [key, value] : rows.back().fields) keys.insert(key);
  }
  for (Row& row : rows) {
    for (const std::string& key : keys) row.fields.try_emplace(key);
  }
  return rows;
}

void fill(std::vector<Row>& rows, const std::vector<SweepCell>& cells, const Json& answer,
          const fs::path& out) {
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < rows.size(); ++i) places[rows[i].group] = i;
  std::vector<std::map<std::string, std::vector<double>>> values(rows.size()), changes(rows.size());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Json& cell = answer["cells"][i];
    if (!cell.contains("summary")) continue;
    const std::size_t place = places.at(cells[i].group);
    const Json& summary = cell["summary"];
    const auto add = [&](const std::string& key, const std::optional<double>& value, double scale = 1) {
      if (value) values[place][key].push_back(scale * *value);
    };
    for (const char* key : {"bits_per_parameter", "final_loss", "test_loss"})
      add(key, number_in(summary, key));
    add("accuracy", number_in(summary, "test_accuracy"), 100);
    for (std::size_t r = 0; r < kRoles; ++r) {
      const std::string role(to_string(static_cast<Role>(r)));
      add("underflow." + role, number_in(object_in(summary, "underflow"), role));
    }
    rows[place].folders.push_back(out / cells[i].name);
    add_changes(rows[place].folders.back(), changes[place]);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const auto& [key, all] : changes[i]) rows[i].values[key] = number_of(all);
    for (const auto& [key, all] : values[i]) {
      // As in the table of the sweep: no mean without the seed that diverged.
      if (all.size() == rows[i].folders.size()) rows[i].values[key] = number_of(all);
    }
  }
  for (const Json& group : answer["groups"]) {
    const auto place = places.find(group["group"].get<std::string>());
    if (place == places.end()) continue;
    const std::pair<const char*, const char*> gaps[] = {{"loss_gap", "loss_gap"},
                                                        {"test_loss_gap", "test_loss_gap"},
                                                        {"accuracy_gap", "accuracy_gap_points"}};
    for (const auto& [key, named] : gaps) {
      const Json& gap = object_in(group, named);
      const auto mean = number_in(gap, "mean");
      if (!mean) continue;
      rows[place->second].values[key] = {*mean, number_in(gap, "low_95").value_or(*mean),
                                         number_in(gap, "high_95").value_or(*mean)};
    }
  }
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == text.npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

// The fields in which rows differ, and every value that some row has.
std::string csv_of(std::span<const Row> rows) {
  std::set<std::string> fields, values;
  for (const Row& row : rows) {
    for (const auto& [key, value] : row.fields) {
      if (value != rows[0].fields.at(key) || key == "preset") fields.insert(key);
    }
    for (const auto& [key, value] : row.values) values.insert(key);
  }
  std::string out = "group,seeds";
  for (const std::string& key : fields) out += "," + csv_cell(key);
  for (const std::string& key : values) out += fmt::format(",{0},{0}_low_95,{0}_high_95", key);
  for (const Row& row : rows) {
    out += fmt::format("\n{},{}", csv_cell(row.group), row.folders.size());
    for (const std::string& key : fields) out += "," + csv_cell(row.fields.at(key));
    for (const std::string& key : values) {
      const auto at = row.values.find(key);
      out += at == row.values.end()
                 ? ",,,"
                 : fmt::format(",{:.6g},{:.6g},{:.6g}", at->second.mean, at->second.low, at->second.high);
    }
  }
  return out + "\n";
}

// ---- names that a file may use -------------------------------------------------------------------------
class Names {
 public:
  Names(const Part& part, std::span<const Row> rows) : part_(part) {
    for (const auto& [key, value] : rows[0].fields) fields_.insert(key);
    values_ = {"bits_per_parameter", "final_loss", "test_loss", "accuracy"};
    if (!part.grid.baseline.empty()) values_.insert({"loss_gap", "test_loss_gap", "accuracy_gap"});
    for (std::size_t r = 0; r < kRoles; ++r) {
      const std::string role(to_string(static_cast<Role>(r)));
      values_.insert({"underflow." + role, "relative_error." + role, "update_to_step." + role});
    }
    for (std::string& tag : known_tags()) tags_.insert(std::move(tag));
  }
  void check_field(const std::string& name) const { check(fields_.contains(name), name, fields_); }
  void check_value(const std::string& name) const { check(values_.contains(name), name, values_); }
  void check_tag(const std::string& name) const { check(tags_.contains(name), name, tags_); }
  void check_either(const std::string& name) const {
    std::set<std::string> both = fields_;
    both.insert(values_.begin(), values_.end());
    check(both.contains(name), name, both);
  }
  void check_rows(const Selection& selection) const {
    for (const auto& [key, value] : selection.only) check_field(key);
    if (!selection.best.empty()) check_field(selection.best);
  }

 private:
  void check(bool is_known, const std::string& name, const std::set<std::string>& known) const {
    if (is_known) return;
    const std::vector<std::string_view> names(known.begin(), known.end());
    throw UsageError(fmt::format("{}.toml: there is no {}; did you mean {}? (known: {})", part_.name, name,
                                 nearest_name(name, names), join(names)));
  }
  const Part& part_;
  std::set<std::string> fields_, values_, tags_;
};

// ---- selections ----------------------------------------------------------------------------------------
bool more_is_better(const std::string& value) {
  return value == "accuracy";
}

// Rows with these fields, before they have values.
Rows with_fields(std::span<const Row> rows, const Fields& only) {
  Rows out;
  for (const Row& row : rows) {
    if (std::all_of(only.begin(), only.end(),
                    [&](const auto& f) { return row.fields.at(f.first) == f.second; })) {
      out.push_back(&row);
    }
  }
  return out;
}

Rows select(std::span<const Row> rows, const Selection& selection) {
  Rows out = with_fields(rows, selection.only);
  std::erase_if(out, [&](const Row* row) { return !row->values.contains(selection.y); });
  if (selection.best.empty()) return out;
  const double sign = more_is_better(selection.y) ? -1 : 1;
  std::map<Fields, const Row*> best;
  for (const Row* row : out) {
    Fields rest = row->fields;
    rest.erase(selection.best);
    const Row*& kept = best[rest];
    const auto score = [&](const Row& r) { return sign * r.values.at(selection.y).mean; };
    if (kept == nullptr || score(*row) < score(*kept)) kept = row;
  }
  std::erase_if(out, [&](const Row* row) {
    return std::none_of(best.begin(), best.end(), [&](const auto& b) { return b.second == row; });
  });
  return out;
}

// "sr, 8" of rows that have these values of the fields, in the order of the first of them.
std::vector<std::pair<std::string, Rows>> split(const Rows& rows, const std::vector<std::string>& fields) {
  std::vector<std::pair<std::string, Rows>> out;
  for (const Row* row : rows) {
    std::string title;
    for (const std::string& field : fields) {
      const std::string& value = row->fields.at(field);
      if (!value.empty()) title += (title.empty() ? "" : ", ") + value;
    }
    auto at = std::find_if(out.begin(), out.end(), [&](const auto& part) { return part.first == title; });
    if (at == out.end()) at = out.insert(out.end(), {title, {}});
    at->second.push_back(row);
  }
  return out;
}

// ---- charts --------------------------------------------------------------------------------------------
const char* colour(std::size_t line) {
  return kRunColours[line % std::size(kRunColours)];
}
int mark(std::size_t line) {
  return line < std::size(kRunColours) ? 7 : 4;  // discs, then squares
}

double number_in(const std::string& text) {
  return std::strtod(text.c_str(), nullptr);
}

// The place of each row on an axis: its number, or where not all are numbers its rank of appearance; with
// `by_rank` always a rank, of numbers by size.
class Axis {
 public:
  Axis(const Rows& rows, const std::string& name, bool by_rank = false) : name_(name) {
    for (const Row* row : rows) {
      if (row->values.contains(name)) continue;
      const std::string& text = row->fields.at(name);
      char* end = nullptr;
      std::strtod(text.c_str(), &end);
      if (text.empty() || *end != '\0') categories_ = true;
    }
    if (!categories_ && !by_rank) return;
    for (const auto& [text, some] : split(rows, {name})) ranks_.push_back(text);
    if (categories_) return;
    categories_ = true;
    std::sort(ranks_.begin(), ranks_.end(),
              [](const std::string& a, const std::string& b) { return number_in(a) < number_in(b); });
  }
  double of(const Row& row) const {
    const auto value = row.values.find(name_);
    if (value != row.values.end()) return value->second.mean;
    const std::string& text = row.fields.at(name_);
    if (!categories_) return number_in(text);
    return static_cast<double>(std::find(ranks_.begin(), ranks_.end(), text) - ranks_.begin());
  }
  // gnuplot's commands for it as the axis x or y.
  std::string scale(char axis, bool is_log) const {
    if (!categories_) return is_log ? fmt::format("set logscale {}\n", axis) : "";
    std::string out = fmt::format("set {}tics (", axis);
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      out += fmt::format("{}'{}' {}", i == 0 ? "" : ", ", file_name(ranks_[i]), i);
    }
    return out + ")\n";
  }

 private:
  std::string name_;
  bool categories_ = false;  // else numbers
  std::vector<std::string> ranks_;
};

ChartSeries line_of(const Rows& rows, const Axis& axis, const ChartRequest& request, const std::string& title,
                    std::size_t line) {
  ChartSeries out{
      title,
      fmt::format("{} pt {} lc '{}'", request.front ? "points" : "yerrorlines", mark(line), colour(line)),
      {}};
  Rows sorted = rows;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Row* a, const Row* b) { return axis.of(*a) < axis.of(*b); });
  for (const Row* row : sorted) {
    const Number& y = row->values.at(request.rows.y);
    out.points.emplace_back(axis.of(*row), y.mean);
    if (!request.front) out.bounds.emplace_back(y.low, y.high);
  }
  return out;
}

// y of the best of these rows, from the least to the greatest x of the series.
ChartSeries level_of(const Rows& rows, const ChartRequest& request, const std::string& title,
                     std::span<const ChartSeries> series) {
  ChartSeries out{title, "lines lw 2 lc '#808080'", {}};
  const double sign = more_is_better(request.rows.y) ? -1 : 1;
  double best = INFINITY, low = INFINITY, high = -INFINITY;
  for (const Row* row : rows) best = std::min(best, sign * row->values.at(request.rows.y).mean);
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
ChartSeries front_of(const Rows& rows, const Axis& axis, const ChartRequest& request) {
  ChartSeries out{"front", "lines lw 2 lc 'black'", {}};
  const double sign = more_is_better(request.rows.y) ? -1 : 1;
  const auto place = [&](const Row* row) {
    return std::pair(axis.of(*row), sign * row->values.at(request.rows.y).mean);
  };
  Rows sorted = rows;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Row* a, const Row* b) { return place(a) < place(b); });
  double best = INFINITY;
  for (const Row* row : sorted) {
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
Chart heat_map_of(const Rows& rows, const ChartRequest& request, const std::string& title) {
  const Axis x(rows, request.x, true), y(rows, request.heat, true);
  const auto value = [&](const Row* row) { return row->values.at(request.rows.y).mean; };
  double low = INFINITY, high = -INFINITY;
  for (const Row* row : rows) {
    low = std::min(low, value(row));
    high = std::max(high, value(row));
  }
  if (!request.limits.empty()) {
    low = request.limits[0];
    high = request.limits[1];
  }
  ChartSeries squares{"", "boxxyerror fs solid noborder lc rgb variable", {}};
  for (const Row* row : rows) {
    const double place = high > low ? (value(row) - low) / (high - low) : 0.5;
    squares.points.emplace_back(x.of(*row), y.of(*row));
    squares.heat.emplace_back(value(row), heat_colour(more_is_better(request.rows.y) ? 1 - place : place));
  }
  return {title, request.x, request.heat, x.scale('x', false) + y.scale('y', false), {std::move(squares)}};
}

// A tag of the logs over steps: the mean of the seeds, and a band from the lowest to the highest.
void add_curve(const Rows& rows, const std::string& tag, const std::string& title, std::size_t line,
               Chart& chart) {
  constexpr std::size_t kMostPoints = 200;
  std::map<std::int64_t, std::vector<double>> steps;
  for (const Row* row : rows) {
    for (const fs::path& folder : row->folders) {
      for (const Scalar& s : scalars_of(read_log((folder / "log.jsonl").string()))) {
        if (s.tag == tag) steps[s.step].push_back(s.value);
      }
    }
  }
  ChartSeries band{
      "", fmt::format("filledcurves fs transparent solid 0.2 noborder lc '{}'", colour(line)), {}};
  ChartSeries mean{title, fmt::format("lines lw 2 lc '{}'", colour(line)), {}};
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

std::vector<Chart> charts_of(std::span<const Row> rows, const ChartRequest& request,
                             const std::string& baseline) {
  const bool is_curve = request.x == "step";
  Rows selected = is_curve ? with_fields(rows, request.rows.only) : select(rows, request.rows);
  if (!is_curve) {  // a baseline has no gap to itself
    std::erase_if(selected, [&](const Row* row) {
      return !row->fields.contains(request.x) && !row->values.contains(request.x);
    });
  }
  // A front is drawn below or above what it is compared with, where there is anything else.
  Rows compared;
  if (request.front && !baseline.empty()) {
    const auto is_other = [&](const Row* row) { return row->fields.at("preset") != baseline; };
    const auto first = std::stable_partition(selected.begin(), selected.end(), is_other);
    if (first != selected.begin()) {
      compared.assign(first, selected.end());
      selected.erase(first, selected.end());
    }
  }
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
    const Axis axis(is_curve ? Rows{} : in_panel, request.x);
    std::string scales = axis.scale('x', request.log.find('x') != request.log.npos);
    if (request.log.ends_with('y')) scales += "set logscale y\nset format y '%g'\n";
    if (!request.limits.empty())
      scales += fmt::format("set yrange [{}:{}]\n", request.limits[0], request.limits[1]);
    Chart chart{title, request.x, request.rows.y, scales, {}};
    for (const auto& [name, in_line] : split(in_panel, request.lines)) {
      if (is_curve) {
        add_curve(in_line, request.rows.y, name, place_of(name), chart);
      } else {
        chart.series.push_back(line_of(in_line, axis, request, name, place_of(name)));
      }
    }
    if (request.front) {
      chart.series.push_back(front_of(in_panel, axis, request));
      Rows level = compared;
      const Row& shown = *in_panel[0];
      for (const std::string& field : request.panels) {
        if (field == "preset" || field.starts_with("memory.")) continue;
        std::erase_if(level, [&](const Row* row) { return row->fields.at(field) != shown.fields.at(field); });
      }
      if (!level.empty()) chart.series.push_back(level_of(level, request, baseline, chart.series));
    }
    charts.push_back(std::move(chart));
  }
  return charts;
}

// Says of every expectation which rows do not meet it. What has no number, because no run of it came to an
// end or the loss of one is none, does not.
void judge(const Part& part, std::span<const Row> rows) {
  for (const Expectation& e : part.expected) {
    Rows all = with_fields(rows, e.rows.only);
    if (e.rows.y.ends_with("_gap")) {
      std::erase_if(all, [&](const Row* row) { return row->fields.at("preset") == part.grid.baseline; });
    }
    std::string outside;
    for (const Row* row : all) {
      if (!row->values.contains(e.rows.y)) outside += fmt::format("\n  {}: no number", row->group);
    }
    for (const Row* row : select(rows, e.rows)) {
      const double y = row->values.at(e.rows.y).mean;
      if (!(y >= e.low && y <= e.high)) outside += fmt::format("\n  {}: {:.4g}", row->group, y);
    }
    fmt::print("{} {} ({} from {:g} to {:g}, {} rows){}\n",
               outside.empty() ? "as expected:" : "NOT as expected:", e.what, e.rows.y, e.low, e.high,
               all.size(), outside);
  }
}

// That no two rows of a heat map have one place.
void check_heat(const Part& part, const ChartRequest& chart, std::span<const Row> rows) {
  std::vector<std::string> place = chart.panels;
  place.insert(place.end(), {chart.x, chart.heat});
  for (const auto& [name, together] : split(with_fields(rows, chart.rows.only), place)) {
    for (const Row* row : together) {
      for (const auto& [field, value] : row->fields) {
        if (field == chart.rows.best || value == together[0]->fields.at(field)) continue;
        throw UsageError(
            fmt::format("{}.toml: runs of different {} have one place in the heat map over {} and {}; "
                        "name it in panels or only",
                        part.name, field, chart.x, chart.heat));
      }
    }
  }
}

// That charts and expectations speak of what the runs will have.
void check_names(const Part& part, std::span<const Row> rows, bool quick) {
  const Names names(part, rows);
  for (const ChartRequest& chart : part.charts) {
    names.check_rows(chart.rows);
    for (const std::string& field : chart.lines) names.check_field(field);
    for (const std::string& field : chart.panels) names.check_field(field);
    if (!chart.heat.empty()) {
      names.check_field(chart.heat);
      names.check_field(chart.x);
      check_heat(part, chart, rows);
    }
    if (chart.x == "step") {
      names.check_tag(chart.rows.y);
      continue;
    }
    names.check_either(chart.x);
    names.check_value(chart.rows.y);
  }
  for (const Expectation& e : part.expected) {
    names.check_rows(e.rows);
    names.check_value(e.rows.y);
    if (quick || !with_fields(rows, e.rows.only).empty()) continue;
    throw UsageError(fmt::format("{}.toml: no run has what \"{}\" speaks of", part.name, e.what));
  }
}

// A part whose cells and names are in order.
struct Prepared {
  Part part;
  std::vector<SweepCell> cells;
  std::vector<Row> rows;
};
Prepared prepare(Part part, const fs::path& file, bool quick) {
  try {
    std::vector<SweepCell> cells = sweep_cells(part.grid);
    std::vector<Row> rows = rows_of(part.grid, cells);
    check_names(part, rows, quick);
    return {std::move(part), std::move(cells), std::move(rows)};
  } catch (const UsageError& e) {
    throw UsageError(fmt::format("{}: {}", file.string(), e.what()));
  }
}

// The charts of a part; false where they could not be drawn.
bool draw(const GridExperiment& o, const Part& part, std::span<const Row> rows) {
  std::vector<Chart> charts;
  for (const ChartRequest& request : part.charts) {
    for (Chart& chart : charts_of(rows, request, part.grid.baseline)) {
      const bool is_empty = std::all_of(chart.series.begin(), chart.series.end(),
                                        [](const ChartSeries& s) { return s.points.empty(); });
      if (is_empty) {
        tell(fmt::format("{}: nothing to draw of {} over {}\n", o.name, request.rows.y, request.x));
      } else {
        charts.push_back(std::move(chart));
      }
    }
  }
  if (charts.empty()) return true;
  try {
    draw_charts(o.out, part.name, charts);
  } catch (const RunError& e) {
    tell(fmt::format("{}: {}\n", o.name, e.what()));
    return false;
  }
  return true;
}

int run_part(const GridExperiment& o, Prepared& prepared) {
  const Part& part = prepared.part;
  const fs::path cells_folder = fs::path(o.out) / part.name;
  tell(fmt::format("{}: {}\n", o.name, part.name));
  const SweepResult result = run_sweep(part.grid, {cells_folder.string(), o.jobs, o.threads});
  if (result.interrupted) return 130;
  fill(prepared.rows, prepared.cells, result.answer, cells_folder);
  write_text((fs::path(o.out) / (part.name + ".csv")).string(), csv_of(prepared.rows));
  if (!o.quick) judge(part, prepared.rows);
  const bool drawn = draw(o, part, prepared.rows);
  tell(fmt::format("{}: wrote {}/{}.csv{}\n", o.name, o.out, part.name, drawn ? " and charts" : ""));
  return result.failed == 0 && drawn ? 0 : 1;
}

}  // namespace

int run_grid_experiment(const GridExperiment& o) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(o.folder, error)) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  }
  if (error) throw UsageError(fmt::format("{}: {}", o.folder, error.message()));
  std::sort(files.begin(), files.end());
  if (files.empty()) throw UsageError(fmt::format("{}: holds no .toml file, which is a part", o.folder));
  std::vector<std::string> names;
  std::vector<Prepared> prepared;  // all are in order before the first is run
  for (const fs::path& file : files) {
    names.push_back(file.stem().string());
    if (!matches_pattern(o.parts, names.back())) continue;
    Part part = load_part(file, o.quick);
    part.grid.settings.insert(part.grid.settings.end(), o.settings.begin(), o.settings.end());
    prepared.push_back(prepare(std::move(part), file, o.quick));
  }
  if (prepared.empty()) {
    const std::vector<std::string_view> views(names.begin(), names.end());
    throw UsageError(fmt::format("{}: no part is called {}; there are {}", o.folder, o.parts, join(views)));
  }
  make_folder(o.out);
  int code = 0;
  for (Prepared& one : prepared) {
    const int own = run_part(o, one);
    if (own == 130) return own;
    code = std::max(code, own);
  }
  return code;
}

}  // namespace lpmm
