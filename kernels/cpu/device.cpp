#include <sys/mman.h>

#include <cstring>

#include "kernels/cpu.h"

namespace lpmm::kernels {

CpuDevice::CpuDevice(int threads) : threads_(threads > 0 ? threads : Pool::usable_processors()) {}

Pool& CpuDevice::pool() {
  std::call_once(pool_begun_, [&] { pool_.emplace(threads_); });
  return *pool_;
}

// Whole pages, which the system gives zeroed and takes back at once; what is never touched is never resident.
DeviceMemory CpuDevice::allocate(std::int64_t bytes) {
  void* memory = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) memory = nullptr;
  return {static_cast<std::byte*>(memory), {this, bytes}};
}
void CpuDevice::release(std::byte* memory, std::int64_t bytes) noexcept {
  munmap(memory, static_cast<std::size_t>(bytes));
}

void CpuDevice::copy(void* to, const void* from, std::int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}
void CpuDevice::upload(void* to, const void* host, std::int64_t bytes) {
  copy(to, host, bytes);
}
void CpuDevice::download(void* host, const void* from, std::int64_t bytes) {
  copy(host, from, bytes);
}
void CpuDevice::fill_with_zeros(void* to, std::int64_t bytes) {
  if (bytes > 0) std::memset(to, 0, static_cast<std::size_t>(bytes));
}

}  // namespace lpmm::kernels
