// Runs the cells of a sweep, some at a time, each in a process and a folder of its own.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "experiments/sweep/cells.h"
#include "lpmm/run/log.h"
#include "lpmm/run/run_folder.h"

namespace lpmm {

// The summary of the run in a folder; none where it did not come to its end, or came to it by an error.
std::optional<Json> summary_of_run(const RunFolder& folder);
// The summary of a run in a folder that ended as `config` says; none where it did not end. Throws UsageError
// where the folder holds another run.
std::optional<Json> finished_run(const std::string& folder, const RunConfig& config);

struct SweepOptions {
  std::string out;
  int jobs = 1;
  int threads = 0;             // threads of a job; 0: processors / jobs
  bool only_finished = false;  // throws UsageError if a cell is not finished
};

// The outcome of every cell.
struct CellResults {
  std::vector<std::optional<Json>> summaries;  // none if the run has not ended
  std::vector<std::string> errors;             // empty if it did not fail
  bool interrupted = false;                    // the user stopped it
};
// Runs the cells that are not finished. Throws UsageError for a folder that holds another run.
CellResults run_cells(const std::vector<SweepCell>& cells, const SweepOptions& options);

}  // namespace lpmm
