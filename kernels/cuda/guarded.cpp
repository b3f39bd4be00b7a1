#include "kernels/cuda/guarded.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

namespace lpmm::kernels::cuda_emulated {
namespace {

struct Pages {
  std::mutex mutex;
  std::map<std::byte*, std::size_t> all;
  int open = 0;  // how many Unguarded live
};
Pages& pages() {
  static Pages all;
  return all;
}

void protect(int protection) {
  for (const auto& [memory, bytes] : pages().all) {
    if (mprotect(memory, bytes, protection) == 0) continue;
    std::perror(
        "lpmm: the emulated device's memory");  // it would hold what nobody can read, or guard nothing
    std::abort();
  }
}

}  // namespace

std::byte* allocate_guarded(std::int64_t bytes) {
  const std::lock_guard lock(pages().mutex);
  const int protection = pages().open > 0 ? PROT_READ | PROT_WRITE : PROT_NONE;
  const auto size = static_cast<std::size_t>(bytes);
  void* memory = mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  pages().all[static_cast<std::byte*>(memory)] = size;
  return static_cast<std::byte*>(memory);
}

void release_guarded(std::byte* memory, std::int64_t bytes) noexcept {
  const std::lock_guard lock(pages().mutex);
  pages().all.erase(memory);
  munmap(memory, static_cast<std::size_t>(bytes));
}

Unguarded::Unguarded() {
  const std::lock_guard lock(pages().mutex);
  if (pages().open++ == 0) protect(PROT_READ | PROT_WRITE);
}
Unguarded::~Unguarded() {
  const std::lock_guard lock(pages().mutex);
  if (--pages().open == 0) protect(PROT_NONE);
}

}  // namespace lpmm::kernels::cuda_emulated
