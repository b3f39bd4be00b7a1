#include "kernels/threads/pool.h"

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

#include "kernels/threads/processors.h"

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
constexpr int kSpins = 1000;

// Returns when `value` is no longer `old`.
void await_change(const std::atomic<int>& value, int old, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
#if defined(__SSE2__)
    _mm_pause();
#endif
  }
  value.wait(old, std::memory_order_acquire);
}

// What a call has to do.
struct Call {
  Call(const std::function<void(std::int64_t, int)>& to_do, std::int64_t count) : body(to_do), items(count) {}

  const std::function<void(std::int64_t, int)>& body;
  std::int64_t items;
  std::atomic<std::int64_t> next{0};
  std::mutex error_mutex;
  std::exception_ptr error;

  // Takes items until none is left; after an error the rest is dropped.
  void run(int thread) {
    const KeepDenormals keep;
    try {
      for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < items;) body(i, thread);
    } catch (...) {
      next.store(items, std::memory_order_relaxed);
      const std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
    }
  }
};

void run_in_team(Team team, int threads, Call& call) {
  struct Members {
    Call& call;
    std::atomic<int> came{0};
  } members{call};
  const auto work = [](void* data) {
    auto& of = *static_cast<Members*>(data);
    of.call.run(of.came.fetch_add(1, std::memory_order_relaxed));
  };
  team(work, &members, static_cast<unsigned>(threads), 0);
}

}  // namespace

// No call waits for a worker that has not come: a round is open while there are items, and each worker that
// comes meanwhile takes some. On a busy machine the caller may thus do all of them.
struct Pool::State {
  static constexpr int kClosed = 1 << 30;

  State(int count, Team others) : threads(count), team(others) {}

  std::mutex turn;  // whose round it is
  const int threads;
  const Team team;
  std::vector<std::thread> workers;
  int spins = 0;  // before a thread sleeps
  std::atomic<bool> stop{false};
  std::atomic<int> round{0};
  std::atomic<int> inside{kClosed};  // workers in the open round; with kClosed no more may come

  Call* call = nullptr;  // written only while the round is closed and empty

  void end() {
    stop.store(true, std::memory_order_relaxed);
    wake();
    for (std::thread& worker : workers) worker.join();
  }
  void wake() {
    round.fetch_add(1, std::memory_order_release);
    round.notify_all();
  }
  void open() {
    inside.store(0, std::memory_order_release);
    wake();
  }
  // Returns when all who came have left.
  void close() {
    int left = inside.fetch_or(kClosed, std::memory_order_acquire) | kClosed;
    for (; left != kClosed; left = inside.load(std::memory_order_acquire)) await_change(inside, left, spins);
  }
  bool enter() {
    int now = inside.load(std::memory_order_relaxed);
    while ((now & kClosed) == 0) {
      if (inside.compare_exchange_weak(now, now + 1, std::memory_order_acquire, std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }
  void leave() {
    if (inside.fetch_sub(1, std::memory_order_release) == kClosed + 1) inside.notify_one();
  }

  void work(int thread) {
    for (int seen = 0;;) {
      await_change(round, seen, spins);
      seen = round.load(std::memory_order_acquire);
      if (stop.load(std::memory_order_relaxed)) return;
      if (!enter()) continue;
      call->run(thread);
      leave();
    }
  }
};

Pool::Pool(int threads, Team team)
    : state_(std::make_unique<State>(threads > 0 ? threads : usable_processors(), team)) {
  if (team != nullptr) return;
  const int count = state_->threads;
  state_->spins = count <= usable_processors() ? kSpins : 0;
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
  const int all = sched_getaffinity(0, sizeof(set), &set) == 0
                      ? CPU_COUNT(&set)
                      : static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1,
                  std::min(all, processors_of_quota("/sys/fs/cgroup", control_group("/proc/self/cgroup"))));
}

int Pool::threads() const {
  return state_->threads;
}

void Pool::for_each(std::int64_t items, const std::function<void(std::int64_t, int)>& body) {
  if (items <= 0) return;
  State& s = *state_;
  if (items == 1 || s.threads == 1) {
    const KeepDenormals keep;
    for (std::int64_t i = 0; i < items; ++i) body(i, 0);
    return;
  }
  const std::lock_guard turn(s.turn);
  Call call(body, items);
  if (s.team != nullptr) {
    run_in_team(s.team, s.threads, call);
  } else {
    s.call = &call;
    s.open();
    call.run(0);
    s.close();
  }
  if (call.error) std::rethrow_exception(call.error);
}

}  // namespace lpmm
