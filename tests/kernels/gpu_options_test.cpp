// A GPU that works on its caller's stream, in its caller's memory.
#if defined(LPMM_HAS_CUDA)
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <stdexcept>
#include <vector>

#include "kernels/cuda/gpu/gpu.h"
#include "kernels/formats/format.h"

namespace lpmm::kernels {
namespace {

TEST(GpuOptions, AllocateAndReleaseComeTogether) {
  const auto allocate = [](std::int64_t) { return static_cast<void*>(nullptr); };
  EXPECT_THROW(make_gpu(1, {.allocate = allocate}), std::invalid_argument);
}

TEST(GpuOptions, WorkFollowsTheCallersOnItsStreamInItsMemory) {
  if (!gpu_is_there()) GTEST_SKIP() << gpu_backend().why_not;
  constexpr std::int64_t kElements = std::int64_t{1} << 24;
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  std::set<void*> held;
  const auto allocate = [&](std::int64_t bytes) {
    void* memory = nullptr;
    if (cudaMalloc(&memory, static_cast<std::size_t>(bytes)) != cudaSuccess) return memory;
    held.insert(memory);
    return memory;
  };
  const auto release = [&](void* memory, std::int64_t) {
    EXPECT_EQ(held.erase(memory), 1U);
    cudaFree(memory);
  };
  {
    const auto device =
        make_gpu(1, {.number = 0, .stream = stream, .allocate = allocate, .release = release});
    const DeviceMemory codes = device->allocate(2 * kElements), out = device->allocate(4 * kElements);
    EXPECT_EQ(held.size(), 2U);
    // The caller writes bf16 ones on its stream; nobody waits before they are decoded.
    const std::vector<std::uint16_t> ones(kElements, 0x3f80);
    std::vector<float> got(kElements);
    ASSERT_EQ(cudaMemcpyAsync(codes.get(), ones.data(), 2 * kElements, cudaMemcpyHostToDevice, stream),
              cudaSuccess);
    RoleView view;
    view.codec.format = {Map::kBf16, 16};
    view.codes = reinterpret_cast<std::uint8_t*>(codes.get());
    view.elements = kElements;
    device->decode(view, 0, kElements, reinterpret_cast<float*>(out.get()));
    ASSERT_EQ(cudaMemcpyAsync(got.data(), out.get(), 4 * kElements, cudaMemcpyDeviceToHost, stream),
              cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(got, std::vector<float>(kElements, 1.0F));
  }
  EXPECT_TRUE(held.empty());
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);  // it is still the caller's
}

}  // namespace
}  // namespace lpmm::kernels
#endif
