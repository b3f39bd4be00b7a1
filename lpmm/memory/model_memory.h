// The model memory: parameters, gradient accumulators and optimizer state of all tensors, packed. This is
// what an embedding program uses; there is no other copy of anything. Updates are made by a step
// (lpmm/memory/step.h).
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
#include "lpmm/memory/slots/shares.h"
#include "lpmm/memory/step.h"

namespace lpmm {

class Ranks;
Ranks& alone();  // NOLINT(readability-redundant-declaration): of lpmm/ranks/ranks.h, which few need

struct TensorStats {
  RoleArray<kernels::ChangeStats> role;
  TensorStats& operator+=(const TensorStats& o) {
    for (const Role r : kEveryRole) role[r] += o.role[r];
    return *this;
  }
};

// Throws UsageError for what ModelMemory refuses: what does not go together, or cannot be stored.
void check_model_memory(std::span<const TensorInfo> tensors, const Policy& policy,
                        const OptimizerConfig& optimizer, int microbatches, const Sharding& sharding = {});

// The memory that the tensors will take, before anything is allocated; its buffers are those of percentile
// clipping, activations and workspace are 0.
Ledger memory_ledger(std::span<const TensorInfo> tensors, const Policy& policy,
                     const OptimizerConfig& optimizer, const Sharding& sharding = {});
// The workspace that their updates take besides, one after another; most rules need none.
std::int64_t update_workspace_bytes(std::span<const TensorInfo> tensors, const OptimizerConfig& optimizer,
                                    const PackedDevice& device);
// The memory that an update takes for a while besides: the sums of columns, and the next steps of rows and
// columns, of the tensor with the most.
std::int64_t first_pass_bytes(std::span<const TensorInfo> tensors, const Policy& policy,
                              const OptimizerConfig& optimizer);

// The format that a file of packed memory names, and the noun for its loader in messages. Entries of a tensor
// have its name and a colon in front, unless there is only one.
struct MemoryFile {
  std::string_view format = "lpmm packed memory", noun = "memory";
  bool names_tensors = true;
};

class ModelMemory {
 public:
  // Allocates everything, zeroed. `microbatches` K >= 1 scales folds by 1/K. Throws UsageError where settings
  // do not go together, and where two tensors have one name.
  //
  // With `slots` S > 1 the microbatches of a step form S runs of neighbours. Each has an accumulator of its
  // own; a step adds them in fp32 as a tree (kernels/sums.h) and updates by the sum. S decides the bits. The
  // `ranks`, whose number divides S and which outlive the memory, take as many slots each, and all of them
  // call what follows in the same order: begin_step() takes the rank's microbatches, commit() exchanges.
  // Each has the states of its share alone; and all parameters, or with stage 3, of those that are not small,
  // its share of them too. The rest comes from the others as it is read (memory/slots/home.h). What ranks
  // send goes behind the passes where it can (memory/slots/behind.h): from the first gradient of its last
  // microbatch to failed_anywhere() or commit() a rank makes no other exchange.
  ModelMemory(std::vector<TensorInfo> tensors, Policy policy, OptimizerConfig optimizer, std::uint64_t seed,
              int microbatches, PackedDevice& device, int slots = 1, Ranks& ranks = alone(), int stage = 1);
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
  Ranks& ranks() const;
  Sharding sharding() const;
  // The microbatches whose gradients are folded here: all, or those of this rank.
  Share own_microbatches() const;
  // The elements of a tensor's states from which on they lie here; the view says how many. 0 where all do.
  std::int64_t own_first(int tensor) const;
  // The ends of the elements of a tensor's states that each rank owns.
  std::vector<std::int64_t> owned_ends(int tensor) const;
  // Returns true if only the elements that a rank owns lie with it, of the parameter too.
  bool divides_parameter(int tensor) const;
  // Null codes where the rule has no such state, or the tensor is frozen. A state has the elements that this
  // rank owns, maybe none, and so has a parameter that is divided; others and an accumulator have all. The
  // accumulator is the momentum where gradients are accumulated in it, and with slots the first one.
  kernels::RoleView view(int tensor, Role role) const;
  // The average of its weights (Policy::average), or of what this rank owns of them; without codes where
  // there is none. It is all zeros before the first update.
  kernels::RoleView average(int tensor) const;
  bool is_frozen(int tensor) const;  // gradients of it are dropped
  // Gradients of it are applied as they come: Step::fold() must get that of each element once, zeros as well.
  bool applies_at_once(int tensor) const;
  Ledger ledger() const;  // as memory_ledger's, and the workspace of updates

  // Initial values, the host's, in fp32 or kernels::Values::bf16(...), rounded with the parameters' noise of
  // step 0; a compensation takes what that leaves. Ranges as in kernels/packed.h. All ranks call it, when
  // none reads parameters in shares.
  void initialize(int tensor, std::int64_t first, const kernels::Values& values);
  // Decodes the parameter as forward and backward read it, without a compensation. `out` is memory of the
  // device, and nothing but its elements' own alignment is asked of it; the CPU's is the host's.
  void decode(int tensor, std::int64_t first, std::span<float> out) const;
  void decode_bf16(int tensor, std::int64_t first, std::span<std::uint16_t> out) const;
  // As PackedKernels::decode_rows(), wherever the parameter lies.
  void decode_rows(int tensor, std::int64_t width, const std::int32_t* rows, std::int64_t count,
                   float* out) const;
  // As decode() from the tensor's first element on: where it is stored, if that is as fp32, or else decoded
  // to `room`. It is there until the tensor is updated.
  const float* decoded(int tensor, std::span<float> room) const;
  void read(int tensor, std::int64_t first, std::span<float> out) const;  // decodes for the host

  // Throws UsageError where the learning rate is negative, NaN or infinite (0 is a rate), where the step's
  // number was used already, and while another step is under way.
  Step begin_step(const StepOptions& options = {});
  // From the next step on these tensors keep what they hold, as frozen ones do: gradients of them are
  // dropped.
  void leave_out(std::vector<int> tensors);
  std::uint32_t last_step() const;  // that was begun; 0 before the first
  // Updates applied so far: t of the bias corrections. Saved in checkpoints.
  std::int64_t updates() const;
  // The learning rate of the last update; kNoLearningRate where there was none. Saved in checkpoints.
  double last_learning_rate() const;
  // Sets the rest of a checkpoint, besides codes and steps: the last step begun, the updates applied, and the
  // learning rate of the last. Throws UsageError in a step.
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

  // Statistics of the last step's update by tensor, if they were asked for; empty if they were not or there
  // was no update. Tensors without one have zeros.
  std::span<const kernels::WatchStats> watched() const;
  // Memory of the device: the codes of updates, then those of ratios, where there are both
  // (kernels/peaks.h); empty where the policy keeps none.
  std::span<std::uint8_t> peaks(int tensor) const;
  // Sets whether peaks rise and fall in the steps that are watched, from the next step on; at first they do.
  void let_peaks_rise(bool rise);
  // Counts since the last take, per tensor, for the steps begun with want_stats.
  std::vector<TensorStats> take_stats();

 private:
  std::unique_ptr<MemoryState> state_;
};

}  // namespace lpmm
