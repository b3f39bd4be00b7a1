#include "lpmm/run/settings/foreign_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/files/json.h"
#include "lpmm/memory/roles.h"

namespace lpmm {
namespace {

// The configuration that a run began with, from the log beside its config.toml; nothing where no run is.
std::optional<TomlTable> recorded_config(const std::filesystem::path& path) {
  constexpr std::size_t kLongestRecord = 1 << 21;
  if (path.filename() != "config.toml") return {};
  std::ifstream log(path.parent_path() / "log.jsonl", std::ios::binary);
  std::string text(kLongestRecord, '\0');
  log.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(log.gcount()));
  try {
    const Json record = parse_json(text.substr(0, text.find('\n')));
    if (record.value("type", "") == "config") return TomlTable::parse(record.value("toml", ""), "log.jsonl");
  } catch (const std::exception&) {  // no log of a run
  }
  return {};
}

// `rule` is the rule's name as messages have it.
std::string why_no_state(const TomlTable& table, Role state, const OptimizerConfig& optimizer,
                         const std::string& rule) {
  const std::string key = table.full_name(to_string(state));
  const RuleRow& row = rule_row(optimizer.rule);
  for (const SettingRow& s : row.settings) {
    OptimizerConfig with = optimizer;
    with.settings[s.key] = s.is_switch ? 1 : 0.5;
    if (!uses(with, state)) continue;
    return fmt::format(
        "{} is the spec of a state that {} keeps only with optimizer.{}: set that {}, or leave {} out", key,
        rule, s.key.text(), s.is_switch ? "= true" : "above 0", key);
  }
  std::vector<std::string_view> kept;
  for (const Role role : row.states) {
    if (kRoleRows[role].extent == Extent::kElements) kept.push_back(to_string(role));
  }
  return fmt::format("{} is the spec of a state that {} does not keep; it keeps {}", key, rule, join(kept));
}

// Returns true if the recorded configuration has the key of [optimizer], [memory] or an override of that.
bool is_recorded(const TomlTable& recorded, const std::string& key) {
  const std::string last = key.substr(key.rfind('.') + 1);
  const TomlTable memory = recorded.table("memory");
  if (key.starts_with("optimizer.")) return recorded.table("optimizer").has(last);
  if (!key.starts_with("memory.override.")) return memory.has(last);
  const std::vector<TomlTable> overrides = memory.tables("override");
  return std::any_of(overrides.begin(), overrides.end(), [&](const TomlTable& o) { return o.has(last); });
}

// Marks the keys that nobody typed and that a run wrote.
void mark_those_of_runs(std::vector<ForeignKey>& keys, const MeantOptimizers& meant) {
  if (keys.empty()) return;
  const std::optional<TomlTable> recorded = recorded_config(meant.file);
  for (ForeignKey& f : keys) {
    const bool is_typed = f.table.place(f.key).starts_with("--");
    f.of_run =
        !is_typed && (meant.file_is_ours || (recorded && is_recorded(*recorded, f.table.full_name(f.key))));
  }
}

}  // namespace

std::vector<ForeignKey> foreign_keys(const TomlTable& file, const MeantOptimizers& meant) {
  std::vector<ForeignKey> found;
  const TomlTable optimizer = file.table("optimizer"), memory = file.table("memory");
  const std::string rule =
      std::string(meant.of_run.rule.text()) + (optimizer.has("rule") ? "" : " (optimizer.rule is not set)");
  const auto note_if_foreign = [&](const TomlTable& table, std::string_view key, const auto& has,
                                   const auto& why) {
    if (!table.has(key) || has(meant.of_run)) return;
    const bool is_typed = table.place(key).starts_with("--");
    if (!is_typed && has(meant.of_file)) return;
    found.push_back({table, std::string(key), why()});
  };
  for (const SettingRow& s : all_settings()) {
    note_if_foreign(
        optimizer, s.key.text(), [&](const OptimizerConfig& c) { return has_setting(c, s.key); },
        [&] { return why_no_setting(optimizer.full_name(s.key.text()), s.key, meant.of_run.rule, rule); });
  }
  std::vector<TomlTable> tables = memory.tables("override");
  tables.insert(tables.begin(), memory);
  for (const TomlTable& table : tables) {
    for (const Role role : kEveryElementRole) {
      note_if_foreign(
          table, to_string(role), [&](const OptimizerConfig& c) { return !is_state(role) || uses(c, role); },
          [&] { return why_no_state(table, role, meant.of_run, rule); });
    }
  }
  mark_those_of_runs(found, meant);
  return found;
}

}  // namespace lpmm
