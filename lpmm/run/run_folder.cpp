#include "lpmm/run/run_folder.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "lpmm/base/error.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/log.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

// Keys that may change when a run goes on: they do not touch the steps it has made. What a preset stands for
// is compared role by role.
bool may_change(const std::string& key) {
  for (const char* free : {"train.threads", "train.steps", "train.epochs", "train.eval_every_epochs",
                           "train.max_failed_steps", "memory.preset"}) {
    if (key == free) return true;
  }
  return key.starts_with("checkpoint.") || key.starts_with("log.");
}

}  // namespace

bool check_run_folder(const RunFolder& folder, const RunConfig& config, bool resume) {
  std::error_code none;
  const bool has_log = fs::exists(folder.log) && fs::file_size(folder.log, none) > 0;
  const bool used = fs::exists(folder.config) || has_log || !newest_checkpoint(folder.checkpoints).empty();
  if (!used) return true;
  if (!resume) {
    throw UsageError(
        fmt::format("{}: holds a run already; go on with it (--resume) or name another folder (--out)",
                    folder.root.string()));
  }
  if (!fs::exists(folder.config)) {
    throw UsageError(fmt::format("{}: has no config.toml, so it cannot be told whether this is the same run",
                                 folder.root.string()));
  }
  const auto changed = differences(load_config(folder.config, {}), config);
  for (const ConfigDifference& d : changed) {
    if (may_change(d.key)) continue;
    throw UsageError(
        fmt::format("{}: holds another run: {} is {} there and {} here; use the same settings or "
                    "another folder (--out)",
                    folder.root.string(), d.key, d.first.empty() ? "not set" : d.first,
                    d.second.empty() ? "not set" : d.second));
  }
  return !changed.empty();
}

std::optional<std::string> finished_summary(const RunFolder& folder, const RunConfig& config,
                                            std::int64_t steps) {
  if (!fs::exists(folder.log)) return {};
  const fs::path newest = newest_checkpoint(folder.checkpoints);
  const bool kept = !config.checkpoint.final || newest.filename() == checkpoint_name(steps);
  if (!kept && !newest.empty()) return {};
  const std::vector<Json> records = read_log(folder.log);
  if (records.empty()) return {};
  const Json& last = records.back();
  const auto is = [&](const char* key, const Json& value) {
    return last.contains(key) && last[key] == value;
  };
  if (!is("type", "summary") || !is("interrupted", false)) return {};
  if (!is("steps", steps)) {
    if (!newest.empty()) return {};
    throw UsageError(fmt::format(
        "{}: holds a run that ended and kept no checkpoint to go on from: name another folder (--out), or "
        "remove this one",
        folder.root.string()));
  }
  return kept ? std::optional(last.dump()) : std::nullopt;
}

}  // namespace lpmm
