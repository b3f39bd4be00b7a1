// The watch of a run. It measures every update, keeps the statistics of the last steps, and where a spike
// comes, writes them to RUN/watch/spike_NNNNNNNN.jsonl: a record of type spike, then one of type watch a
// step. With every checkpoint it saves what it keeps, as RUN/watch/before_NNNNNNNN.jsonl, for a run that goes
// on. A spike is what Wortsman et al. 2023 (arXiv 2304.13013) call one: a loss above the mean of the last 128
// by more than 3.2 deviations, or a tensor whose gradient is 2.3 times what its variance expects; and a step
// that failed.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lpmm/run/config.h"
#include "lpmm/run/run_progress.h"
#include "lpmm/run/watch/statistics.h"

namespace lpmm {

inline constexpr double kSpikeDeviations = 3.2, kSpikeRms = 2.3;
inline constexpr std::size_t kFewestLosses = 32;  // that a mean is made of
inline constexpr std::int64_t kSameSpike = 32;    // steps after a spike that belong to it
inline constexpr std::size_t kKeptSteps = 256;
// A checkpoint before a spike is one that many steps before it, where there is one: early enough to see what
// led to the spike, and to leave it out.
inline constexpr std::int64_t kStepsBefore = 8;

enum class SpikeKind : std::uint8_t { kFailed, kLoss, kRms };
inline constexpr const char* kSpikeKinds[] = {"failed", "loss", "rms"};

struct Spike {
  SpikeKind kind = SpikeKind::kLoss;
  std::int64_t step = 0;
  double loss = 0, mean = 0, deviation = 0;  // of the losses before it; deviation 0: too few
  std::string tensor = {};                   // rms: the largest one; failed: what was not finite
  double size = 0;              // of a loss: deviations above the mean; of an RMS: that; of a failed step: 0
  std::int64_t checkpoint = 0;  // the step of the one before it; 0: none
};

// The mean and the deviation of the losses a watch goes by; deviation 0 where they are too few.
struct LossRange {
  double mean = 0, deviation = 0;
  double limit() const { return mean + kSpikeDeviations * deviation; }
  bool holds(double loss) const { return deviation == 0 || loss <= limit(); }  // false for NaN
};
LossRange range_of(std::span<const double> losses);

// A spike's weight: a failed step is worth more than a loss, a loss more than an RMS; within a kind the
// larger.
std::pair<int, double> weight_of(const Spike& spike);
// The checkpoint of a run to look into a step from; 0 where there is none before it.
std::int64_t checkpoint_before(const std::string& run, std::int64_t step);

// Returns the spike of this step, if there is one, given those before it; `state` takes the step in.
std::optional<Spike> find_spike(const UpdateStatistics& now, std::span<const std::string> names,
                                WatchState& state);

// A spike's file.
struct SpikeFile {
  Spike spike;
  std::vector<std::string> tensors;          // names
  std::vector<UpdateStatistics> statistics;  // by step, up to the spike's
};
// Throws RunError naming the file.
SpikeFile read_spike(const std::string& path);
// The spikes kept below RUN/watch, by step; their statistics are left out.
std::vector<SpikeFile> kept_spikes(const std::string& run, bool skips_damaged = false);
std::string spike_path(const std::string& run, std::int64_t step);

// Returns true if a run of this configuration measures the updates of a step.
bool is_watched(const RunConfig& config, std::int64_t step);
// A note on the tensors that a watch tells nothing of, and why; empty: it measures all of them.
std::string unseen_note(const RunConfig& config, std::span<const TensorInfo> tensors);
// The bytes of what a watch keeps of its last steps.
std::int64_t watch_bytes(const RunConfig& config, std::int64_t tensors);

class Watch {
 public:
  // Reads which spikes the run in this folder has kept, and what was saved with its checkpoint of `step`,
  // where it goes on from one. `state` lasts.
  Watch(const RunConfig& config, const ModelMemory& memory, const Buffers& buffers, const std::string& run,
        WatchState& state, std::int64_t step);
  // Why less is known of the steps before than the run knew; empty: nothing is missing.
  const std::string& missing() const { return missing_; }

  struct Said {
    std::vector<Json> records;  // for the log
    std::string warning;        // empty: none
  };
  // Adds a step that was made, failed or ended the run. Steps that it knows already are skipped.
  Said add(std::int64_t step, double loss, const std::string& failed);
  // The checkpoints that spikes need.
  std::vector<std::int64_t> needed_checkpoints() const;
  // Before and after a checkpoint is saved: what is kept of the steps up to it; no more of those that are
  // gone.
  // save() returns what kept it from being written, for one warning: the checkpoint is worth more.
  std::string save(std::int64_t step);
  void drop_old() const;

 private:
  bool keeps_steps() const { return config_.watch.every_steps > 0 && config_.watch.spikes > 0; }
  void load(std::int64_t step);
  std::string keep(Spike spike);  // returns why it could not
  // Writes below RUN/watch where that leaves the room of a checkpoint; returns what kept it from being
  // written.
  std::string write(const std::string& path, const std::string& text) const;
  const RunConfig& config_;
  const ModelMemory& memory_;
  const Buffers& buffers_;
  std::string run_;
  WatchState& state_;
  std::vector<std::string> names_;
  std::string missing_, unseen_;
  std::deque<UpdateStatistics> statistics_;
  std::vector<Spike> kept_;
  bool has_lost_ = false;  // something could not be written, which is told once
};

}  // namespace lpmm
