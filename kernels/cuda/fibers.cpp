#include "kernels/cuda/fibers.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace lpmm::kernels::cuda_emulated {

// ---- sanitizers ------------------------------------------------------------------------------------------
#if defined(__SANITIZE_ADDRESS__)
Sanitizer::Sanitizer(bool is_thread) : is_thread_(is_thread) {}
Sanitizer::~Sanitizer() = default;
void Sanitizer::about_to_switch(const void* stack, std::size_t size, const Sanitizer&) {
  __sanitizer_start_switch_fiber(&state_, stack, size);
}
void Sanitizer::arrived(const void** from, std::size_t* size) {
  __sanitizer_finish_switch_fiber(state_, from, size);
}
#elif defined(__SANITIZE_THREAD__)
Sanitizer::Sanitizer(bool is_thread)
    : state_(is_thread ? __tsan_get_current_fiber() : __tsan_create_fiber(0)), is_thread_(is_thread) {}
Sanitizer::~Sanitizer() {
  if (!is_thread_) __tsan_destroy_fiber(state_);
}
void Sanitizer::about_to_switch(const void*, std::size_t, const Sanitizer& to) {
  __tsan_switch_to_fiber(to.state_, 0);
}
void Sanitizer::arrived(const void**, std::size_t*) {}
#else
Sanitizer::Sanitizer(bool is_thread) : is_thread_(is_thread) {}
Sanitizer::~Sanitizer() = default;
void Sanitizer::about_to_switch(const void*, std::size_t, const Sanitizer&) {}
void Sanitizer::arrived(const void**, std::size_t*) {}
#endif

// ---- stacks ----------------------------------------------------------------------------------------------
#if defined(__x86_64__)
// Keeps what a function must keep on the stack it leaves, and takes it from the other: swapcontext without
// its system call.
extern "C" void lpmm_switch_stack(void** from, void* to);
asm(R"(
.pushsection .text
.globl lpmm_switch_stack
.hidden lpmm_switch_stack
.type lpmm_switch_stack, @function
lpmm_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size lpmm_switch_stack, .-lpmm_switch_stack
.popsection
)");

void Context::prepare(std::byte* stack, std::size_t size, void (*begin)()) {
  constexpr std::size_t kWords = 8;  // six registers, where to begin, and no caller
  std::byte* const end = stack + size - (reinterpret_cast<std::uintptr_t>(stack) + size) % 16;
  auto* words = reinterpret_cast<void**>(end) - kWords;
  std::fill_n(words, kWords, nullptr);
  words[6] = reinterpret_cast<void*>(begin);
  stack_pointer = words;
}
void Context::switch_to(Context& to) {
  lpmm_switch_stack(&stack_pointer, to.stack_pointer);
}
#else
// Not inlined: getcontext may return twice, for all that the compiler knows.
__attribute__((noinline)) void Context::prepare(std::byte* stack, std::size_t size, void (*begin)()) {
  getcontext(&saved);
  saved.uc_stack.ss_sp = stack;
  saved.uc_stack.ss_size = size;
  saved.uc_link = nullptr;
  makecontext(&saved, begin, 0);
}
void Context::switch_to(Context& to) {
  swapcontext(&saved, &to.saved);
}
#endif

// ---- blocks ----------------------------------------------------------------------------------------------
Block*& Block::running() {
  static thread_local Block* block = nullptr;
  return block;
}
Block::Fiber& Block::current() {
  if (running() == nullptr) throw std::logic_error("CUDA: threads of a launch apart wait for each other");
  return *running()->fibers_[threadIdx.x];
}
void Block::wait(State state) {
  Fiber& self = current();
  self.state = state;
  running()->leave(self);
}

const OfLanes& Block::meet(std::uint64_t value) {
  Fiber& self = current();
  OfLanes& values = running()->meetings_[threadIdx.x / kWarp].values[self.meetings++ % 2];
  values[threadIdx.x % kWarp] = value;
  warp_barrier();
  return values;
}

void Block::begin_copy(void* to, const void* from, std::size_t bytes) {
  if (running() == nullptr || !running()->copies_late_) return Copy{to, from, bytes, 0}.make();
  Fiber& self = current();
  self.copies.push_back({to, from, bytes, self.groups});
}
void Block::commit_copies() {
  if (running() != nullptr) ++current().groups;
}
void Block::wait_for_copies(std::size_t left) {
  if (running() == nullptr) return;
  Fiber& self = current();
  const auto is_later = [&](const Copy& copy) { return copy.group + left >= self.groups; };
  const auto end = std::find_if(self.copies.begin(), self.copies.end(), is_later);
  std::for_each(self.copies.begin(), end, [](const Copy& copy) { copy.make(); });
  self.copies.erase(self.copies.begin(), end);
}

