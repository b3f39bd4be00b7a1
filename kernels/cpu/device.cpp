#include "kernels/cpu.h"

namespace lpmm::kernels {

CpuDevice::CpuDevice(int threads) : threads_(threads > 0 ? threads : Pool::usable_processors()) {}

Pool& CpuDevice::pool() {
  if (!pool_) pool_.emplace(threads_);
  return *pool_;
}

}  // namespace lpmm::kernels
