#include "kernels/pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace lpmm {
namespace {

// Keeps denormals (no flush-to-zero, no denormals-are-zero) while it lives.
class KeepDenormals {
 public:
#if defined(__SSE2__)
  KeepDenormals() : old_(_mm_getcsr()) {
    _mm_setcsr(old_ & ~0x8040U);
  }
  ~KeepDenormals() {
    _mm_setcsr(old_);
  }
  KeepDenormals(const KeepDenormals&) = delete;
  KeepDenormals& operator=(const KeepDenormals&) = delete;

 private:
  unsigned old_;
#endif
};

// Microseconds, 3 to 45 by processor: between the kernels of a small net threads would sleep and be woken for
// longer than they work.
constexpr int kLooks = 1000;

// Returns when `value` is no longer `old`.
void await_change(const std::atomic<int>& value, int old, int looks) {
  for (int i = 0; i < looks; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
#if defined(__SSE2__)
    _mm_pause();
#endif
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

struct Pool::State {
  void end() {
    stop = true;
    begin_round();
    for (std::thread& worker : workers) worker.join();
  }
  void begin_round() {
    round.fetch_add(1, std::memory_order_release);
    round.notify_all();
  }

  std::mutex turn;  // whose round it is
  std::vector<std::thread> workers;
  int looks = 0;  // before a thread sleeps
  std::atomic<int> round{0};
  std::atomic<int> busy{0};  // workers still in this round

  // Written between rounds only.
  bool stop = false;
  std::mutex error_mutex;
  std::exception_ptr error;
  const std::function<void(std::int64_t, int)>* body = nullptr;
  std::int64_t items = 0;
  std::atomic<std::int64_t> next{0};

  // Takes items until none is left; after an error the rest is dropped.
  void run(int thread) {
    const KeepDenormals keep;
    try {
      for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < items;) (*body)(i, thread);
    } catch (...) {
      next.store(items, std::memory_order_relaxed);
      const std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
    }
  }

  void work(int thread) {
    for (int seen = 0;;) {
      await_change(round, seen, looks);
      if (stop) return;
      seen = round.load(std::memory_order_relaxed);
      run(thread);
      if (busy.fetch_sub(1, std::memory_order_acq_rel) == 1) busy.notify_one();
    }
  }
};

Pool::Pool(int threads) : state_(std::make_unique<State>()) {
  const int count = threads > 0 ? threads : usable_processors();
  state_->looks = count <= usable_processors() ? kLooks : 0;
  try {
    for (int t = 1; t < count; ++t) state_->workers.emplace_back([s = state_.get(), t] { s->work(t); });
  } catch (const std::system_error& e) {
    state_->end();
    throw std::runtime_error("cannot start " + std::to_string(count) + " threads: " + e.what() +
                             "; use fewer (--threads)");
  }
}

Pool::~Pool() {
  state_->end();
}

int Pool::usable_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int Pool::threads() const {
  return static_cast<int>(state_->workers.size()) + 1;
}

void Pool::for_each(std::int64_t items, const std::function<void(std::int64_t, int)>& body) {
  if (items <= 0) return;
  State& s = *state_;
  if (items == 1 || s.workers.empty()) {
    const KeepDenormals keep;
    for (std::int64_t i = 0; i < items; ++i) body(i, 0);
    return;
  }
  const std::lock_guard turn(s.turn);
  s.body = &body;
  s.items = items;
  s.next.store(0, std::memory_order_relaxed);
  s.error = nullptr;
  s.busy.store(static_cast<int>(s.workers.size()), std::memory_order_relaxed);
  s.begin_round();
  s.run(0);
  for (int left; (left = s.busy.load(std::memory_order_acquire)) != 0;) await_change(s.busy, left, s.looks);
  if (s.error) std::rethrow_exception(s.error);
}

}  // namespace lpmm
