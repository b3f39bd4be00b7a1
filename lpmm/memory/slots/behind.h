// What ranks send each other behind the passes of a model: the parameters that a step has changed, while the
// next one computes with those that have come; and the accumulators of tensors whose gradients are complete,
// while the backward pass goes on. Another thread sends them, in one order: first the rounds of parameters
// (Shares), then those of accumulators, from the last one to the first, as a backward pass comes to them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <vector>

#include "lpmm/memory/slots/shares.h"

namespace lpmm {

class Ranks;

class Behind {
 public:
  // Calls that exchange a round, on another thread; and one before it, on the caller's, when the accumulators
  // of these rounds are complete. No other exchange of the ranks may come between the first tensor that is
  // complete and the wait for accumulators; before each other one parameters are waited for.
  struct Rounds {
    std::function<void(std::size_t round)> parameters, accumulators;
    std::function<void(std::size_t first, std::size_t end)> are_complete;
  };
  Behind(const Shares& shares, int tensors, Ranks& ranks, Rounds calls);
  // If no exception is under way, waits until the others have their parameters. A round that is under way
  // ends first in any case: when the others come to it, or are lost.
  ~Behind();
  Behind(const Behind&) = delete;
  Behind& operator=(const Behind&) = delete;

  std::uint32_t step() const { return step_; }  // the last that began
  // A step begins, in which some tensors get no gradient: parameters are sent from now on.
  void begin_step(std::uint32_t step, const std::function<bool(int tensor)>& has_no_gradient);
  // The accumulators of a tensor are complete, in all slots of this rank.
  void complete(int tensor);
  // Waiting throws RankLost, at each call, once another rank has ended.
  void wait_for_accumulators();
  void wait_for_parameter(int tensor) { wait(spans_[static_cast<std::size_t>(tensor)].end); }
  // The step ends without an update, on all ranks: accumulators are sent all the same, which waits until the
  // others have come as far. With an exception under way they are where some were.
  void leave_step();
  // All have updated what they own; parameters are sent from the next step on, or when they are waited for.
  void updated();

 private:
  // The rounds [first, end) in which pieces of a tensor are.
  struct Span {
    std::size_t first = 0, end = 0;
  };
  // Rounds are counted from those of parameters on, and go on with those of accumulators.
  void raise(std::size_t end);
  void allow(std::size_t end);
  void wait(std::size_t end);
  void make_allowed();
  bool sends_accumulators();

  Ranks& ranks_;
  const std::size_t rounds_;
  const Rounds calls_;
  std::atomic<std::uint32_t> step_ = 0;
  std::vector<Span> spans_;              // by tensor
  std::vector<std::size_t> incomplete_;  // by round: tensors that miss a gradient
  std::mutex mutex_;
  std::condition_variable changed_;
  // Under the mutex.
  std::size_t made_, allowed_;  // rounds
  bool runs_ = false;           // someone makes them
  std::exception_ptr error_;
  std::future<void> thread_;
};

}  // namespace lpmm
