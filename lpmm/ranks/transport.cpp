#include "lpmm/ranks/transport.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "lpmm/base/interrupt.h"

namespace lpmm {
namespace {

using std::chrono::milliseconds;

enum Channel : int { kData, kSlates };
constexpr std::size_t kMostAtOnce = std::size_t{4} << 20;  // of one transfer: a slow link is heard of in time
constexpr milliseconds kWatchEvery{100}, kUnheard{400};
constexpr double kFarewell = 1;  // seconds for the others, once one has failed
constexpr double kStuck = 1;     // and for a call of the library that should not wait

// Makes room for those who compute: at first the other side may be about to answer.
void pause(int idle) {
  constexpr int kYields = 100, kLongest = 500;
  if (idle < kYields) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(std::min(kLongest, idle)));
  }
}

}  // namespace

// What is left to send to a rank, or to come from it; two transfers are under way.
struct Transport::Stream {
  std::size_t rank = 0;
  bool sends = false;
  std::byte* at = nullptr;
  std::size_t left = 0;
  std::array<int, 2> under_way = {-1, -1};  // the older one first
  bool is_done() const { return left == 0 && under_way[0] < 0; }
};

Transport::Transport(std::function<std::unique_ptr<Wire>()> open, double timeout_seconds)
    : open_(std::move(open)), timeout_(timeout_seconds) {
  hear();
  // Signals are for the thread that knows what to do.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Transport::wait_until_open() {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, std::chrono::duration<double>(timeout_), [&] { return is_open_; })) {
    is_stuck_ = true;
    throw RunError(fmt::format("not all processes have started within {:g} s", timeout_));
  }
  if (error_) std::rethrow_exception(error_);
}

Transport::~Transport() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

bool Transport::open_wire() {
  std::exception_ptr error;
  try {
    wire_ = open_();
    rank_ = wire_->rank();
    size_ = wire_->size();
    slates_.resize(static_cast<std::size_t>(size_));
    for (int i = 0; i < size_; ++i) {
      const auto slate = std::as_writable_bytes(std::span(&slates_[static_cast<std::size_t>(i)], 1));
      slate_transfers_.push_back(i == rank_ ? -1 : wire_->receive(i, kSlates, slate));
    }
  } catch (...) {
    error = std::current_exception();
  }
  const std::scoped_lock lock(mutex_);
  const bool is_open = error == nullptr;
  error_ = std::move(error);
  is_open_ = true;
  changed_.notify_all();
  return is_open;
}

void Transport::run() {
  if (!open_wire()) return;
  while (true) {
    std::shared_ptr<const Job> job;
    {
      std::unique_lock lock(mutex_);
      if (!job_ && !ends_) changed_.wait_for(lock, kWatchEvery);
      if (ends_) return;
      job = job_;
    }
    if (!job) {
      watch();
      abandon_where_unheard();
      continue;
    }
    std::exception_ptr error = work_on(*job);
    const std::scoped_lock lock(mutex_);
    error_ = std::move(error);  // the caller's alone
    job_ = nullptr;
    changed_.notify_all();
  }
}

