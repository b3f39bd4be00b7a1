// The inside of a model memory (lpmm/memory/model_memory.h): its tensors, and the step under way.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lpmm/memory/device_memory.h"
#include "lpmm/memory/model_memory.h"
#include "lpmm/memory/roles.h"
#include "lpmm/memory/slots/behind.h"
#include "lpmm/memory/slots/home.h"
#include "lpmm/memory/slots/peers.h"
#include "lpmm/memory/slots/slots.h"
#include "lpmm/memory/step_results.h"

namespace lpmm {

// Ranges of elements, joined where they meet.
class Ranges {
 public:
  // Returns true if a range has any of the elements [first, end).
  bool meets(std::int64_t first, std::int64_t end) const {
    const auto next = ends_.lower_bound(first);
    if (next != ends_.end() && next->first < end) return true;
    return next != ends_.begin() && std::prev(next)->second > first;
  }
  // False, and nothing is added, where some are there already.
  bool add(std::int64_t first, std::int64_t end) {
    if (meets(first, end)) return false;
    auto next = ends_.lower_bound(first);
    if (next != ends_.end() && next->first == end) {
      end = next->second;
      next = ends_.erase(next);
    }
    if (next != ends_.begin() && std::prev(next)->second == first) first = std::prev(next)->first;
    ends_[first] = end;
    return true;
  }
  bool is_all_of(std::int64_t elements) const {
    if (elements == 0) return true;
    return ends_.size() == 1 && ends_.begin()->first == 0 && ends_.begin()->second == elements;
  }
  void clear() { ends_.clear(); }

 private:
  std::map<std::int64_t, std::int64_t> ends_;  // by first element
};

// Values as a role that is not packed, for updates that only read it.
kernels::RoleView view_of(const kernels::Values& values);

// An update that gives a parameter of two terms these values: its rule takes the gradient as it is.
kernels::TensorUpdate assignment(const kernels::RoleView& parameter, const kernels::RoleView& compensation,
                                 const kernels::Values& values, const Noise& noise, bool* storable);

struct MemoryState {
  struct Tensor {
    TensorInfo info;
    bool frozen = false;
    bool folds_into_momentum = false;
    bool at_once = false;  // gradients of it are applied at once
    // State of the step under way: a gradient was folded; the elements that took their last gradient, so that
    // they were updated by it, or their squares are in the norm that is clipped to, or it was sent.
    bool folded = false;
    Ranges finished;
    // The accumulator is that of the first slot here; states are of the elements that are owned here.
    RoleArray<kernels::RoleView> view;
    std::int64_t own_first = 0;
    kernels::RoleView average;             // of the weights, where the policy keeps one: of the same elements
    int peaks = 0;                         // codes that the watch keeps of each element
    std::uint8_t* peak_codes = nullptr;    // one after another
    std::vector<TensorStats*> step_stats;  // of the step under way, where they are wanted: of each slot here
    TensorStats stats;                     // since the last take
  };

  MemoryState(Policy p, OptimizerConfig o, std::uint64_t run_seed, int k, PackedDevice& on, Ranks& with,
              const Sharding& division)
      : ranks(with),
        sharding(division),
        policy(std::move(p)),
        optimizer(std::move(o)),
        seed(run_seed),
        microbatches(k),
        device(on),
        results(on),
        step_stats(on),
        watch(on) {}

  Ranks& ranks;
  Sharding sharding;
  std::unique_ptr<Slots> slots;  // null: one slot, whose accumulator updates tensors by itself
  std::vector<Tensor> tensors;
  std::vector<std::optional<GradientHistory>> histories;  // of the tensors
  Policy policy;
  OptimizerConfig optimizer;
  std::uint64_t seed;
  int microbatches;
  PackedDevice& device;
  RoleArray<DeviceMemory> pages;  // all memory of a role: zeros, and what is never touched costs no RSS
  std::int64_t workspace_bytes = 0;
  DeviceMemory workspace;  // of updates, one after another
  DeviceMemory peaks, averages;
  StepResults results;
  SharedResults<TensorStats> step_stats;
  UpdateWatch watch;
  std::vector<int> left_out;  // tensors
  bool peaks_rise = true;     // in steps that are watched

