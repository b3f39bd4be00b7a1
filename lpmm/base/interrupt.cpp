#include "lpmm/base/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <ctime>

#include "lpmm/base/exit_code.h"

namespace lpmm {
namespace {

std::atomic<std::int64_t> asked_at = 0;                         // nanoseconds; 0: not asked
static_assert(std::atomic<std::int64_t>::is_always_lock_free);  // or a handler may not touch it

extern "C" void ask_for_stop(int) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t time = now.tv_sec * kSecond + now.tv_nsec;
  std::int64_t first = 0;
  if (asked_at.compare_exchange_strong(first, time)) return;
  // Terminals and `timeout` send one request as two signals, to the process and to its group.
  if (time - first > kSecond / 2) _exit(kInterrupted);
}

// The handler has a stack of its own: products of matrices in oneDNN let the stack pointer lead into their
// workspace, which a handler on it would overwrite. Signals to a process go to its main thread.
constexpr std::size_t kStack = 1 << 16;
alignas(64) char handler_stack[kStack];
stack_t old_stack{};

}  // namespace

InterruptGuard::InterruptGuard() {
  stack_t own{};
  own.ss_sp = handler_stack;
  own.ss_size = kStack;
  sigaltstack(&own, &old_stack);
  asked_at = 0;
  struct sigaction action {};
  action.sa_handler = ask_for_stop;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) {
    sigaction(kStopSignals[i], &action, &old_[i]);
    if (kStopSignals[i] == SIGHUP && old_[i].sa_handler == SIG_IGN) sigaction(SIGHUP, &old_[i], nullptr);
  }
}

InterruptGuard::~InterruptGuard() {
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) sigaction(kStopSignals[i], &old_[i], nullptr);
  sigaltstack(&old_stack, nullptr);
  asked_at = 0;
}

bool InterruptGuard::asked() {
  return asked_at != 0;
}

void InterruptGuard::check() {
  if (asked()) throw Interrupted();
}

}  // namespace lpmm
