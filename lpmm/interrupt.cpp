#include "lpmm/interrupt.h"

#include <unistd.h>

#include <atomic>

namespace lpmm {
namespace {

std::atomic<int> stop_requests = 0;
static_assert(std::atomic<int>::is_always_lock_free);  // or a handler may not touch it

extern "C" void ask_for_stop(int) {
  if (++stop_requests > 1) _exit(130);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  stop_requests = 0;
  struct sigaction action {};
  action.sa_handler = ask_for_stop;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], &action, &old_[i]);
    if (kSignals[i] == SIGHUP && old_[i].sa_handler == SIG_IGN) sigaction(SIGHUP, &old_[i], nullptr);
  }
}

InterruptGuard::~InterruptGuard() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &old_[i], nullptr);
  stop_requests = 0;
}

bool InterruptGuard::asked() {
  return stop_requests > 0;
}

void InterruptGuard::check() {
  if (asked()) throw Interrupted();
}

}  // namespace lpmm
