// The inside of a model memory (lpmm/memory/model_memory.h): its tensors, and the step under way.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lpmm/memory/device_memory.h"
#include "lpmm/memory/model_memory.h"
#include "lpmm/memory/roles.h"
#include "lpmm/memory/step_results.h"
#include "lpmm/memory/update_watch.h"

namespace lpmm {

// Ranges of elements, joined where they meet.
class Ranges {
 public:
  // Whether it has any of the elements [first, end).
  bool meets(std::int64_t first, std::int64_t end) const {
    const auto next = ends_.lower_bound(first);
    if (next != ends_.end() && next->first < end) return true;
    return next != ends_.begin() && std::prev(next)->second > first;
  }
  // False, and nothing is added, where some are there already.
  bool add(std::int64_t first, std::int64_t end) {
    if (meets(first, end)) return false;
    auto next = ends_.lower_bound(first);
    const auto before = next == ends_.begin() ? ends_.end() : std::prev(next);
    if (next != ends_.end() && next->first == end) {
      end = next->second;
      ends_.erase(next);
    }
    if (before != ends_.end() && before->second == first) {
      before->second = end;
    } else {
      ends_[first] = end;
    }
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

struct ModelMemory::State {
  struct Tensor {
    TensorInfo info;
    bool exempt = false, frozen = false;
    bool folds_into_momentum = false;
    bool at_once = false;  // gradients of it are applied at once
    // In the step under way: whether a gradient was folded, and the elements that took their last gradient,
    // so that they were updated by it or their squares are in the norm that is clipped to.
    bool folded = false;
    Ranges finished;
    RoleArray<kernels::RoleView> view;
    int peaks = 0;                       // codes that the watch keeps of each element
    std::uint8_t* peak_codes = nullptr;  // one after another
    TensorStats* step_stats = nullptr;   // of the step under way, where they are wanted
    TensorStats stats;                   // since the last take
  };

  // An update that may have met what cannot be stored.
  struct Pending {
    const bool* storable;
    int tensor;
  };

  State(Policy p, OptimizerConfig o, std::uint64_t run_seed, int k, PackedDevice& on)
      : policy(std::move(p)),
        optimizer(std::move(o)),
        seed(run_seed),
        microbatches(k),
        device(on),
        results(on),
        step_stats(on),
        watch(on) {}

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
  DeviceMemory peaks;
  StepResults results;
  SharedResults<TensorStats> step_stats;
  UpdateWatch watch;
  std::vector<int> left_out;  // tensors
  bool peaks_rise = true;     // in steps that are watched

  std::uint32_t step = 0;
  bool stepping = false, failed = false, broken = false;
  std::string failure;
  std::vector<Pending> pending;            // of the step under way
  std::vector<kernels::Fold> waiting;      // the same: folds that wait
  double learning_rate = kNoLearningRate;  // the same, where it is known
  std::int64_t updates = 0;
  double last_learning_rate = kNoLearningRate;

  const kernels::RoleView& view(int tensor, Role role) const {
    return tensors.at(static_cast<std::size_t>(tensor)).view[role];
  }
  const kernels::RoleView& checked(int tensor, Role role, std::int64_t first, std::size_t count) const;
  Noise noise(int tensor, std::uint32_t stream) const {
    return {seed, static_cast<std::uint32_t>(tensor), step, stream};
  }
  void allocate_roles();
  void allocate_peaks();
  const std::string& name_of(int tensor) const { return tensors[static_cast<std::size_t>(tensor)].info.name; }
  bool is_left_out(int tensor) const {
    return tensors[static_cast<std::size_t>(tensor)].frozen ||
           std::find(left_out.begin(), left_out.end(), tensor) != left_out.end();
  }
  // What the device is to fold of a gradient; nothing where that is dropped, or was applied at once.
  std::optional<kernels::Fold> next_fold(int tensor, std::int64_t first, std::span<const float> gradient,
                                         int microbatch, int contribution, bool is_last);
  void fold_waiting();
  void look_at_results();
  Rule rule_of(int tensor, double rate, double clip) const;
  kernels::TensorUpdate update_of(int tensor, double rate, double clip);
  kernels::TensorUpdate assignment(int tensor, std::int64_t first, std::span<const float> values,
                                   bool* storable) const;
  void apply(int tensor, std::int64_t first, std::span<const float> gradient);
  void check_finished() const;
  void finish_updates();
  Clip clip_gradients(StepReport& report);
  void empty_accumulators();
  void leave_step();
};

}  // namespace lpmm
