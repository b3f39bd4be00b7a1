// Memory of the emulated device: as with a GPU, the host cannot touch it, except while a kernel runs. Code
// that forgets to copy is stopped by the system at once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lpmm::kernels::cuda_emulated {

// Zeroed pages; null where there are none.
std::byte* allocate_guarded(std::int64_t bytes);
void release_guarded(std::byte* memory) noexcept;

// While one lives, all of it can be touched.
class Unguarded {
 public:
  Unguarded();
  ~Unguarded();
  Unguarded(const Unguarded&) = delete;
  Unguarded& operator=(const Unguarded&) = delete;
};

}  // namespace lpmm::kernels::cuda_emulated
