#include "lpmm/run/run_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/files/files.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/log.h"
#include "lpmm/run/records.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

// Keys that may change when a run goes on: they do not touch the steps it has made. Specs of a preset are
// compared role by role.
bool may_change(const std::string& key) {
  for (const char* free : {"train.device", "train.threads", "train.steps", "train.epochs",
                           "train.eval_every_epochs", "train.max_failed_steps", "data.bleu", "memory.preset",
                           "ranks.stage", "ranks.reads", "ranks.nccl", "ranks.timeout_seconds"}) {
    if (key == free) return true;
  }
  return key.starts_with("checkpoint.") || key.starts_with("log.") || key.starts_with("watch.");
}

constexpr std::uint64_t kLongestConfig = 1 << 20;

}  // namespace

std::string run_made_of(const std::string& file) {
  std::error_code none;  // a path that leads nowhere is no run's
  const fs::path target = fs::weakly_canonical(fs::absolute(file, none), none);
  for (fs::path folder = target.parent_path(); folder != folder.parent_path();
       folder = folder.parent_path()) {
    const RunFolder run(folder.string());
    if (!fs::exists(run.config, none) || !(fs::exists(run.log, none) || fs::exists(run.checkpoints, none))) {
      continue;
    }
    const fs::path first = *target.lexically_relative(folder).begin();
    for (const char* of_run :
         {"config.toml", "log.jsonl", "checkpoints", "watch", "model_files", "reference.safetensors"}) {
      if (first == of_run) return folder.string();
    }
  }
  return "";
}

bool check_config_seal(const std::string& path) {
  const std::optional<Seal> seal = read_seal(read_text(path, kLongestConfig));
  if (!seal) return false;
  if (seal->saved == seal->found) return true;
  throw RunError(fmt::format(
      "{}: is damaged or was edited: its checksum is {}, its last line says {}; where you edited it "
      "on purpose, remove that line (\"{}{}...\"), else put the file back as the run wrote it: "
      "log.jsonl holds it in its record of type config",
      path, seal->found, seal->saved, kSeal, seal->saved));
}

bool check_run_folder(const RunFolder& folder, const RunConfig& config, bool resume, bool tells) {
  std::error_code error;
  const bool has_log = fs::exists(folder.log, error) && fs::file_size(folder.log, error) > 0;
  const bool has_config = fs::exists(folder.config, error);
  const bool used = has_log || !newest_checkpoint(folder.checkpoints).empty() ||
                    (has_config && read_seal(read_text(folder.config, kLongestConfig)));
  if (!used && has_config) {
    throw UsageError(
        fmt::format("{}: is no run's, and a run would write its own there; name another folder (--out)",
                    folder.config.string()));
  }
  if (!used) return true;
  if (!resume) {
    throw UsageError(
        fmt::format("{}: holds a run already; go on with it (--resume) or name another folder (--out)",
                    folder.root.string()));
  }
  if (!has_config) {
    throw UsageError(fmt::format("{}: has no config.toml, so it cannot be told whether this is the same run",
                                 folder.root.string()));
  }
  const bool sealed = check_config_seal(folder.config);
  const std::string advice = fmt::format(
      "go on from {}, or start another run from this one's weights (--init {} with another --out)",
      folder.config.string(), folder.root.string());
  return check_same_run(folder, config, may_change, advice, tells) || !sealed;
}

bool check_same_run(const RunFolder& folder, const RunConfig& config, bool (*may_differ)(const std::string&),
                    const std::string& advice, bool tells) {
  const auto changed =
      differences(load_config(folder.config.string(), {.families = config.families}), config);
  for (const ConfigDifference& d : changed) {
    const bool is_length = d.key == "train.steps" || d.key == "train.epochs";
    if (tells && is_length && config.schedule.kind != ScheduleKind::kConstant) {
      tell(
          fmt::format("{}: {} was {} and is {}: the schedule is stretched, and the next steps have another "
                      "learning rate than they would have had\n",
                      folder.root.string(), d.key, d.first, d.second));
    }
    if (may_differ(d.key)) continue;
    throw UsageError(fmt::format("{}: holds another run: {} is {} there and {} here; {}",
                                 folder.root.string(), d.key, d.first.empty() ? "not set" : d.first,
                                 d.second.empty() ? "not set" : d.second, advice));
  }
  return !changed.empty();
}

std::optional<std::string> finished_summary(const RunFolder& folder, const RunConfig& config,
                                            std::int64_t steps) {
  std::error_code error;
  if (!fs::exists(folder.log, error)) return {};
  const fs::path newest = newest_checkpoint(folder.checkpoints);
  const bool kept = !config.checkpoint.final || newest.filename() == checkpoint_name(steps);
  if (!kept && !newest.empty()) return {};
  const std::vector<Json> records = read_log(folder.log);
  const Json* last = end_of(records);
  if (last == nullptr) return {};
  if (last->value("steps", Json()) != steps) {
    if (!newest.empty()) return {};
    throw UsageError(fmt::format(
        "{}: holds a run that ended and kept no checkpoint to go on from: name another folder (--out), or "
        "remove this one",
        folder.root.string()));
  }
  if (!kept) return {};
  newest_checkpoint(folder.checkpoints, true);  // nobody writes there any more: what was left there goes
  return last->dump();
}

MadeFolder::MadeFolder(const fs::path& path) {
  std::error_code error;
  fs::path missing = fs::absolute(path, error).lexically_normal();
  if (!missing.has_filename()) missing = missing.parent_path();  // a slash at the end
  for (; !missing.empty() && !fs::exists(missing, error) && missing != missing.parent_path();
       missing = missing.parent_path()) {
    made_.push_back(missing);
  }
  make_folder(path);
}

MadeFolder::~MadeFolder() {
  for (const fs::path& path : made_) ::rmdir(path.c_str());  // refuses what is not empty
}

}  // namespace lpmm
