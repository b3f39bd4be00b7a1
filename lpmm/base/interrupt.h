// Ctrl-C, where there is something to save or to clear away before the program ends.
#pragma once

#include <signal.h>

#include <array>
#include <stdexcept>

namespace lpmm {

inline constexpr std::array<int, 4> kStopSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

// While it lives, SIGINT, SIGTERM, SIGUSR1 (which mpirun passes on at once) and a SIGHUP that is not ignored
// (nohup) only ask for a stop; another one half a second later or more ends the program.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  static bool asked();
  static void check();  // throws Interrupted where one was asked for

 private:
  std::array<struct sigaction, kStopSignals.size()> old_;
};

}  // namespace lpmm
