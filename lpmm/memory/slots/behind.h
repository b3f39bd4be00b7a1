// What ranks send each other behind the passes of a model: the parameters that a step has changed, while the
// next one computes with those that have come; and the accumulators of tensors whose gradients are complete,
// while the backward pass goes on. Another thread sends them, in one order: first the rounds of parameters
// (Shares), then those of accumulators, from the last one to the first, as a backward pass comes to them.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <span>
#include <vector>

#include "lpmm/memory/slots/shares.h"

namespace lpmm {

class Ranks;

class Behind {
 public:
  // The calls exchange a round. If not `overlaps`, whoever waits for one makes it, and the thread is never
  // used; else no other exchange of the ranks may come between the first gradient that is complete and the
  // wait for accumulators, and before each other one parameters are waited for.
  using Exchange = std::function<void(std::size_t round)>;
  Behind(const Shares& shares, int tensors, Ranks& ranks, bool overlaps, Exchange parameters,
         Exchange accumulators);
  // If no exception is under way, waits until the others have their parameters.
  ~Behind();
  Behind(const Behind&) = delete;
  Behind& operator=(const Behind&) = delete;

  bool overlaps() const { return overlaps_; }
  // A step begins, in which these tensors get no gradient: parameters are sent from now on.
  void begin_step(std::span<const int> without_gradient);
  // The accumulators of a tensor are complete, in all slots of this rank.
  void complete(int tensor);
  // Waiting throws RankLost, at each call, once another rank has ended.
  void wait_for_accumulators();
  void wait_for_parameter(int tensor) { wait(spans_[static_cast<std::size_t>(tensor)].end); }
  // The step ends without an update. If accumulators were sent, all are, as the other ranks expect.
  void leave_step();
  // All have updated what they own; parameters are sent from the next step on, or when they are waited for.
  void updated();

 private:
  // The rounds [first, end) in which pieces of a tensor are.
  struct Span {
    std::size_t first = 0, end = 0;
  };
  // Rounds are counted from those of parameters on, and go on with those of accumulators.
  void allow(std::size_t end);
  void wait(std::size_t end);
  void make_allowed();
  bool sends_accumulators();

  Ranks& ranks_;
  const std::size_t rounds_;
  const bool overlaps_;
  const Exchange parameters_, accumulators_;
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
