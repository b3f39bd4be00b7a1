#include "kernels/cuda/guarded.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

namespace lpmm::kernels::cuda_emulated {
namespace {

constexpr std::size_t kPage = 4096, kHugePage = 1 << 21;
constexpr std::size_t kMost = std::size_t{1} << 36;  // bytes at once
// To open and to close takes time by pages, which are huge where there is much; to make a huge one takes
// long.
constexpr std::size_t kInSmallPages = kHugePage;

// All of it lies in one range of addresses, so that one call opens or closes it.
struct Range {
  std::mutex mutex;
  std::byte* base = nullptr;
  std::map<std::size_t, std::size_t> taken;  // first byte: bytes
  int open = 0;                              // how many Unguarded live

  // The first gap of `bytes`; kMost where there is none.
  std::size_t gap_of(std::size_t bytes) const {
    std::size_t at = 0;
    for (const auto& [first, size] : taken) {
      if (first - at >= bytes) return at;
      at = first + size;
    }
    return kMost - at >= bytes ? at : kMost;
  }
  std::size_t used() const {  // in whole pages
    if (taken.empty()) return 0;
    const auto& [first, size] = *taken.rbegin();
    const std::size_t end = first + size;
    return end <= kInSmallPages ? end : (end + kHugePage - 1) / kHugePage * kHugePage;
  }
  void protect(int protection) const {
    if (used() == 0 || mprotect(base, used(), protection) == 0) return;
    std::perror(
        "lpmm: the emulated device's memory");  // it would hold what nobody can read, or guard nothing
    std::abort();
  }
};
Range& range() {
  static Range all;
  return all;
}

}  // namespace

std::byte* allocate_guarded(std::int64_t bytes) {
  Range& r = range();
  const std::lock_guard lock(r.mutex);
  if (r.base == nullptr) {
    void* memory =
        mmap(nullptr, kMost + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    const std::size_t over = reinterpret_cast<std::uintptr_t>(memory) % kHugePage;
    r.base = static_cast<std::byte*>(memory) + (kHugePage - over) % kHugePage;
    madvise(r.base + kInSmallPages, kMost - kInSmallPages, MADV_HUGEPAGE);
  }
  if (bytes <= 0 || static_cast<std::size_t>(bytes) > kMost) return nullptr;
  const std::size_t size = (static_cast<std::size_t>(bytes) + kPage - 1) / kPage * kPage;
  const std::size_t first = r.gap_of(size);
  if (first == kMost) return nullptr;
  r.taken[first] = size;
  if (r.open > 0) r.protect(PROT_READ | PROT_WRITE);
  return r.base + first;
}

void release_guarded(std::byte* memory) noexcept {
  Range& r = range();
  const std::lock_guard lock(r.mutex);
  const auto at = r.taken.find(static_cast<std::size_t>(memory - r.base));
  // The next allocation finds zeros there, and nobody may read what was.
  madvise(memory, at->second, MADV_DONTNEED);
  mprotect(memory, at->second, PROT_NONE);
  r.taken.erase(at);
}

Unguarded::Unguarded() {
  const std::lock_guard lock(range().mutex);
  if (range().open++ == 0) range().protect(PROT_READ | PROT_WRITE);
}
Unguarded::~Unguarded() {
  const std::lock_guard lock(range().mutex);
  if (--range().open == 0) range().protect(PROT_NONE);
}

}  // namespace lpmm::kernels::cuda_emulated
