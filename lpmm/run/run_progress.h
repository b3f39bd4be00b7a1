// The state of a run besides its model memory, saved beside it: its place in the data and its counts.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "lpmm/files/json.h"
#include "lpmm/memory/policy.h"
#include "lpmm/run/config.h"
#include "lpmm/run/setup.h"

namespace lpmm {

// Loss and hits over labels: images, tokens or pairs of answers, which have a margin too.
struct Meter {
  double loss_sum = 0;
  std::int64_t correct = 0, count = 0;
  double margin_sum = 0;

  Meter& operator+=(const auto& r) {
    loss_sum += r.loss_sum;
    correct += r.correct;
    count += r.count;
    margin_sum += r.margin_sum;
    return *this;
  }
  // Not -nan, which is what x86 makes of 0/0.
  double loss() const {
    return count == 0 || std::isnan(loss_sum) ? std::nan("") : loss_sum / static_cast<double>(count);
  }
  double accuracy() const {
    return count == 0 ? std::nan("") : static_cast<double>(correct) / static_cast<double>(count);
  }
  double margin() const { return count == 0 ? std::nan("") : margin_sum / static_cast<double>(count); }
};

inline constexpr std::size_t kWatchedLosses = 128;
// The state of the watch (lpmm/run/watch/), which goes on unchanged after a stop.
struct WatchState {
  std::vector<double> losses;  // the last ones, oldest first
  // The last step of each kind of spike (SpikeKind); what follows soon is the same one.
  std::array<std::int64_t, 3> last = {};
};

// The test of the least loss so far, where a run keeps its checkpoint or ends after it.
struct BestTest {
  std::int64_t step = 0;  // 0: none yet
  double loss = 0;
  std::int64_t tests_since = 0;
};

// Everything a run knows besides the model memory: what resuming needs.
struct RunProgress {
  std::int64_t step = 0;  // steps done, failed ones included: the data position
  std::int64_t skipped = 0, failed_in_row = 0;
  Meter epoch, window;  // since the epoch began, since the last step record
  RoleArray<std::int64_t> increments = {}, underflows = {};
  std::optional<Meter> test;  // the last evaluation
  DataSource::Scores scores;  // the other scores of it
  DataSource::Scores losses;  // of each file of several; not kept in checkpoints
  BestTest best;              // kept up where tracks_best() says so
  double train_seconds = 0;
  std::int64_t items = 0;  // images or tokens trained on
  WatchState watch;
  std::uint64_t log_bytes = 0;
  std::optional<std::uint32_t> log_crc32;  // of them; older programs saved none
};

inline bool tracks_best(const RunConfig& config) {
  return config.checkpoint.keep_best || config.train.patience > 0;
}

// The parts of program and machine that a run's bits depend on, besides its config.
Json computed_by(const Device& device);
// A sentence where a checkpoint was computed by something else; empty where it was not.
std::string change_of_machine(const Json& saved, const Device& device);

// Adds epoch and index, for readers of state.json.
Json state_json(const RunProgress& state, const RunConfig& config, std::int64_t steps_per_epoch,
                const Device& device);
// Throws RunError naming the checkpoint at `path` for what state_json() did not say for this run.
RunProgress parse_state(const Json& saved, const RunConfig& config, std::int64_t steps_per_epoch,
                        const std::string& path);

// Throws UsageError where a run that saved this was trained on other data, on data of another number of
// examples or with another tokenizer than `setup` has now: what differs, and what to do. Says nothing of
// whether the checkpoint is damaged.
void check_same_data(const Json& saved, const Setup& setup, const std::string& checkpoint);

}  // namespace lpmm
