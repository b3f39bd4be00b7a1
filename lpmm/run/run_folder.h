// A run's folder: what lies where, and whether a run may write there.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "lpmm/run/config.h"

namespace lpmm {

struct RunFolder {
  explicit RunFolder(const std::string& out)
      : root(out), config(root / "config.toml"), log(root / "log.jsonl"), checkpoints(root / "checkpoints") {}
  std::filesystem::path root, config, log, checkpoints;
};

// Throws UsageError for a folder that this run may not write. Returns whether its config differs from what is
// kept there.
bool check_run_folder(const RunFolder& folder, const RunConfig& config, bool resume);

// The summary of a run that has nothing left to do: it came to its end, and what it should keep is there.
// Refuses to make one longer that kept nothing to go on from, as that would begin again and lose its log.
std::optional<std::string> finished_summary(const RunFolder& folder, const RunConfig& config,
                                            std::int64_t steps);

}  // namespace lpmm
