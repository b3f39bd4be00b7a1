// One step of training over a model memory.
//
//   Step step = memory.begin_step({.step = 7, .learning_rate = 1e-3});
//   for each microbatch: memory.decode(...) weights, compute, step.fold(...) gradients
//   const StepReport report = std::move(step).commit();   // no update, where a gradient was not finite
//
// A step is a transaction: one that ends without commit(), because something threw, leaves no gradient
// behind. A memory has one step at a time and outlives it; both are used by one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "kernels/packed.h"

namespace lpmm {

struct MemoryState;

// The microbatches of a step that are computed here, of the memory's microbatches(): `count` from `first` on.
// The gradients of the others are not folded here, and so are not in the norm that is clipped to. Where the
// memory is divided among ranks the share is the rank's, and all of them together are in the norm.
struct Share {
  int first = 0;
  int count = 0;  // 0: all that follow
};

struct StepOptions {
  // Keys the noise of rounding, and is larger than those of all steps before, failed ones included. 0: the
  // next.
  std::uint32_t step = 0;
  std::optional<double> learning_rate = {};  // none: the optimizer's own
  bool want_stats = false;                   // count underflows
  bool want_watch = false;                   // measure what the update is about to do
  Share share = {};
};

struct StepReport {
  // False: a gradient was NaN or Inf. Nothing persistent changed; but where gradients are accumulated in the
  // momentum, that had some of them already and is emptied, and where they are applied at once, those that
  // came before it were.
  bool applied = false;
  std::string failed_tensor;  // the first tensor whose gradient failed
  double gradient_norm = 0;   // global, of the accumulated gradient, before clipping (0 if not asked for)
  double clip_factor = 1;     // of clip_norm
  std::int64_t clipped_tensors = 0;  // by percentile_clip
};

class Step {
 public:
  Step(Step&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  Step& operator=(Step&&) = delete;
  // Without commit(), abandons the step: gradients are dropped, those that wait too, whose memory may be
  // gone. As after a failed step, a momentum that gradients were folded into is emptied, and what was applied
  // at once stays. Ranks abandon a step at one place, all of them; after an exception they do
  // not go on.
  ~Step();

  Share share() const;  // its count is not 0
  // One contribution to the gradient of a range of one tensor in one microbatch of the share: fp32, or
  // kernels::Values::bf16(...), in the device's memory. The last contribution of the share's last microbatch
  // also yields the exact square sum of the range, and where gradients are clipped, or the memory has slots,
  // UsageError is thrown for another one after it. After a failure no contribution persists. Where gradients
  // are applied at once it updates, and throws UsageError where a gradient comes twice.
  void fold(int tensor, std::int64_t first, const kernels::Values& gradient, int microbatch,
            int contribution = 0, bool is_last = true);
  // The same with the same results, but the gradient may wait, and stays where it is: until fold_waiting(),
  // and no longer than until another gradient of its tensor is folded, or results are checked, as by
  // failed() or commit().
  void fold_later(int tensor, std::int64_t first, const kernels::Values& gradient, int microbatch,
                  int contribution = 0, bool is_last = true);
  void fold_waiting();  // all of them together
  // Room for the loss of a microbatch, which the step fails for where it is not finite; until the next step.
  kernels::LossResult* next_loss();
  // Noise of this step, for other uses than rounding.
  Noise noise(std::uint32_t tensor, std::uint32_t stream) const;
  bool failed() const;  // here; waits for the work so far
  // Returns true if it failed on any rank; all must call it at the same place, when all folds are done.
  bool failed_anywhere() const;
  // Marks the step failed (a loss that is NaN, say); after failed_anywhere(), for a reason that all ranks
  // see.
  void fail(const std::string& why);
  // Clips, updates every tensor and empties the accumulators; or, after a failure, only empties them. Where
  // gradients are applied at once, it throws UsageError if some did not come. Throws RunError where an
  // updated parameter or state is not storable: something else is stored then, and no step begins before
  // ModelMemory::set_progress() says that a checkpoint was loaded.
  StepReport commit() &&;

 private:
  friend class ModelMemory;
  Step(MemoryState& state, const StepOptions& options);
  MemoryState& state() const;
  MemoryState* state_;  // null: committed, or moved away
};

}  // namespace lpmm
