// A thread block on the host: each of its threads is a fiber, which runs until a barrier or a shuffle, and
// they take turns in a random order. A missing barrier, or an order that matters, gives wrong numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <type_traits>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace lpmm::kernels::cuda_emulated {

struct Index {
  unsigned x = 0;
};
// Named as in CUDA.
inline constinit thread_local Index threadIdx, blockIdx, blockDim, gridDim;

inline constexpr int kWarp = 32;
using OfLanes = std::array<std::uint64_t, kWarp>;

// Tells a sanitizer of switches between stacks, where there is one. `is_thread`: the stack is a thread's own.
struct Sanitizer {
  explicit Sanitizer(bool is_thread = false);
  ~Sanitizer();  // NOLINT(performance-trivially-destructible): it is not, with a sanitizer
  Sanitizer(const Sanitizer&) = delete;
  Sanitizer& operator=(const Sanitizer&) = delete;
  void about_to_switch(const void* stack, std::size_t size, const Sanitizer& to);
  void arrived(const void** from, std::size_t* size);

 private:
  [[maybe_unused]] void* state_ = nullptr;  // the fiber, or what its stack keeps elsewhere
  [[maybe_unused]] bool is_thread_;
};

// The point at which a stack continues.
struct Context {
#if defined(__x86_64__)
  void* stack_pointer = nullptr;
#else
  ucontext_t saved{};
#endif
  void prepare(std::byte* stack, std::size_t size, void (*begin)());
  void switch_to(Context& to);
};

class Block {
 public:
  // Runs body() once as each of `threads` threads of block `index`. Throws std::logic_error where threads
  // wait for each other at different places.
  static void run(const std::function<void()>& body, unsigned index, unsigned threads,
                  std::size_t shared_bytes) {
    static thread_local Block block;
    block.run_all(body, index, threads, shared_bytes);
  }
  // The same for a body in which no thread waits for another: without fibers, the last thread first.
  template <class Body>
  static void run_apart(const Body& body, unsigned index, unsigned threads) {
    blockIdx.x = index;
    blockDim.x = threads;
    for (threadIdx.x = threads; threadIdx.x-- > 0;) body();
  }

  // Like __syncthreads: returns when all threads that have not ended are here.
  static void barrier() { wait(State::kAtBarrier); }
  // Like __syncwarp, for all threads of the warp.
  static void warp_barrier() { wait(State::kAtWarp); }
  // Exchanges values between the lanes of a warp: returns when all of them are here, with the value of each.
  // It is there until the lane's next meeting.
  static const OfLanes& meet(std::uint64_t value);
  // The value of one lane.
  template <class T>
  static T exchange(T value, unsigned lane) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(std::uint64_t));
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    bits = meet(bits)[lane % kWarp];
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  static void* dynamic_shared() { return running()->shared_.data(); }

  // Copies that a thread does not wait for (kernels/cuda/async_copy.h). A block makes them at once, or as
  // late as it may: who reads or writes too early gets wrong numbers. `from` null: zeros.
  static void begin_copy(void* to, const void* from, std::size_t bytes);
  static void commit_copies();
  // Returns when all but its last `left` groups are there.
  static void wait_for_copies(std::size_t left);

 private:
  enum class State : std::uint8_t { kReady, kAtWarp, kAtBarrier, kEnded };
  // The values exchanged by one warp. A lane may be at the next meeting before another has read the values of
  // this one, but not at the one after.
  struct Meetings {
    OfLanes values[2];
  };
  struct Copy {
    void* to;
    const void* from;
    std::size_t bytes, group;
    void make() const { from != nullptr ? std::memcpy(to, from, bytes) : std::memset(to, 0, bytes); }
  };
  struct Fiber {
    static constexpr std::size_t kStack = 256 << 10;
    Context context;
    std::unique_ptr<std::byte[]> stack = std::make_unique_for_overwrite<std::byte[]>(kStack);
    State state = State::kReady;
    unsigned meetings = 0;
    std::vector<Copy> copies;  // that are still to be made
    std::size_t groups = 0;    // that were committed
    Sanitizer sanitizer;
  };

  static Block*& running();
  static Fiber& current();
  static void wait(State state);
  static void begin();

  void run_all(const std::function<void()>& body, unsigned index, unsigned threads, std::size_t shared_bytes);
  void run_to_barrier(const std::vector<unsigned>& order, unsigned threads);
  void run_while_warps_meet(const std::vector<unsigned>& order, unsigned first, unsigned end);
  bool release_warps(unsigned begin, unsigned threads);
  void release_barrier(std::vector<unsigned>& waiting);
  void enter(unsigned thread);
  void leave(Fiber& from);

  const std::function<void()>* body_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;  // they live on from block to block
  std::vector<std::uint64_t> shared_;
  std::vector<Meetings> meetings_;
  std::mt19937 random_{1};
  bool copies_late_ = false;
  Context scheduler_context_;
  Sanitizer scheduler_{true};
  const void* stack_ = nullptr;  // the scheduler's
  std::size_t size_ = 0;
};

// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's names
inline void __syncthreads() {
  Block::barrier();
}
inline void __syncwarp() {
  Block::warp_barrier();
}
// Blocks run one after another.
// All lanes of a warp take part: masks are full ones.
template <class T>
T __shfl_sync(unsigned /*mask*/, T value, int lane) {
  return Block::exchange(value, static_cast<unsigned>(lane));
}
template <class T>
T __shfl_xor_sync(unsigned /*mask*/, T value, int lanes) {
  return Block::exchange(value, threadIdx.x % kWarp ^ static_cast<unsigned>(lanes));
}
template <class T>
T __shfl_down_sync(unsigned /*mask*/, T value, int lanes) {
  const unsigned lane = threadIdx.x % kWarp, from = lane + static_cast<unsigned>(lanes);
  return Block::exchange(value, from < kWarp ? from : lane);
}
// NOLINTEND(bugprone-reserved-identifier)

}  // namespace lpmm::kernels::cuda_emulated
