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
void encode(const RoleView&, std::int64_t, std::int64_t, const float*, const Noise&, bool*, Stream) {
  refuse();
}
void decode(const RoleView&, std::int64_t, std::int64_t, float*, Stream) {
  refuse();
}
void decode_bf16(const RoleView&, std::int64_t, std::int64_t, std::uint16_t*, Stream) {
  refuse();
}
void decode_rows(const RoleView&, std::int64_t, const std::int32_t*, std::int64_t, float*, Stream) {
  refuse();
}
void fold(const RoleView&, std::int64_t, std::int64_t, const float*, const FoldArgs&, FoldResult*, Stream) {
  refuse();
}
void square_sum(const RoleView&, std::int64_t, std::int64_t, double*, Stream) {
  refuse();
}
void clear(const RoleView&, Stream) {
  refuse();
}
void update(const TensorUpdate&, Stream) {
  refuse();
}
void update(std::span<const TensorUpdate>, Stream) {
  refuse();
}

}  // namespace lpmm::kernels::cuda
