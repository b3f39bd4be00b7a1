#include "kernels/pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
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

}  // namespace

struct Pool::State {
  void end() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    start.notify_all();
    for (std::thread& worker : workers) worker.join();
  }

  std::vector<std::thread> workers;
  std::mutex mutex;
  std::condition_variable start, done;
  std::uint64_t round = 0;  // grows by one per for_each
  bool stop = false;
  int busy = 0;  // workers still in this round
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
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  }

  void work(int thread) {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex);
    while (true) {
      start.wait(lock, [&] { return stop || round != seen; });
      if (stop) return;
      seen = round;
      lock.unlock();
      run(thread);
      lock.lock();
      if (--busy == 0) done.notify_one();
    }
  }
};

Pool::Pool(int threads) : state_(std::make_unique<State>()) {
  const int count = threads > 0 ? threads : usable_processors();
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
  {
    const std::lock_guard lock(s.mutex);
    s.body = &body;
    s.items = items;
    s.next.store(0, std::memory_order_relaxed);
    s.error = nullptr;
    s.busy = static_cast<int>(s.workers.size());
    ++s.round;
  }
  s.start.notify_all();
  s.run(0);
  std::unique_lock lock(s.mutex);
  s.done.wait(lock, [&] { return s.busy == 0; });
  if (s.error) std::rethrow_exception(s.error);
}

}  // namespace lpmm
