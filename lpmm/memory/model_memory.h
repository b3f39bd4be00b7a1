// The model memory: parameters, gradient accumulators and optimizer state of all tensors, packed, and the
// transactional step over them. This is what an embedding program uses; there is no other copy of anything.
//
//   memory.begin_step(step);
//   for each microbatch: memory.decode(...) weights, compute, memory.fold(...) gradients
//   memory.commit(learning_rate);   // no update, where a gradient was not finite
//
// Where the policy applies gradients at once, fold() updates, and commit() ends the step. They throw
// UsageError where a gradient comes twice, or does not come. Whoever cannot go on, because something threw,
// calls abandon_step().
//
// A memory is used by one thread at a time. Several memories may share a device, each in a thread of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/packed_device.h"
#include "lpmm/memory/clipping.h"
#include "lpmm/memory/ledger.h"
#include "lpmm/memory/optimizer_config.h"
#include "lpmm/memory/policy.h"

namespace lpmm {

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

struct TensorStats {
  RoleArray<kernels::ChangeStats> role;
};

// Throws UsageError for what ModelMemory refuses: what does not go together, or cannot be stored.
void check_model_memory(std::span<const TensorInfo> tensors, const Policy& policy,
                        const OptimizerConfig& optimizer, int microbatches);

// The memory that the tensors will take, before anything is allocated; its buffers are those of percentile
// clipping, activations and workspace are 0.
Ledger memory_ledger(std::span<const TensorInfo> tensors, const Policy& policy,
                     const OptimizerConfig& optimizer);
// The workspace that their updates take besides, one after another; most rules need none.
std::int64_t update_workspace_bytes(std::span<const TensorInfo> tensors, const OptimizerConfig& optimizer,
                                    const PackedDevice& device);
// What an update takes for a while besides: the sums of columns, and the next steps of rows and columns, of
// the tensor with the most.
std::int64_t first_pass_bytes(std::span<const TensorInfo> tensors, const Policy& policy,
                              const OptimizerConfig& optimizer);

// What a file of packed memory says it is, and what messages call who loads it. What belongs to a tensor has
// its name and a colon in front, unless there is only one.
struct MemoryFile {
  std::string_view format = "lpmm packed memory", noun = "memory";
  bool names_tensors = true;
};

class ModelMemory {
 public:
  // Allocates everything, zeroed. `microbatches` K >= 1 scales folds by 1/K. Throws UsageError where settings
  // do not go together, and where two tensors have one name.
  ModelMemory(std::vector<TensorInfo> tensors, Policy policy, OptimizerConfig optimizer, std::uint64_t seed,
              int microbatches, PackedDevice& device);
  ~ModelMemory();
  ModelMemory(ModelMemory&&) noexcept;

  int tensors() const;
  const TensorInfo& info(int tensor) const;
  int find(std::string_view name) const;  // -1 where there is none
  const Policy& policy() const;
  const OptimizerConfig& optimizer() const;
  std::uint64_t seed() const;
  int microbatches() const;
  PackedDevice& device() const;
  // Null codes where the rule has no such state, or the tensor is frozen. The accumulator is the momentum
  // where gradients are accumulated in it.
  kernels::RoleView view(int tensor, Role role) const;
  bool is_frozen(int tensor) const;  // gradients of it are dropped
  // Gradients of it are applied as they come: fold() must get that of each element once, zeros as well.
  bool applies_at_once(int tensor) const;
  Ledger ledger() const;  // as memory_ledger's, and the workspace of updates

  // Initial values, the host's, rounded with the parameters' noise of step 0; a compensation takes what that
  // leaves. Ranges as in kernels/packed.h.
  void initialize(int tensor, std::int64_t first, std::span<const float> values);
  // What is stored as the parameter, without a compensation: what forward and backward read. `out` and, in
  // fold(), `gradient` are memory of the device; the CPU's is the host's.
  void decode(int tensor, std::int64_t first, std::span<float> out) const;
  void decode_bf16(int tensor, std::int64_t first, std::span<std::uint16_t> out) const;
  // The same from the tensor's first element on: where it is stored, if that is as fp32, or else decoded to
  // `room`. It is there until the tensor is updated.
  const float* decoded(int tensor, std::span<float> room) const;
  void read(int tensor, std::int64_t first, std::span<float> out) const;  // decodes for the host

