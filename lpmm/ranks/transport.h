// Ranks over a wire. A thread of its own is the only one that uses the wire: it moves bytes while others
// compute, and sees in between who has ended.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "lpmm/ranks/endings.h"
#include "lpmm/ranks/ranks.h"
#include "lpmm/ranks/wire.h"

namespace lpmm {

// Each call is made by one thread, and ends within the timeout. Not to be destroyed where is_stuck(): the
// thread then is in a call of a library that does not return.
class Transport {
 public:
  struct Peer {
    std::string name;  // for messages
    pid_t process;     // 0: not of this host
    bool has_ended = false;
  };
  using Slates = std::vector<Slate>;

  // Throws RunError where the wire is not open within the timeout.
  Transport(std::function<std::unique_ptr<Wire>()> open, double timeout_seconds);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  void wait_until_open();
  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_stuck() const { return is_stuck_; }
  // This process was stopped for longer than the timeout, so that the others have lost it.
  bool stood_still() const { return stood_still_; }
  void set_timeout(double seconds) { timeout_ = seconds; }
  double timeout() const { return timeout_; }

  // What is known of all ranks; from now on those of this host are watched. Where the caller does not come
  // to hear of a loss soon, `abandon` is called on the thread with all endings, and does not return. A
  // launcher that asks to end may do so as a rank of another host has died: `worry` gets what is waited for
  // then, before the launcher ends this process too.
  void know(std::vector<Peer> peers, std::function<void(const Slates&)> abandon,
            std::function<void(const std::string&)> worry = nullptr);
  // As Ranks::swap_at(). Returns the bytes sent.
  std::int64_t swap(std::span<const std::span<const std::byte>> send,
                    std::span<const std::span<std::byte>> receive, const RankPlace& place);
  // Tells the others how this rank ends, and returns what they say: after a failure anywhere it waits for two
  // seconds at most. Who says nothing has Ending::kNone.
  Slates leave(const Slate& own);
  // Closes the wire, where all have left well. False: not within the time.
  bool finish(double seconds);

  // Somewhere in this process a rank is lost or leaves: signals of the launcher to end it need not be heeded.
  static inline std::atomic<bool> some_leave = false;

 private:
  using Clock = std::chrono::steady_clock;
  using Job = std::function<bool()>;  // works on; true: done
  struct Stream;

  void run();
  bool open_wire();
  std::exception_ptr work_on(const Job& job);
  void do_there(Job job, double seconds_of_silence);
  bool advance(Stream& stream);
  void watch();
  void abandon_where_unheard();
  void hear_of(std::size_t rank);
  void worry_about(std::size_t rank);
  void lose(const std::string& why);
  Job leaving(const Slate& own);
  bool all_left() const;
  bool some_failed() const;
  void hear() { heard_ = Clock::now().time_since_epoch().count(); }
  double silence() const;
  std::string named(std::size_t rank) const;

  const std::function<std::unique_ptr<Wire>()> open_;
  int rank_ = 0, size_ = 1;
  double timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Under the mutex. The caller waits while there is a job.
  std::shared_ptr<const Job> job_;
  std::exception_ptr error_;
  bool is_open_ = false, ends_ = false;
  std::atomic<bool> is_stuck_ = false, stood_still_ = false;
  std::atomic<Clock::rep> heard_ = 0;  // when bytes moved last, of the job
  // The thread's.
  std::unique_ptr<Wire> wire_;
  std::vector<Peer> peers_;
  std::function<void(const Slates&)> abandon_;
  std::function<void(const std::string&)> worry_;
  RankPlace place_;  // of the last exchange
  Slates slates_;
  std::vector<int> slate_transfers_;  // -1: has come, or is this rank's
  std::string lost_;
  Clock::time_point lost_at_, watched_at_, asked_at_ = Clock::time_point::max();
  std::thread thread_;
};

// The ranks of a transport, which outlives them.
class WiredRanks final : public Ranks {
 public:
  explicit WiredRanks(Transport& transport)
      : Ranks(transport.rank(), transport.size()), transport_(transport) {}
  void swap_at(const RankPlace& place, std::span<const std::span<const std::byte>> send,
               std::span<const std::span<std::byte>> receive) override {
    sent_ += transport_.swap(send, receive, place);
  }
  void set_timeout(double seconds) override { transport_.set_timeout(seconds); }
  double timeout() const override { return transport_.timeout(); }
  std::string name_of(int rank) const override { return names_[static_cast<std::size_t>(rank)]; }
  void know(std::vector<std::string> names, const RankHost& host) {
    names_ = std::move(names);
    host_ = host;
  }

 private:
  Transport& transport_;
  std::vector<std::string> names_ = std::vector<std::string>(static_cast<std::size_t>(size()), "a rank");
};

}  // namespace lpmm
