// What kernels/cuda.h declares, where CUDA is not built in.
#include <stdexcept>

#include "kernels/cuda.h"

namespace lpmm::kernels::cuda {
namespace {

constexpr const char* kWhy = "this lpmm was built without CUDA; build it where nvcc 12 or newer is found";

[[noreturn]] void refuse() {
  throw std::runtime_error(kWhy);
}

}  // namespace

const char* unavailable() {
  return kWhy;
}
void* allocate(std::int64_t) {
  refuse();
}
void release(void*) noexcept {}
void upload(void*, const void*, std::int64_t) {
  refuse();
}
void download(void*, const void*, std::int64_t) {
  refuse();
}
void encode(const RoleView&, std::int64_t, std::int64_t, const float*, const Noise&, int*, Stream) {
  refuse();
}
void decode(const RoleView&, std::int64_t, std::int64_t, float*, Stream) {
  refuse();
}
void fold(const RoleView&, std::int64_t, std::int64_t, const float*, float, const Noise&, int*, Stream) {
  refuse();
}
void update(const Rule&, const RoleArray<RoleView>&, const Noise&, int*, Stream) {
  refuse();
}

}  // namespace lpmm::kernels::cuda
