#include "lpmm/memory/pages.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <numeric>

#include "kernels/compute.h"
#include "lpmm/base/error.h"

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

Pages::~Pages() {
  if (data_ != nullptr) munmap(data_, static_cast<std::size_t>(bytes_));
}

void Pages::allocate(std::int64_t bytes, const std::string& what, const char* advice) {
  if (bytes == 0 || data_ != nullptr) return;
  void* p = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) {
    throw RunError(
        fmt::format("no memory for {}: {:.1f} MB; use {}", what, static_cast<double>(bytes) / 1e6, advice));
  }
  data_ = static_cast<std::byte*>(p);
  bytes_ = bytes;
}

}  // namespace lpmm
