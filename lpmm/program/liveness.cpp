#include "lpmm/program/liveness.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/compute.h"

namespace lpmm {
namespace {

// Offsets that are taken, as stretches that neither overlap nor touch.
class Taken {
 public:
  void add(std::int64_t begin, std::int64_t end) {
    const auto first = std::ranges::lower_bound(stretches_, begin, {}, &Stretch::second);
    const auto last = std::ranges::upper_bound(stretches_, end, {}, &Stretch::first);
    if (first == last) {
      stretches_.insert(first, {begin, end});
      return;
    }
    *first = {std::min(begin, first->first), std::max(end, std::prev(last)->second)};
    stretches_.erase(std::next(first), last);
  }
  // The end of the first stretch that [begin, end) meets; `begin` where it meets none.
  std::int64_t past(std::int64_t begin, std::int64_t end) const {
    const auto at = std::ranges::upper_bound(stretches_, begin, {}, &Stretch::second);
    return at == stretches_.end() || at->first >= end ? begin : at->second;
  }
  bool is_empty() const { return stretches_.empty(); }

 private:
  using Stretch = std::pair<std::int64_t, std::int64_t>;
  std::vector<Stretch> stretches_;
};

// The bytes that are taken at each time: a tree whose nodes stand for ranges of times. Values of equal size
// lie side by side, so that a node has few stretches however many values it holds.
class Occupancy {
 public:
  Occupancy(int begin, int end) : begin_(begin) {
    while (times_ < end - begin + 1) times_ *= 2;
    nodes_.resize(2 * static_cast<std::size_t>(times_));
  }

  // Takes the lowest `bytes` that are free from life.begin to life.end.
  std::int64_t take(const Lifetime& life, std::int64_t bytes) {
    met_.clear();
    visit(1, 0, times_ - 1, life, [&](Node& node, bool is_whole) {
      const Taken& met = is_whole ? node.at_any_time : node.all_the_time;
      if (!met.is_empty()) met_.push_back(&met);
    });
    std::int64_t offset = 0;
    for (std::size_t i = 0, clear = 0; clear < met_.size(); i = (i + 1) % met_.size()) {
      ++comparisons_;
      const std::int64_t next = met_[i]->past(offset, offset + bytes);
      clear = next == offset ? clear + 1 : 0;
      offset = next;
    }
    visit(1, 0, times_ - 1, life, [&](Node& node, bool is_whole) {
      node.at_any_time.add(offset, offset + bytes);
      if (is_whole) node.all_the_time.add(offset, offset + bytes);
    });
    return offset;
  }
  std::int64_t comparisons() const { return comparisons_; }

 private:
  struct Node {
    Taken at_any_time, all_the_time;  // of its range
  };

  // The nodes that together are life's range (`is_whole`), and those above them.
  template <class Body>
  void visit(std::size_t node, int first, int last, const Lifetime& life, const Body& body) {
    if (life.end - begin_ < first || last < life.begin - begin_) return;
    const bool is_whole = life.begin - begin_ <= first && last <= life.end - begin_;
    body(nodes_[node], is_whole);
    if (is_whole) return;
    const int middle = first + (last - first) / 2;
    visit(2 * node, first, middle, life, body);
    visit(2 * node + 1, middle + 1, last, life, body);
  }

  int begin_, times_ = 1;
  std::vector<Node> nodes_;
  std::vector<const Taken*> met_;
  std::int64_t comparisons_ = 0;
};

}  // namespace

std::int64_t place(std::vector<Lifetime>& lifetimes, std::int64_t* comparisons) {
  if (lifetimes.empty()) return 0;
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  Occupancy occupancy(std::ranges::min(lifetimes, {}, &Lifetime::begin).begin,
                      std::ranges::max(lifetimes, {}, &Lifetime::end).end);
  std::int64_t total = 0;
  for (const std::size_t i : order) {
    Lifetime& life = lifetimes[i];
    const std::int64_t bytes = kernels::aligned(life.bytes);
    life.offset = bytes == 0 ? 0 : occupancy.take(life, bytes);
    total = std::max(total, life.offset + bytes);
  }
  if (comparisons != nullptr) *comparisons = occupancy.comparisons();
  return total;
}

}  // namespace lpmm
