// A fixed set of threads. Work is cut by element ranges that never depend on the number of threads, so any
// thread may take any item and the result is the same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace lpmm {

class Pool {
 public:
  // threads >= 1, the calling thread included; 0 takes all processors this process may run on. Throws
  // std::runtime_error where the system refuses a thread.
  explicit Pool(int threads = 0);
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
