#include "lpmm/memory/slots/behind.h"

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include "lpmm/ranks/ranks.h"

namespace lpmm {

Behind::Behind(const Shares& shares, int tensors, Ranks& ranks, Rounds calls)
    : ranks_(ranks),
      rounds_(shares.most_rounds()),
      calls_(std::move(calls)),
      spans_(static_cast<std::size_t>(tensors)),
      made_(rounds_),
      allowed_(rounds_) {
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const auto rounds = shares.rounds(rank);
    for (std::size_t j = 0; j < rounds.size(); ++j) {
      for (const Shares::Piece& p : rounds[j].pieces) {
        Span& span = spans_[static_cast<std::size_t>(p.tensor)];
        span = span.end == 0 ? Span{j, j + 1} : Span{std::min(span.first, j), std::max(span.end, j + 1)};
      }
    }
  }
  ranks_.before_swaps([this] {
    if (sends_accumulators()) throw std::logic_error("ranks exchange something else in a backward pass");
    wait(rounds_);
  });
}

Behind::~Behind() {
  ranks_.before_swaps(nullptr);
  if (std::uncaught_exceptions() > 0) return;
  try {
    wait(rounds_);
  } catch (const std::exception&) {  // another rank has ended
  }
}

void Behind::begin_step(std::uint32_t step, const std::function<bool(int tensor)>& has_no_gradient) {
  {
    const std::scoped_lock lock(mutex_);
    if (made_ > rounds_) made_ = allowed_ = rounds_;  // nothing was updated since
  }
  step_ = step;
  incomplete_.assign(rounds_, 0);
  for (int tensor = 0; tensor < static_cast<int>(spans_.size()); ++tensor) {
    const Span& span = spans_[static_cast<std::size_t>(tensor)];
    if (has_no_gradient(tensor)) continue;
    for (std::size_t j = span.first; j < span.end; ++j) ++incomplete_[j];
  }
  allow(rounds_);
}

void Behind::complete(int tensor) {
  const Span& span = spans_[static_cast<std::size_t>(tensor)];
  for (std::size_t j = span.first; j < span.end; ++j) --incomplete_[j];
  const auto missing = std::find_if(incomplete_.rbegin(), incomplete_.rend(), [](auto n) { return n > 0; });
  allow(rounds_ + static_cast<std::size_t>(missing - incomplete_.rbegin()));
}

void Behind::wait_for_accumulators() {
  wait(2 * rounds_);
}

void Behind::leave_step() {
  // Others may have sent theirs before this rank had any. Who leaves by an exception does not go on.
  if (sends_accumulators() || std::uncaught_exceptions() == 0) wait(2 * rounds_);
}

void Behind::updated() {
  const std::scoped_lock lock(mutex_);
  made_ = allowed_ = 0;
}

bool Behind::sends_accumulators() {
  const std::scoped_lock lock(mutex_);
  return !error_ && allowed_ > rounds_ && made_ < 2 * rounds_;
}

// Those before `end` may be made from now on.
void Behind::raise(std::size_t end) {
  const std::size_t first = std::max(allowed_, rounds_);
  if (end > first) calls_.are_complete(2 * rounds_ - end, 2 * rounds_ - first);
  allowed_ = std::max(allowed_, end);
}

void Behind::allow(std::size_t end) {
  const std::scoped_lock lock(mutex_);
  raise(end);
  if (runs_ || error_ || made_ >= allowed_) return;
  try {
    thread_ = std::async(std::launch::async, [this] { make_allowed(); });
    runs_ = true;
  } catch (const std::exception&) {  // no thread is to be had: who waits for them makes them
  }
}

void Behind::wait(std::size_t end) {
  std::unique_lock lock(mutex_);
  raise(end);
  if (!runs_ && !error_ && made_ < end) {
    runs_ = true;
    lock.unlock();
    make_allowed();
    lock.lock();
  }
  changed_.wait(lock, [&] { return made_ >= end || error_; });
  if (error_) std::rethrow_exception(error_);
}

void Behind::make_allowed() {
  std::unique_lock lock(mutex_);
  try {
    while (made_ < allowed_) {
      const std::size_t next = made_;
      lock.unlock();
      next < rounds_ ? calls_.parameters(next) : calls_.accumulators(2 * rounds_ - 1 - next);
      lock.lock();
      ++made_;
      changed_.notify_all();
    }
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    error_ = std::current_exception();
  }
  runs_ = false;
  changed_.notify_all();
}

}  // namespace lpmm
