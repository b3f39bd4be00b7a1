// The records of a run's log that say more than a few numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kernels/device.h"
#include "lpmm/files/json.h"
#include "lpmm/run/plan.h"
#include "lpmm/run/run_progress.h"

namespace lpmm {

// The configuration as the run keeps it.
Json config_record(const RunConfig& config);
// The machine; `init` is the checkpoint whose parameters the run starts from, or empty.
Json system_record(std::int64_t from_step, const Device& device, std::int64_t rss_at_start,
                   const std::string& init);
// What each file of a mixture brings.
Json mixture_json(std::span<const MixtureShare> shares);
// The plan, how each tensor is stored, and what a mixture takes of its files.
Json ledger_record(const Plan& plan, const ModelMemory& memory, const DataSize& size);
// Counts per role of all tensors together, and of each one (`per_tensor`).
Json underflow_record(std::int64_t step, const ModelMemory& memory, std::span<const TensorStats> stats,
                      bool per_tensor);
// The losses since the last step record, at that learning rate, how gradients were clipped, what the data has
// besides (how many tokens they are of, or how many pairs, and their margin), time, speed and memory.
Json step_record(const RunProgress& state, const OptimizerConfig& optimizer, const StepReport& report,
                 std::int64_t epoch, double rate, const DataSource& data);
// The last test.
Json eval_record(const RunProgress& state, std::int64_t epoch, double seconds);
// A line that tells a person of the last test; of the best one, where the run ends for it; and of a step that
// was skipped, because of what failed.
std::string test_text(const RunProgress& state, std::int64_t epoch);
std::string best_text(const BestTest& best, bool gives_up);
std::string skip_text(const RunConfig& config, std::int64_t step, const std::string& failed);
// How many ranks there are, and how they exchange what they have; empty for one.
std::string ranks_text(const Ranks& ranks);
// Why a run ends whose steps failed in a row, and what to do where one diverged.
std::string failures_text(const RunProgress& state);
std::string diverged_text();
// The results of a run; "diverged": true if it ended and the loss or the last step say so. `speed_key` names
// images or tokens per second; `error` is empty or why the run ended.
Json summary_record(const RunProgress& state, const Plan& plan, const Setup& setup,
                    const std::string& speed_key, bool interrupted, const std::string& error);
// Adds what several ranks sent and took, of each; all call it.
void add_ranks(Json& summary, Ranks& ranks);
// The summary that a log ends with where its run came to an end; null where it was stopped or goes on.
const Json* end_of(std::span<const Json> records);
// Returns true if a summary says so; one of an older program does by a test loss that is no number.
bool diverged(const Json& summary);

}  // namespace lpmm
