#include "lpmm/memory/pages.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include "lpmm/base/error.h"

namespace lpmm {

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
