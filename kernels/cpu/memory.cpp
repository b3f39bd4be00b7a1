#include <sys/mman.h>

#include <cstring>

#include "kernels/cpu_packed.h"

namespace lpmm::kernels::cpu {

// Whole pages, which the system gives zeroed and takes back at once; what is never touched is never resident.
std::byte* allocate(std::int64_t bytes) {
  void* memory = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}
void release(std::byte* memory, std::int64_t bytes) noexcept {
  munmap(memory, static_cast<std::size_t>(bytes));
}
void copy(void* to, const void* from, std::int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}
void fill_with_zeros(void* to, std::int64_t bytes) {
  if (bytes > 0) std::memset(to, 0, static_cast<std::size_t>(bytes));
}

}  // namespace lpmm::kernels::cpu