  std::uint32_t step = 0;
  bool stepping = false, failed = false, broken = false;
  bool agreed = false;           // in the step under way, all ranks on whether it failed
  bool others_may_read = false;  // or be sent, what the last step left
  std::string failure;
  // For each update of the step under way: true if all that it made could be stored, and its tensor.
  std::vector<std::pair<const bool*, int>> pending;
  std::vector<kernels::Fold> waiting;  // the same
  std::vector<int> complete;           // tensors whose last gradient is folded, or waits
  double learning_rate = 0;            // the same
  Share share;                         // the same
  std::int64_t updates = 0;
  double last_learning_rate = kNoLearningRate;

  std::unique_ptr<Peers> peers;    // null: ranks send each other what they want
  std::unique_ptr<Home> home;      // null: all parameters are here
  std::unique_ptr<Behind> behind;  // null: ranks do not send; its thread uses all of the above

  const kernels::RoleView& view(int tensor, Role role) const {
    return tensors.at(static_cast<std::size_t>(tensor)).view[role];
  }
  const kernels::RoleView& checked(int tensor, Role role, std::int64_t first, std::int64_t count) const;
  Noise noise(int tensor, std::uint32_t stream) const {
    return {seed, static_cast<std::uint32_t>(tensor), step, stream};
  }
  bool divides_parameter(int tensor) const { return home && slots->shares().divides_parameter(tensor); }
  // Returns true if the device's kernels read what other ranks hold, where it lies.
  bool reaches_others() const { return peers && peers->are_mapped(); }
  // The element from which on a parameter lies here.
  std::int64_t parameter_first(int tensor) const {
    return divides_parameter(tensor) ? tensors[static_cast<std::size_t>(tensor)].own_first : 0;
  }
  // Returns when all of the parameter has come that other ranks send.
  void wait_for_parameter(int tensor) const {
    if (behind) behind->wait_for_parameter(tensor);
  }
  // As Home::read(), wherever the parameter is. The range is checked.
  void read_parameter(int tensor, std::int64_t first, std::int64_t count, const Home::Body& body) const;
  // Throws UsageError in a step: `what` cannot be done there.
  void check_no_step(const std::string& what) const;
  void allocate_roles();
  void allocate_peaks();
  void allocate_averages();
  const std::string& name_of(int tensor) const { return tensors[static_cast<std::size_t>(tensor)].info.name; }
  bool is_left_out(int tensor) const {
    return tensors[static_cast<std::size_t>(tensor)].frozen ||
           std::find(left_out.begin(), left_out.end(), tensor) != left_out.end();
  }
  // The fold that the device has to do for a gradient; nothing if that is dropped or was applied at once.
  std::optional<kernels::Fold> next_fold(int tensor, std::int64_t first, const kernels::Values& gradient,
                                         int microbatch, int contribution, bool is_last);
  void fold(std::span<const kernels::Fold> folds);
  void fold_waiting();
  void check_results();
  void agree();  // on whether the step failed
  // Makes the update of the whole tensor from its accumulator; `found`: room for counts, or null.
  kernels::TensorUpdate update_of(int tensor, double clip, TensorStats* found);
  void apply(int tensor, std::int64_t first, const kernels::Values& gradient);
  void check_finished() const;
  // The first tensor of which an update could not store something; waits for the updates.
  std::optional<int> not_storable() const;
  [[noreturn]] void refuse_update(int tensor) const;
  void finish_updates();
  Clip clip_gradients(StepReport& report);
  void update_tensors(const Clip& clip);
  void update_averages();
  void update_all(StepReport& report);
  void empty_accumulators();
  void leave_step();
};

}  // namespace lpmm