  // `step` >= 1 keys the noise and never repeats, failed steps included. The learning rate of the step must
  // be known here where gradients are applied at once. Throws UsageError where it is negative, NaN or
  // infinite, as commit() does; 0 is a rate.
  void begin_step(std::uint32_t step, bool want_stats = false, bool want_watch = false,
                  double learning_rate = kNoLearningRate);
  // One contribution to the gradient of a range of one tensor in one microbatch. The last contribution of the
  // last microbatch also yields the exact square sum of the range, and where gradients are clipped,
  // UsageError is thrown for another one after it: microbatch K-1 comes last. After a failure nothing of it
  // persists.
  void fold(int tensor, std::int64_t first, std::span<const float> gradient, int microbatch,
            int contribution = 0, bool is_last = true);
  // The same with the same results, but the gradient may wait, and stays there as it is, for fold_waiting(),
  // which folds all that wait (PackedKernels::fold_all). They are folded before another gradient of their
  // tensor is, and by whatever looks at results: failed(), fail(), a gradient that is applied at once.
  // commit() throws UsageError where some still wait; a step that is abandoned, or left for a checkpoint,
  // drops them.
  void fold_later(int tensor, std::int64_t first, std::span<const float> gradient, int microbatch,
                  int contribution = 0, bool is_last = true);
  void fold_waiting();
  // Room for the loss of a microbatch, which the step fails for where it is not finite; until the next step.
  kernels::LossResult* next_loss();
  // Noise of the step under way, for other uses than rounding.
  Noise noise(std::uint32_t tensor, std::uint32_t stream) const;
  bool failed() const;  // waits for the work so far
  // From the next step on these tensors keep what they hold, as frozen ones do: gradients of them are
  // dropped.
  void leave_out(std::vector<int> tensors);
  // Marks the step failed (a loss that is NaN, say).
  void fail(const std::string& why);
  // Clips, updates every tensor and empties the accumulators; or, after a failure, only empties them.
  // Throws RunError where an updated parameter or state is not storable: something else is stored then, and
  // no step begins before set_progress() says that a checkpoint was loaded.
  StepReport commit(double learning_rate);
  // Ends the step under way, if there is one, without an update: gradients are dropped, those that wait too,
  // whose memory may be gone. The next step has a larger number. As after a failed step, a momentum that
  // gradients were folded into is emptied, and what was applied at once stays. Throws as commit() does.
  void abandon_step();
  std::uint32_t last_step() const;  // that was begun; 0 before the first
  // Updates applied so far: t of the bias corrections. Saved in checkpoints.
  std::int64_t updates() const;
  // The learning rate of the last update; kNoLearningRate where there was none. Saved in checkpoints.
  double last_learning_rate() const;
  // What a checkpoint restores beside codes and steps: the last step begun, the updates applied, and the
  // learning rate of the last. A step under way is left: its gradients are dropped, but no momentum is
  // emptied.
  void set_progress(std::uint32_t step, std::int64_t updates, double last_learning_rate);

  // One safetensors file of codes, steps and progress, whole or not there. Memory of the same tensors,
  // policy, optimizer and seed that loads it goes on to the bit; learning rates may be others. load() throws
  // RunError naming the file and what differs, with both values; the memory is then as before. A loop keeps
  // its own place in its data beside it: last_step() tells how many steps were begun. Peaks are not saved:
  // they begin anew. Both throw UsageError in a step.
  void save(const std::string& path, const MemoryFile& kind = {}) const;
  void load(const std::string& path, const MemoryFile& kind = {});

  // Null where there is no percentile clipping, or the tensor is frozen.
  GradientHistory* gradient_history(int tensor) const;

  // What the update of the last step was about to do, by tensor, where that was asked for; empty where it was
  // not or there was no update. Tensors without one have zeros.
  std::span<const kernels::WatchStats> watched() const;
  // Memory of the device: the codes of updates, then those of ratios, where there are both
  // (kernels/peaks.h); empty where the policy keeps none.
  std::span<std::uint8_t> peaks(int tensor) const;
  // Sets whether peaks rise and fall in the steps that are watched, from the next step on; at first they do.
  void let_peaks_rise(bool rise);
  // Counts since the last take, per tensor, for the steps begun with want_stats.
  std::vector<TensorStats> take_stats();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lpmm
