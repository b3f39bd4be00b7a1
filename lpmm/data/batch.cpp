#include "lpmm/data/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "kernels/noise.h"
#include "lpmm/base/error.h"

namespace lpmm {

std::int64_t drawn_order(std::uint64_t seed, std::int64_t epoch, std::int64_t count, std::int64_t position) {
  const auto bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count - 1)));
  const int half = std::max(4, (bits + 1) / 2);
  const std::uint32_t mask = (1U << half) - 1;
  const Noise noise{seed, 0, static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(Stream::kShuffle)};
  auto at = static_cast<std::uint64_t>(position);
  do {
    auto left = static_cast<std::uint32_t>(at >> half), right = static_cast<std::uint32_t>(at) & mask;
    for (std::uint32_t round = 0; round < 6; ++round) {
      const std::uint32_t mixed = left ^ (noise_words(noise, round << 16 | right).x[0] & mask);
      left = right;
      right = mixed;
    }
    at = static_cast<std::uint64_t>(left) << half | right;
  } while (at >= static_cast<std::uint64_t>(count));
  return static_cast<std::int64_t>(at);
}

std::int64_t BatchPlan::counted(std::int64_t all, std::int64_t index, int microbatch) const {
  if (!keeps_last) return examples();
  const std::int64_t first = index * batch + std::int64_t{1} * microbatch * examples();
  return std::clamp<std::int64_t>(all - first, 0, examples());
}

std::int64_t BatchPlan::step_labels(std::int64_t all, std::int64_t index, std::int64_t labels) const {
  const std::int64_t left = all - index * batch;
  return keeps_last && left < batch ? left * labels : 0;
}

std::int64_t steps_per_epoch(const DataSource& data, int batch, bool keeps_last) {
  const std::int64_t steps = steps_in(data.train_examples(), batch, keeps_last);
  if (steps == 0) {
    throw RunError(fmt::format("{} has {} training examples, a batch takes {}: lower train.batch",
                               data.name(), data.train_examples(), batch));
  }
  return steps;
}

// A ring of batches. The thread fills slot made_ % kSlots while fewer than kSlots are held: the ones not yet
// taken and the one the caller still reads.
struct Prefetcher::State {
  static constexpr std::int64_t kSlots = 4;

  const DataSource& data;
  BatchPlan plan;
  std::int64_t epoch, index;

  std::mutex mutex;
  std::condition_variable changed;
  Batch slots[kSlots];
  std::int64_t made = 0, taken = 0;
  bool stop = false;
  std::exception_ptr error;  // set after the last good batch
  std::thread thread;

  State(const DataSource& d, BatchPlan p, std::int64_t e, std::int64_t i)
      : data(d), plan(p), epoch(e), index(i) {
    try {
      thread = std::thread([this] { run(); });
    } catch (const std::system_error& e) {
      throw RunError(
          fmt::format("cannot start the thread that prepares batches: {}; raise the limits on "
                      "threads or address space (ulimit -u, ulimit -v)",
                      e.what()));
    }
  }
  ~State() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    changed.notify_all();
    thread.join();
  }

  void run() {
    try {
      const std::int64_t steps = steps_per_epoch(data, plan.batch, plan.keeps_last);
      for (;; ++epoch, index = 0) {
        for (; index < steps; ++index) {
          const int end = plan.count == 0 ? plan.microbatches : plan.first + plan.count;
          for (int microbatch = plan.first; microbatch < end; ++microbatch) {
            {
              std::unique_lock lock(mutex);
              changed.wait(lock,
                           [&] { return stop || made - std::max<std::int64_t>(0, taken - 1) < kSlots; });
              if (stop) return;
            }
            data.make_batch(plan, epoch, index, microbatch, slots[made % kSlots]);
            {
              const std::lock_guard lock(mutex);
              ++made;
            }
            changed.notify_all();
          }
        }
      }
    } catch (...) {
      {
        const std::lock_guard lock(mutex);
        error = std::current_exception();
      }
      changed.notify_all();
    }
  }
};

Prefetcher::Prefetcher(const DataSource& data, BatchPlan plan, std::int64_t epoch, std::int64_t index)
    : state_(std::make_unique<State>(data, plan, epoch, index)) {}
Prefetcher::~Prefetcher() = default;

const Batch& Prefetcher::next() {
  std::unique_lock lock(state_->mutex);
  State& s = *state_;
  s.changed.wait(lock, [&] { return s.made > s.taken || s.error; });
  if (s.made == s.taken) std::rethrow_exception(s.error);
  const Batch& batch = s.slots[s.taken++ % State::kSlots];
  lock.unlock();
  s.changed.notify_all();
  return batch;
}

}  // namespace lpmm