std::exception_ptr Transport::work_on(const Job& job) {
  try {
    auto heard = heard_.load();
    watch();
    for (int idle = 0; !job(); ++idle) {
      if (is_stuck_) break;  // nobody waits for it any more
      if (const auto now = heard_.load(); now != heard) {
        heard = now;
        idle = 0;
      }
      pause(idle);
      watch();
    }
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

// Has the thread work on it until it is done. Throws what that throws.
void Transport::do_there(Job job, double seconds_of_silence) {
  constexpr const char* kText = "the launcher's library has not returned for {:g} s";
  if (is_stuck_) throw RankLost(fmt::format(kText, seconds_of_silence));
  std::unique_lock lock(mutex_);
  hear();
  job_ = std::make_shared<const Job>(std::move(job));
  changed_.notify_all();
  // Seconds are counted: a process that was stopped for long has not waited for them.
  auto heard = heard_.load();
  for (int silent = 0; job_ != nullptr;) {
    const bool is_told = changed_.wait_for(lock, std::chrono::seconds(1)) == std::cv_status::no_timeout;
    silent = is_told || heard_ != heard ? 0 : silent + 1;
    heard = heard_;
    if (job_ == nullptr || silent < seconds_of_silence + kStuck) continue;
    is_stuck_ = true;
    throw RankLost(fmt::format(kText, seconds_of_silence));
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Transport::know(std::vector<Peer> peers, std::function<void(const Slates&)> abandon,
                     std::function<void(const std::string&)> worry) {
  do_there(
      [&] {
        peers_ = std::move(peers);
        abandon_ = std::move(abandon);
        worry_ = std::move(worry);
        return true;
      },
      timeout_);
}

// Returns true if something moved.
bool Transport::advance(Stream& stream) {
  const int rank = static_cast<int>(stream.rank);
  auto& [older, newer] = stream.under_way;
  bool moved = false;
  if (older >= 0 && wire_->is_done(older)) {
    older = std::exchange(newer, -1);
    moved = true;
  }
  while (stream.left > 0 && newer < 0) {
    const std::span<std::byte> part(stream.at, std::min(stream.left, kMostAtOnce));
    (older < 0 ? older : newer) =
        stream.sends ? wire_->send(rank, kData, part) : wire_->receive(rank, kData, part);
    stream.at += part.size();
    stream.left -= part.size();
  }
  return moved;
}

std::int64_t Transport::swap(std::span<const std::span<const std::byte>> send,
                             std::span<const std::span<std::byte>> receive, const RankPlace& place) {
  std::vector<Stream> streams;
  std::int64_t sent = 0;
  for (std::size_t i = 0; i < send.size(); ++i) {
    if (static_cast<int>(i) == rank_) continue;
    streams.push_back({i, false, receive[i].data(), receive[i].size()});
    streams.push_back({i, true, const_cast<std::byte*>(send[i].data()), send[i].size()});  // only read
    sent += std::ssize(send[i]);
  }
  do_there(
      [this, place, streams]() mutable {
        place_ = place;
        if (!lost_.empty()) throw RankLost(lost_);
        const Stream* waits = nullptr;
        for (Stream& stream : streams) {
          try {
            if (!stream.is_done() && advance(stream)) hear();
          } catch (const RunError& e) {
            lose(fmt::format("{} is lost: {}", named(stream.rank), e.what()));
          }
          if (waits == nullptr && !stream.is_done()) waits = &stream;
        }
        if (waits == nullptr) return true;
        worry_about(waits->rank);
        if (silence() > timeout_) {
          lose(fmt::format("{} has not been heard of for {:g} s", named(waits->rank), timeout_));
        }
        return false;
      },
      timeout_);
  return sent;
}

void Transport::watch() {
  const auto now = Clock::now();
  if (now - watched_at_ < kWatchEvery) return;
  const bool is_first_time = watched_at_ == Clock::time_point();
  if (!is_first_time && std::chrono::duration<double>(now - watched_at_).count() > timeout_) {
    stood_still_ = true;
  }
  watched_at_ = now;
  if (InterruptGuard::asked()) asked_at_ = std::min(asked_at_, now);
  try {
    for (std::size_t i = 0; i < slates_.size(); ++i) {
      if (slate_transfers_[i] < 0 || !wire_->is_done(slate_transfers_[i])) continue;
      slate_transfers_[i] = -1;
      hear_of(i);
    }
  } catch (const RunError& e) {
    lose(e.what());
  }
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    Peer& peer = peers_[i];
    if (peer.process == 0 || peer.has_ended || slate_transfers_[i] < 0) continue;
    peer.has_ended = kill(peer.process, 0) != 0 && errno == ESRCH;
    if (peer.has_ended) lose(fmt::format("{} has ended", named(i)));
  }
}

// One of the ranks says it: the first that does not wait for itself.
void Transport::worry_about(std::size_t rank) {
  const auto now = Clock::now();
  const auto heard = Clock::time_point(Clock::duration(heard_.load()));
  if (!worry_ || now < asked_at_ || now - std::max(asked_at_, heard) < kUnheard) return;
  if (rank_ == (rank == 0 ? 1 : 0)) {
    worry_(fmt::format("asked to end, and waits for {} in step {} ({})", named(rank), place_.step,
                       place_.phase));
  }
  worry_ = nullptr;
}

// Its slate has come.
void Transport::hear_of(std::size_t rank) {
  Slate& slate = slates_[rank];
  slate.place = {};
  slate.message[sizeof(slate.message) - 1] = '\0';
  if (slate.ending == Ending::kNone || slate.ending > Ending::kInterrupted) slate.ending = Ending::kFailed;
  if (slate.ending == Ending::kDone) return;
  some_leave = true;
  if (!lost_.empty()) return;
  lost_ = slate.ending == Ending::kLost ? slate.message : fmt::format("{}: {}", named(rank), slate.message);
  lost_at_ = Clock::now();
}

void Transport::lose(const std::string& why) {
  some_leave = true;
  if (!lost_.empty()) return;
  lost_ = fmt::format("{}, {}", why, to_string(place_));
  lost_at_ = Clock::now();
}

// The caller computes, or waits for a disk: mpirun ends it before it would hear of the loss.
void Transport::abandon_where_unheard() {
  if (lost_.empty() || !abandon_ || Clock::now() - lost_at_ < kUnheard) return;
  Slate own;
  write_ending(own, [&]() -> int { throw RankLost(lost_); });
  const auto abandon = abandon_;
  hear();
  work_on(leaving(own));
  abandon(slates_);
}

bool Transport::all_left() const {
  for (std::size_t i = 0; i < slates_.size(); ++i) {
    const bool has_ended = i < peers_.size() && peers_[i].has_ended;
    if (slate_transfers_[i] >= 0 && !has_ended) return false;
  }
  return true;
}

bool Transport::some_failed() const {
  return !lost_.empty() || std::ranges::any_of(slates_, [](const Slate& s) {
    return s.ending != Ending::kNone && s.ending != Ending::kDone;
  });
}

Transport::Job Transport::leaving(const Slate& own) {
  struct Sent {
    std::size_t rank;
    int transfer;
  };
  return [this, own = std::make_shared<const Slate>(own), begun = false, began = Clock::now(),
          sent = std::vector<Sent>()]() mutable {
    const auto bytes = std::as_bytes(std::span(own.get(), 1));
    try {
      if (!std::exchange(begun, true)) {
        began = Clock::now();
        abandon_ = nullptr;
        slates_[static_cast<std::size_t>(rank_)] = *own;
        for (int i = 0; i < size_; ++i) {
          const auto rank = static_cast<std::size_t>(i);
          if (i != rank_ && !(rank < peers_.size() && peers_[rank].has_ended))
            sent.push_back({rank, wire_->send(i, kSlates, bytes)});
        }
      }
      std::erase_if(sent, [&](const Sent& s) {
        return (s.rank < peers_.size() && peers_[s.rank].has_ended) || wire_->is_done(s.transfer);
      });
    } catch (const RunError&) {
      sent.clear();  // whoever it was is lost
    }
    if (all_left() && sent.empty()) return true;
    const double waits = std::chrono::duration<double>(Clock::now() - began).count();
    return waits > (some_failed() ? kFarewell : timeout_);
  };
}

Transport::Slates Transport::leave(const Slate& own) {
  some_leave = some_leave || own.ending != Ending::kDone;
  Slates all;
  do_there(
      [&, job = leaving(own)] {
        if (!job()) return false;
        all = slates_;
        return true;
      },
      timeout_ + kFarewell);
  return all;
}

bool Transport::finish(double seconds) {
  try {
    do_there(
        [this] {
          wire_->finish();
          return true;
        },
        seconds - kStuck);
    return true;
  } catch (const RankLost&) {
    return false;
  }
}

double Transport::silence() const {
  return std::chrono::duration<double>(Clock::now() - Clock::time_point(Clock::duration(heard_.load())))
      .count();
}

std::string Transport::named(std::size_t rank) const {
  return rank < peers_.size() ? peers_[rank].name : fmt::format("rank {}", rank);
}

}  // namespace lpmm
