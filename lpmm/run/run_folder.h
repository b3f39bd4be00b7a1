// A run's folder: what lies where, and whether a run may write there.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lpmm/run/config.h"

namespace lpmm {

struct RunFolder {
  explicit RunFolder(const std::string& out)
      : root(out), config(root / "config.toml"), log(root / "log.jsonl"), checkpoints(root / "checkpoints") {}
  std::filesystem::path root, config, log, checkpoints;
};

// The folder of the run that has this file, be it there or not: its config, its log, or what lies with its
// checkpoints or spikes. Empty: it is none of a run's.
std::string run_made_of(const std::string& file);

// Throws RunError where the config.toml of a run ends with a checksum that is not its own, and says what to
// do where it was edited by hand. One without a checksum is taken as it is. Returns whether it has one.
bool check_config_seal(const std::string& path);

// Throws UsageError for a folder that this run may not write: a config.toml there is a run's where a log, a
// checkpoint or its checksum say so. Returns whether the run's config is to be written (again). `tells`: says
// what another length of the run changes.
bool check_run_folder(const RunFolder& folder, const RunConfig& config, bool resume, bool tells = true);

// Throws UsageError, with this advice, where the run in the folder has another value of a key that may not
// differ. Returns whether others do.
bool check_same_run(const RunFolder& folder, const RunConfig& config, bool (*may_differ)(const std::string&),
                    const std::string& advice, bool tells = false);

// The summary of a run that has nothing left to do: it came to its end, and what it should keep is there.
// Refuses to make one longer that kept nothing to go on from, as that would begin again and lose its log.
std::optional<std::string> finished_summary(const RunFolder& folder, const RunConfig& config,
                                            std::int64_t steps);

// Folders that are made where they are missing, and removed again by the destructor where they are empty.
class MadeFolder {
 public:
  explicit MadeFolder(const std::filesystem::path& path);
  ~MadeFolder();
  MadeFolder(const MadeFolder&) = delete;
  MadeFolder& operator=(const MadeFolder&) = delete;

 private:
  std::vector<std::filesystem::path> made_;  // innermost first
};

}  // namespace lpmm
