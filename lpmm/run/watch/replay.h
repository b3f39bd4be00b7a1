// Steps of a run made again, bit for bit, from a checkpoint or from its initial values. The run's folder is
// only read.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lpmm/base/progress.h"
#include "lpmm/program/program.h"
#include "lpmm/run/run_folder.h"
#include "lpmm/run/run_progress.h"
#include "lpmm/run/setup.h"
#include "lpmm/run/watch/elements.h"
#include "lpmm/run/watch/statistics.h"

namespace lpmm {

struct ReplayPlan {
  std::int64_t from = 0, to = 0;  // the checkpoint's step, 0: none; the last step
  // Tensors whose updates are left out in these steps: gradients of them are dropped, their states stay.
  std::vector<int> left_out = {};
  std::int64_t first_left_out = 0, last_left_out = 0;
  // The steps in which elements are measured, where the run keeps peaks of them; 0: none.
  std::int64_t first_measured = 0, last_measured = 0;
};

struct ReplayedStep {
  UpdateStatistics statistics;  // with everything that can be counted
  Meter meter;
};

class Replay {
 public:
  // `log` is the run's. Throws RunError where the run was computed by another program, device or library.
  Replay(const Setup& setup, const Model& model, const RunFolder& folder, std::span<const Json> log);
  ~Replay();
  // A step that ends the run, as it did then, is the last one. `progress` counts steps. Throws Interrupted
  // where that was asked for.
  std::vector<ReplayedStep> go(const ReplayPlan& plan, const ProgressCall& progress);
  // The losses since the run's last record of them when the checkpoint was saved, of the last go().
  const Meter& window() const;
  // For each tensor, the elements that moved in those steps of the last go() that measured them.
  const std::vector<std::vector<ElementMove>>& elements() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Compares with what the run wrote: the losses of its records of type step, and those it kept of every step.
// `window` is Replay's. Returns how many there were; throws RunError where one differs in any bit.
int check_losses(std::span<const ReplayedStep> steps, Meter window, std::span<const Json> log,
                 std::span<const UpdateStatistics> kept);

}  // namespace lpmm