void Block::begin() {
  Block& block = *running();
  Fiber& self = current();
  self.sanitizer.arrived(&block.stack_, &block.size_);
  for (;;) {
    (*block.body_)();
    self.state = State::kEnded;
    block.leave(self);
  }
}

void Block::run_all(const std::function<void()>& body, unsigned index, unsigned threads,
                    std::size_t shared_bytes) {
  body_ = &body;
  running() = this;
  shared_.assign((shared_bytes + 7) / 8, 0xDEADBEEFDEADBEEFU);  // nothing may rely on what is there
  blockIdx.x = index;
  blockDim.x = threads;
  meetings_.resize((threads + kWarp - 1) / kWarp);
  std::vector<unsigned> order(threads);
  for (unsigned i = 0; i < threads; ++i) {
    order[i] = i;
    if (fibers_.size() == i) {
      fibers_.push_back(std::make_unique<Fiber>());
      fibers_[i]->context.prepare(fibers_[i]->stack.get(), Fiber::kStack, begin);
    }
    fibers_[i]->state = State::kReady;
    fibers_[i]->meetings = 0;
    fibers_[i]->copies.clear();  // which nobody waited for
    fibers_[i]->groups = 0;
  }
  copies_late_ = random_() % 2 == 0;
  std::shuffle(order.begin(), order.end(), random_);
  while (!order.empty()) {
    run_to_barrier(order, threads);
    std::erase_if(order, [&](unsigned i) { return fibers_[i]->state == State::kEnded; });
    release_barrier(order);
  }
  running() = nullptr;
}

// Half of the time all threads side by side, else warp after warp, each as far as it goes.
void Block::run_to_barrier(const std::vector<unsigned>& order, unsigned threads) {
  if (random_() % 2 == 0) return run_while_warps_meet(order, 0, threads);
  std::vector<unsigned> firsts, lanes;
  for (unsigned first = 0; first < threads; first += kWarp) firsts.push_back(first);
  std::shuffle(firsts.begin(), firsts.end(), random_);
  for (const unsigned first : firsts) {
    lanes.clear();
    std::copy_if(order.begin(), order.end(), std::back_inserter(lanes),
                 [&](unsigned i) { return i / kWarp == first / kWarp; });
    run_while_warps_meet(lanes, first, std::min(threads, first + kWarp));
  }
}
void Block::run_while_warps_meet(const std::vector<unsigned>& order, unsigned first, unsigned end) {
  do {
    for (const unsigned i : order) {
      if (fibers_[i]->state == State::kReady) enter(i);
    }
  } while (release_warps(first, end));
}

// Releases the warps whose threads have met; true if there were any.
bool Block::release_warps(unsigned begin, unsigned threads) {
  bool any = false;
  for (unsigned first = begin; first < threads; first += kWarp) {
    const unsigned end = std::min(threads, first + kWarp);
    const auto at_warp = [&](unsigned i) { return fibers_[i]->state == State::kAtWarp; };
    unsigned i = first;
    while (i < end && at_warp(i)) ++i;
    if (i < end) continue;
    for (i = first; i < end; ++i) fibers_[i]->state = State::kReady;
    any = true;
  }
  return any;
}

void Block::release_barrier(std::vector<unsigned>& waiting) {
  for (const unsigned i : waiting) {
    if (fibers_[i]->state != State::kAtBarrier) {
      fibers_.clear();  // they are in the midst of the kernel
      running() = nullptr;
      throw std::logic_error("CUDA: a warp meets without all of its threads");
    }
    fibers_[i]->state = State::kReady;
  }
  std::shuffle(waiting.begin(), waiting.end(), random_);
}

void Block::enter(unsigned thread) {
  Fiber& f = *fibers_[thread];
  threadIdx.x = thread;
  scheduler_.about_to_switch(f.stack.get(), Fiber::kStack, f.sanitizer);
  scheduler_context_.switch_to(f.context);
  scheduler_.arrived(nullptr, nullptr);
}
void Block::leave(Fiber& from) {
  from.sanitizer.about_to_switch(stack_, size_, scheduler_);
  from.context.switch_to(scheduler_context_);
  from.sanitizer.arrived(&stack_, &size_);
}

}  // namespace lpmm::kernels::cuda_emulated
