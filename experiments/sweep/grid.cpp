#include "experiments/sweep/grid.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace {

[[noreturn]] void refuse(const std::string& path, const toml::node& node, const std::string& what) {
  throw UsageError(fmt::format("{}:{}: {}", path, node.source().begin.line, what));
}

// A value as --set takes it: strings bare, numbers as short as they can be told, the rest as TOML writes it.
std::string value_text(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto number = node.value_exact<double>()) return fmt::format("{}", *number);
  std::ostringstream out;
  node.visit([&](const auto& n) { out << n; });
  return out.str();
}

std::vector<std::string> texts(const std::string& path, const std::string& key, const toml::node& node) {
  const toml::array* items = node.as_array();
  if (items == nullptr || items->empty()) refuse(path, node, key + " is an array with at least one value");
  std::vector<std::string> out;
  for (const toml::node& item : *items) {
    if (item.is_table()) refuse(path, item, key + " holds plain values");
    out.push_back(value_text(item));
  }
  return out;
}

// [axes] may hold "a.b" = [...] or a.b = [...], which TOML reads as a table a.
void read_axes(const std::string& path, const std::string& prefix, const toml::table& table,
               SweepGrid& grid) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const toml::table* inner = node.as_table()) {
      read_axes(path, name + ".", *inner, grid);
    } else {
      grid.axes.push_back({name, texts(path, name, node)});
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

SweepGrid load_grid(const std::string& path, std::span<const std::string_view> others) {
  constexpr std::string_view kKeys[] = {"configs", "presets", "seeds", "set", "baseline", "axes"};
  toml::table root;
  try {
    root = toml::parse(read_text(path, 1 << 20), path);
  } catch (const toml::parse_error& e) {
    throw UsageError(fmt::format("{}:{}: {}", path, e.source().begin.line, e.description()));
  } catch (const RunError& e) {
    throw UsageError(e.what());
  }
  SweepGrid grid;
  for (const auto& [name, node] : root) {
    const std::string key(name.str());
    if (key == "configs") {
      grid.configs = texts(path, key, node);
    } else if (key == "presets") {
      grid.presets = texts(path, key, node);
    } else if (key == "set") {
      grid.settings = texts(path, key, node);
    } else if (key == "seeds") {
      texts(path, key, node);
      for (const toml::node& seed : *node.as_array()) {
        const auto value = seed.value_exact<std::int64_t>();
        if (!value || *value < 0) refuse(path, seed, "seeds are integers, 0 or more");
        grid.seeds.push_back(static_cast<std::uint64_t>(*value));
      }
    } else if (key == "baseline") {
      const auto preset = node.value_exact<std::string>();
      if (!preset) refuse(path, node, "baseline is the name of a preset");
      grid.baseline = *preset;
    } else if (key == "axes") {
      if (!node.is_table()) refuse(path, node, "axes is a table of \"section.key\" = [values]");
      read_axes(path, "", *node.as_table(), grid);
    } else if (std::find(others.begin(), others.end(), key) == others.end()) {
      refuse(path, node,
             fmt::format("unknown key {}; did you mean {}? (known: {})", key, nearest_name(key, kKeys),
                         join(kKeys)));
    }
  }
  return grid;
}

}  // namespace lpmm
