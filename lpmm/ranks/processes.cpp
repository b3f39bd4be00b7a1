#include "lpmm/ranks/processes.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <new>
#include <vector>

#include "lpmm/base/exit_code.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/base/text.h"
#include "lpmm/ranks/endings.h"

namespace lpmm {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kGrace = std::chrono::seconds(2);  // for the others, once one has failed

class Slates {
 public:
  explicit Slates(int count) : bytes_(static_cast<std::size_t>(count) * sizeof(Slate)) {
    void* const memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw RunError(fmt::format("no memory for {} ranks", count));
    first_ = static_cast<Slate*>(memory);
    for (int i = 0; i < count; ++i) new (first_ + i) Slate;
  }
  ~Slates() { munmap(first_, bytes_); }
  Slates(const Slates&) = delete;
  Slates& operator=(const Slates&) = delete;
  Slate& operator[](std::size_t rank) { return first_[rank]; }

 private:
  std::size_t bytes_;
  Slate* first_;
};

// Signals are taken by sigtimedwait() while it lives, and by nobody in between.
class HeldSignals {
 public:
  HeldSignals() {
    sigemptyset(&held_);
    for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1}) sigaddset(&held_, number);
    sigprocmask(SIG_BLOCK, &held_, &before_);
  }
  ~HeldSignals() {
    release();
    signal(SIGCHLD, child_before_);
  }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  void release() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  // The next one, or 0 after a tenth of a second. `is_typed`: a terminal sent it to all processes.
  int next(bool& is_typed) const {
    siginfo_t info{};
    const timespec wait{0, 100'000'000};
    const int number = sigtimedwait(&held_, &info, &wait);
    is_typed = info.si_code == SI_KERNEL;
    return std::max(0, number);
  }

 private:
  sigset_t held_{}, before_{};
  // Whoever started this program may have it ignored: then no child leaves a status.
  const sighandler_t child_before_ = signal(SIGCHLD, SIG_DFL);
};

[[noreturn]] void be_rank(Ranks& ranks, Slate& slate, const std::function<int(Ranks&)>& body) {
  if (!ranks.is_first()) tell_nothing(true);  // the first one does
  write_ending(slate, [&] { return body(ranks); });
  std::fflush(nullptr);
  _exit(slate.ending == Ending::kDone ? 0 : 1);
}

struct Child {
  pid_t process = 0;
  bool has_ended = false, was_ended = false;  // was_ended: by us
  int status = 0;
};

// Takes the statuses of those that have ended. False: all have.
bool take_ended(std::vector<Child>& children) {
  bool some_run = false;
  for (Child& child : children) {
    if (!child.has_ended) child.has_ended = waitpid(child.process, &child.status, WNOHANG) == child.process;
    some_run = some_run || !child.has_ended;
  }
  return some_run;
}

void end_all(std::vector<Child>& children) {
  for (Child& child : children) {
    if (child.has_ended) continue;
    child.was_ended = true;
    kill(child.process, SIGKILL);
  }
}

void wait_for(std::vector<Child>& children, Slates& slates, const HeldSignals& signals) {
  Clock::time_point first_failure = Clock::time_point::max();
  while (take_ended(children)) {
    for (std::size_t i = 0; i < children.size(); ++i) {
      const bool failed = children[i].has_ended && slates[i].ending != Ending::kDone;
      if (failed) first_failure = std::min(first_failure, Clock::now());
    }
    if (first_failure != Clock::time_point::max() && Clock::now() - first_failure > kGrace) end_all(children);
    bool is_typed = false;
    const int number = signals.next(is_typed);
    if (number == 0 || number == SIGCHLD || is_typed) continue;
    for (const Child& child : children) {
      if (!child.has_ended) kill(child.process, number);
    }
  }
}

// Throws what failed first: a death before what it made others say.
int result_of(const std::vector<Child>& children, Slates& slates) {
  for (std::size_t i = 0; i < children.size(); ++i) {
    const Child& child = children[i];
    if (child.was_ended || !WIFSIGNALED(child.status)) continue;
    const int number = WTERMSIG(child.status);
    if (std::ranges::count(kStopSignals, number) > 0) throw Interrupted();  // before its guard
    throw RankLost(fmt::format("rank {} was killed by signal {}{}, {}", i, number,
                               number == SIGKILL ? " (out of memory?)" : "", to_string(slates[i].place)));
  }
  throw_first({&slates[0], children.size()});
  for (std::size_t i = 0; i < children.size(); ++i) {
    if (slates[i].ending == Ending::kDone) continue;
    if (WEXITSTATUS(children[i].status) == kInterrupted) throw Interrupted();  // asked for twice
    throw RankLost(fmt::format("rank {} ended in step {} ({}), with {}", i, slates[i].place.step,
                               slates[i].place.phase, WEXITSTATUS(children[i].status)));
  }
  return slates[0].result;
}

}  // namespace

int run_on_ranks(int count, double timeout_seconds, const std::function<int(Ranks&)>& body) {
  Slates slates(count);
  auto ranks = linked_ranks(count, timeout_seconds);
  std::fflush(nullptr);
  const HeldSignals signals;
  const pid_t parent = getpid();
  std::vector<Child> children;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const pid_t child = fork();
    if (child == 0) {
      signals.release();
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      const std::unique_ptr<Ranks> own = std::move(ranks[i]);
      ranks.clear();  // whose ends are not held open here
      own->write_place(&slates[i].place);
      be_rank(*own, slates[i], body);
    }
    if (child < 0) {
      const std::string why = std::strerror(errno);
      end_all(children);
      while (take_ended(children)) usleep(1000);
      throw RunError(fmt::format("rank {} cannot be started: {}; use fewer", i, why));
    }
    children.push_back({child});
  }
  ranks.clear();
  wait_for(children, slates, signals);
  return result_of(children, slates);
}

}  // namespace lpmm
