#include "lpmm/program/liveness.h"

#include <algorithm>
#include <numeric>

#include "kernels/compute.h"

namespace lpmm {

std::int64_t place(std::vector<Lifetime>& lifetimes) {
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  std::int64_t total = 0;
  std::vector<const Lifetime*> placed;  // by offset
  for (const std::size_t i : order) {
    Lifetime& life = lifetimes[i];
    const std::int64_t bytes = kernels::aligned(life.bytes);
    std::int64_t offset = 0;
    for (const Lifetime* other : placed) {
      if (other->end < life.begin || life.end < other->begin) continue;
      if (offset + bytes <= other->offset) break;
      offset = std::max(offset, other->offset + kernels::aligned(other->bytes));
    }
    life.offset = offset;
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), &life,
                         [](const Lifetime* a, const Lifetime* b) { return a->offset < b->offset; }),
        &life);
    total = std::max(total, offset + bytes);
  }
  return total;
}

}  // namespace lpmm
