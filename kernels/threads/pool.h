// A fixed set of threads. Work is cut by element ranges that never depend on the number of threads, so any
// thread may take any item and the result is the same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace lpmm {

// Runs work(data) in up to so many threads that are not this library's, the calling one included, and returns
// when all are done. OpenMP's GOMP_parallel is one, whose flags are 0 here.
using Team = void (*)(void (*work)(void* data), void* data, unsigned threads, unsigned flags);

class Pool {
 public:
  // threads >= 1, the calling thread included; 0 takes all processors this process may run on. They are those
  // of the team where there is one, else the pool's own: throws std::runtime_error where the system refuses
  // one.
  explicit Pool(int threads = 0, Team team = nullptr);
  static int usable_processors();
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const;

  // Runs body(item, thread) for item 0..items-1, thread in 0..threads()-1; returns when all are done. The
  // first exception thrown by a body is rethrown here. Denormals are kept in every thread. Several threads
  // may call it: they take turns. A body may not.
  void for_each(std::int64_t items, const std::function<void(std::int64_t item, int thread)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lpmm
