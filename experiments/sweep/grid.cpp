#include "experiments/sweep/grid.h"

#include <fmt/format.h>

#include <limits>

#include "lpmm/base/error.h"

namespace lpmm {
namespace {

// [axes] may hold "a.b" = [...] or a.b = [...], which TOML reads as a table a.
void read_axes(const TomlTable& table, const std::string& prefix, SweepGrid& grid) {
  for (const std::string& key : table.keys()) {
    if (table.is_table(key)) {
      read_axes(table.table(key), prefix + key + ".", grid);
    } else {
      grid.axes.push_back({prefix + key, *table.plain_values(key)});
    }
  }
}

std::vector<std::string> parts_of(const std::string& joined) {
  std::vector<std::string> parts(1);
  for (const char c : joined) {
    if (c == '&') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace

std::vector<std::string> keys_of(const SweepAxis& axis) {
  return parts_of(axis.key);
}

std::vector<std::string> settings_of(const std::string& key, const std::string& value) {
  const std::vector<std::string> keys = parts_of(key), values = parts_of(value);
  if (keys.size() != values.size()) {
    throw UsageError(
        fmt::format("the axis {} has {} keys, its value {} has {}", key, keys.size(), value, values.size()));
  }
  std::vector<std::string> out;
  for (std::size_t i = 0; i < keys.size(); ++i) out.push_back(keys[i] + "=" + values[i]);
  return out;
}

SweepGrid read_grid(const TomlTable& table) {
  SweepGrid grid;
  grid.configs = table.plain_values("configs").value_or(grid.configs);
  grid.presets = table.plain_values("presets").value_or(grid.presets);
  grid.settings = table.plain_values("set").value_or(grid.settings);
  grid.baseline = table.text("baseline").value_or("");
  constexpr std::int64_t kMostSeed = std::numeric_limits<std::int64_t>::max();
  if (const auto seeds = table.integers("seeds", 0, kMostSeed)) {
    if (seeds->empty()) table.refuse("seeds", "seeds has no value; give at least one");
    grid.seeds.assign(seeds->begin(), seeds->end());
  }
  read_axes(table.table("axes"), "", grid);
  return grid;
}

SweepGrid load_grid(const std::string& path) {
  const TomlTable table = TomlTable::load(path);
  SweepGrid grid = read_grid(table);
  table.refuse_unknown();
  return grid;
}

}  // namespace lpmm
