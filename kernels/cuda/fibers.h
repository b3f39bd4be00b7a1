// A thread block on the host: each of its threads is a fiber, which runs until a barrier or a meeting of its
// warp, and they take turns in a random order. A missing barrier, or an order that matters, gives wrong
// numbers.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace lpmm::kernels::cuda_emulated {

struct Index {
  unsigned x = 0;
};
// As CUDA names them.
inline thread_local Index threadIdx, blockIdx, blockDim;

inline constexpr int kWarp = 32;
using OfLanes = std::array<std::uint64_t, kWarp>;

// Tells a sanitizer of switches between stacks, where there is one. `is_thread`: the stack is a thread's own.
struct Sanitizer {
#if defined(__SANITIZE_ADDRESS__)
  explicit Sanitizer(bool = false) {}
  void about_to_switch(const void* stack, std::size_t size, const Sanitizer&, bool for_good) {
    __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_stack, stack, size);
  }
  void arrived(const void** from, std::size_t* size) {
    __sanitizer_finish_switch_fiber(fake_stack, from, size);
    fake_stack = nullptr;
  }
  void* fake_stack = nullptr;
#elif defined(__SANITIZE_THREAD__)
  explicit Sanitizer(bool is_thread = false)
      : is_own(!is_thread), fiber(is_thread ? __tsan_get_current_fiber() : __tsan_create_fiber(0)) {}
  ~Sanitizer() {
    if (is_own) __tsan_destroy_fiber(fiber);
  }
  Sanitizer(const Sanitizer&) = delete;
  Sanitizer& operator=(const Sanitizer&) = delete;
  static void about_to_switch(const void*, std::size_t, const Sanitizer& to, bool) {
    __tsan_switch_to_fiber(to.fiber, 0);
  }
  static void arrived(const void**, std::size_t*) {}
  bool is_own;
  void* fiber;
#else
  explicit Sanitizer(bool = false) {}
  static void about_to_switch(const void*, std::size_t, const Sanitizer&, bool) {}
  static void arrived(const void**, std::size_t*) {}
#endif
};

class Block {
 public:
  // Runs body() once as each of `threads` threads of block `index`.
  static void run(const std::function<void()>& body, unsigned index, unsigned threads,
                  std::size_t shared_bytes) {
    static thread_local Block block;
    block.run_all(body, index, threads, shared_bytes);
  }
  // What __syncthreads does: returns when all threads that have not ended are here.
  static void barrier() {
    Fiber& self = *running()->fibers_[threadIdx.x];
    self.state = State::kWaits;
    running()->leave(self);
  }
  // What lanes of a warp tell one another: returns when all of them are here, with the value of each. It is
  // there until the lane's next meeting.
  static const OfLanes& meet(std::uint64_t value) {
    Fiber& self = *running()->fibers_[threadIdx.x];
    OfLanes& values = running()->meetings_[threadIdx.x / kWarp].values[self.meetings++ % 2];
    values[threadIdx.x % kWarp] = value;
    self.state = State::kMeets;
    running()->leave(self);
    return values;
  }
  static void* dynamic_shared() { return running()->shared_.data(); }

 private:
  enum class State : std::uint8_t { kReady, kWaits, kMeets, kEnded };
  // Of one warp. A lane may be at the next meeting before another has read what this one was told, but not at
  // the one after.
  struct Meetings {
    OfLanes values[2];
  };
  struct Fiber {
    static constexpr std::size_t kStack = 256 << 10;
    ucontext_t context{};
    std::unique_ptr<std::byte[]> stack = std::make_unique<std::byte[]>(kStack);
    State state = State::kReady;
    unsigned meetings = 0;
    Sanitizer sanitizer;
  };

  static Block*& running() {
    static thread_local Block* block = nullptr;
    return block;
  }
  static void begin() {
    Block& block = *running();
    Fiber& self = *block.fibers_[threadIdx.x];
    self.sanitizer.arrived(&block.stack_, &block.size_);
    (*block.body_)();
    self.state = State::kEnded;
    block.leave(self);
  }

  // Not inlined: getcontext may return twice, for all that the compiler knows.
  __attribute__((noinline)) static void prepare(Fiber& f) {
    f.state = State::kReady;
    f.meetings = 0;
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.get();
    f.context.uc_stack.ss_size = Fiber::kStack;
    f.context.uc_link = nullptr;
    makecontext(&f.context, begin, 0);
  }

  void run_all(const std::function<void()>& body, unsigned index, unsigned threads,
               std::size_t shared_bytes) {
    body_ = &body;
    running() = this;
    shared_.assign((shared_bytes + 7) / 8, 0xDEADBEEFDEADBEEFU);  // nothing may rely on what is there
    blockIdx.x = index;
    blockDim.x = threads;
    while (fibers_.size() < threads) fibers_.push_back(std::make_unique<Fiber>());
    std::vector<unsigned> order(threads);
    for (unsigned i = 0; i < threads; ++i) {
      order[i] = i;
      prepare(*fibers_[i]);
    }
    meetings_.assign((threads + kWarp - 1) / kWarp, Meetings());
    while (!order.empty()) {
      std::shuffle(order.begin(), order.end(), random_);
      for (const unsigned i : order) {
        if (fibers_[i]->state == State::kReady) enter(i);
      }
      std::erase_if(order, [&](unsigned i) { return fibers_[i]->state == State::kEnded; });
      wake(order, threads);
    }
  }
  // Those at a barrier, or at a meeting of their warp, where all are.
  void wake(const std::vector<unsigned>& waiting, unsigned threads) {
    const auto state = [&](unsigned i) { return fibers_[i]->state; };
    if (std::all_of(waiting.begin(), waiting.end(), [&](unsigned i) { return state(i) == State::kWaits; })) {
      for (const unsigned i : waiting) fibers_[i]->state = State::kReady;
      return;
    }
    bool woke = false;
    for (unsigned first = 0; first < threads; first += kWarp) {
      const unsigned end = std::min(first + kWarp, threads);
      unsigned lanes = 0;
      for (unsigned i = first; i < end; ++i) lanes += state(i) == State::kMeets ? 1 : 0;
      if (lanes != end - first) continue;
      for (unsigned i = first; i < end; ++i) fibers_[i]->state = State::kReady;
      woke = true;
    }
    if (!woke) throw std::logic_error("threads of a block wait for one another in vain");
  }

  void enter(unsigned thread) {
    Fiber& f = *fibers_[thread];
    threadIdx.x = thread;
    scheduler_.about_to_switch(f.stack.get(), Fiber::kStack, f.sanitizer, false);
    swapcontext(&scheduler_context_, &f.context);
    scheduler_.arrived(nullptr, nullptr);
  }
  void leave(Fiber& from) {
    from.sanitizer.about_to_switch(stack_, size_, scheduler_, from.state == State::kEnded);
    swapcontext(&from.context, &scheduler_context_);
    from.sanitizer.arrived(&stack_, &size_);
  }

  const std::function<void()>* body_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<std::uint64_t> shared_;
  std::vector<Meetings> meetings_;
  std::mt19937 random_{1};
  ucontext_t scheduler_context_{};
  Sanitizer scheduler_{true};
  const void* stack_ = nullptr;  // the scheduler's
  std::size_t size_ = 0;
};

}  // namespace lpmm::kernels::cuda_emulated
