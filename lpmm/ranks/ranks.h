// The processes that train one model together. They exchange bytes only: whoever adds numbers adds them in an
// order of its own, so that no result depends on how many there are.
//
// All ranks make the same calls in the same order; each is used by one thread at a time. A call ends within
// the timeout: it throws RankLost where another rank has ended, or has not been heard of for so long.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lpmm/base/error.h"

namespace lpmm {

class RankLost : public RunError {
 public:
  using RunError::RunError;
};

// The place of a rank, for errors: a step, and the phase of that step.
struct RankPlace {
  std::int64_t step = 0;
  const char* phase = "start";
};

// "in step 3 (update)".
std::string to_string(const RankPlace& place);

// Where a rank runs: which one it is of those of its host, and how many of these have the processors that it
// has.
struct RankHost {
  int rank = 0, ranks = 1, sharing = 1;
};

class Ranks {
 public:
  virtual ~Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  int rank() const { return rank_; }
  int size() const { return size_; }  // 1: alone
  bool is_first() const { return rank_ == 0; }
  const RankHost& host() const { return host_; }
  // "rank 3", and where that is, if they may be on several hosts.
  virtual std::string name_of(int rank) const;
  virtual void set_timeout(double seconds) = 0;
  virtual double timeout() const = 0;
  // Returns true if each may read what the others have in memory: no rank is of another host, and none was
  // told to send it all the same, nor found that it cannot read.
  bool may_read() const { return reads_ && host_.ranks == size_; }
  void let_read(bool reads) {
    if (size_ > 1) reads_ = reads;
  }
  // Returns true if their devices may send to each other without the host (DeviceLink); once a model memory
  // is there, if they do.
  bool may_link() const { return links_; }
  void let_link(bool links) {
    if (size_ > 1) links_ = links;
  }

  // Sends send[i] to rank i and fills receive[i] with the bytes that it sends, whose number is known here;
  // all at once. Its own entries are not used.
  void swap(std::span<const std::span<const std::byte>> send, std::span<const std::span<std::byte>> receive) {
    begin_exchange();
    swap_at(*place_, send, receive);
  }
  // Called before each exchange that another thread does not make: each swap(), and all that makes one. Null:
  // nothing is.
  void begin_exchange() const {
    if (before_) before_();
  }
  void before_swaps(std::function<void()> call) { before_ = std::move(call); }
  // A swap that nothing is called before; `place` is for errors. Another thread may call it, if no call is
  // under way.
  virtual void swap_at(const RankPlace& place, std::span<const std::span<const std::byte>> send,
                       std::span<const std::span<std::byte>> receive) = 0;
  const RankPlace& place() const { return *place_; }
  // Sets the place that errors of later calls name; write_place() says where it is kept.
  void now_in(std::int64_t step, const char* phase) {
    if (size_ > 1) *place_ = {step, phase};
  }
  void write_place(RankPlace* place) { place_ = place; }

  // The bytes of every rank, in order; lengths may differ.
  std::vector<std::string> gather(std::string_view mine);
  // The same of a value, and of values that are joined.
  template <class T>
  requires std::is_trivially_copyable_v<T> std::vector<T> all(const T& mine) { return all_of<T>({&mine, 1}); }
  template <class T>
  requires std::is_trivially_copyable_v<T> std::vector<T> all_of(std::span<const T> mine) {
    std::vector<T> values;
    for (const std::string& bytes : gather({reinterpret_cast<const char*>(mine.data()), mine.size_bytes()})) {
      const std::size_t count = bytes.size() / sizeof(T), before = values.size();
      values.resize(before + count);
      if (count > 0) std::memcpy(static_cast<void*>(values.data() + before), bytes.data(), count * sizeof(T));
    }
    return values;
  }
  // Returns true if it holds on any rank.
  bool any(bool mine);
  // Returns when all ranks have come here. As of swap_at(), nothing is called before it.
  void meet_at(const RankPlace& place);
  // Returns when something is done that ranks do without these calls. Throws RankLost where that takes longer
  // than the timeout. Another thread may call it.
  void wait_at(const RankPlace& place, const std::function<bool()>& is_done) const;

  std::int64_t sent_bytes() const { return sent_; }  // to all others so far
  std::int64_t read_bytes() const { return read_; }  // of others' memory, where it lies
  void count_read(std::int64_t bytes) { read_ += bytes; }
  void count_sent(std::int64_t bytes) { sent_ += bytes; }

 protected:
  Ranks(int rank, int size) : host_{rank, size, size}, rank_(rank), size_(size) {}
  std::atomic<std::int64_t> sent_ = 0;
  RankHost host_;

 private:
  int rank_, size_;
  bool reads_ = true, links_ = true;
  std::atomic<std::int64_t> read_ = 0;
  std::function<void()> before_;
  RankPlace own_place_;
  RankPlace* place_ = &own_place_;
};

// The only one; threads may share it.
Ranks& alone();  // NOLINT(readability-redundant-declaration): model_memory.h names it too

// `count` ranks that are linked by pairs of sockets, in order: for threads of this process, or to be taken by
// its children after a fork. Throws RunError where there are no sockets.
std::vector<std::unique_ptr<Ranks>> linked_ranks(int count, double timeout_seconds);

}  // namespace lpmm
