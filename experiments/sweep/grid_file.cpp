#include "experiments/sweep/grid_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace {

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

}  // namespace

Part load_part(const std::filesystem::path& path, bool quick) {
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
}  // namespace lpmm
